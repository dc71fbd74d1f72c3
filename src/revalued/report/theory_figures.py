"""The figures of the theorems and of the tabular experiment."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from revalued.experiments.result_files import Row
from revalued.report.drawing import COLOURS, GREY, Figure, Panel, colours_of
from revalued.report.results import ExperimentResults
from revalued.report.theory import Cell, Cells, cell_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TARGETS = {
    "dqn": ("DQN", GREY),
    "decqn": ("DecQN", COLOURS["decqn"]),
    "mean-of-max": ("ensemble, mean of maxima (as proved)", COLOURS["decqn-ensemble"]),
    "max-of-mean": ("ensemble, maximum of the mean (as used)", COLOURS["revalued"]),
    "sum": ("DecQN-Sum", COLOURS["decqn-sum"]),
}
_ENSEMBLE_COLOURS = tuple(COLOURS[name] for name in ("decqn-c51", "bdq", "decqn-ensemble", "revalued"))
_MOST_POINTS = 60
"""Of one curve: more cannot be told apart in a small panel."""
_TYPICAL = (6, 10)
"""N of walker and cheetah and K of the paper: the case drawn where it was computed."""


def theorem_figures(experiment: ExperimentResults) -> list[Figure]:
    """Return bias and variance against the number of choices, for either kind of noise."""
    rows = [row for row in experiment.rows if row["target"] in _TARGETS]
    if not rows:
        return []
    dimensions, critics = typical_case(experiment)
    noises = sorted({str(row["noise"]) for row in rows}, reverse=True)
    shown = [row for row in rows if cell_of(row).dimensions == dimensions and cell_of(row).critics in (1, critics)]
    panels = tuple(_theorem_panel(shown, noise, quantity) for noise in noises for quantity in ("bias", "variance"))
    present = [target for target in _TARGETS if any(row["target"] == target for row in shown)]
    caption = (
        f"Bias and variance of the target against the number of choices per dimension, N = {dimensions} dimensions, "
        f"K = {critics} critics. Lines: closed form; dots: simulation."
    )
    targets = Figure("theorems", caption, panels, tuple(_TARGETS[target] for target in present))
    return [targets, *_ensemble_figures(experiment.rows, dimensions)]


def typical_case(experiment: ExperimentResults) -> tuple[int, int]:
    """Return the dimensions and critics to show: of those computed, the nearest to walker's and the paper's."""
    cells = [cell_of(row) for row in experiment.rows]
    dimensions = _nearest(_TYPICAL[0], [cell.dimensions for cell in cells])
    return dimensions, _nearest(_TYPICAL[1], [cell.critics for cell in cells])


def _theorem_panel(rows: Sequence[Row], noise: str, quantity: str) -> Panel:
    chosen = [row for row in rows if row["noise"] == noise and row["quantity"] == quantity]
    name = "Gaussian" if noise == "gaussian" else noise

    def draw(axes: Axes) -> None:
        for target, (_, colour) in _TARGETS.items():
            points = {int(row["n"]): row for row in chosen if row["target"] == target}
            xs = sorted(points)
            axes.plot(xs, [points[x]["monte_carlo"] for x in xs], "o", color=colour, markersize=4)
            exact = [x for x in xs if points[x]["closed_form"] is not None]
            # dashed, so that of two targets with the same curve both are seen
            style = "--" if target == "mean-of-max" else "-"
            axes.plot(exact, [points[x]["closed_form"] for x in exact], style, color=colour, linewidth=1.4)
        _choices_axis(axes, sorted({int(row["n"]) for row in chosen}))
        axes.set(title=f"{quantity}, {name} noise", ylabel=quantity, yscale="log")

    return Panel(f"{quantity.capitalize()} of each target against the choices per dimension, {name} noise.", draw)


def _ensemble_figures(rows: Sequence[Row], dimensions: int) -> list[Figure]:
    """Return what ensembles of several sizes do to bias and variance under uniform noise, the noise of Theorem 2."""
    table = Cells(rows)
    known = [cell for cell in table.where("uniform", "max-of-mean", "bias") if cell.dimensions == dimensions]
    sizes = sorted({cell.critics for cell in known if cell.critics > 1})
    if not sizes:
        return []
    choices = sorted({cell.choices for cell in known})
    lines = [("decqn", 1, "mean of maxima, any K", GREY)]
    lines += [
        ("max-of-mean", critics, f"maximum of the mean, K = {critics}", colour)
        for critics, colour in zip(sizes, itertools.cycle(_ENSEMBLE_COLOURS), strict=False)
    ]

    def panel(quantity: str, title: str, ylabel: str) -> Panel:
        def draw(axes: Axes) -> None:
            for target, critics, _, colour in lines:
                for find, style in ((table.exact, "-"), (table.simulated, "o")):
                    points = {}
                    for count in choices:
                        value = find(Cell("uniform", dimensions, count, critics), target, quantity)
                        one_critic = table.exact(Cell("uniform", dimensions, count, 1), "decqn", "variance")
                        if value is not None and one_critic is not None:
                            scale = critics / one_critic.value if quantity == "variance" else 1.0
                            points[count] = scale * value.value
                    axes.plot(list(points), list(points.values()), style, color=colour, markersize=4, linewidth=1.4)
            _choices_axis(axes, choices)
            axes.set(title=title, ylabel=ylabel)
            if quantity == "variance":
                axes.set_yscale("log")
            else:
                axes.set_ylim(bottom=0)

        return Panel(f"{title} of ensemble targets against the choices per dimension, uniform noise.", draw)

    panels = (
        panel("bias", "Bias", "bias of the target"),
        panel("variance", "Variance times K, relative to one critic", "K · Var / Var of one critic"),
    )
    caption = (
        f"What the size of an ensemble does to its target, uniform noise, N = {dimensions} dimensions. Lines: closed "
        "form; dots: simulation."
    )
    return [Figure("theorem-2", caption, panels, tuple((label, colour) for _, _, label, colour in lines))]


def tabular_figures(experiment: ExperimentResults) -> list[Figure]:
    """Return one panel per size: how often the best sub-action is taken, against updates."""
    variants = experiment.variants
    colours = colours_of(variants)
    cells = sorted({(int(row["N"]), int(row["n"])) for row in experiment.rows})

    def panel(cell: tuple[int, int]) -> Panel:
        rows = [row for row in experiment.rows if (int(row["N"]), int(row["n"])) == cell]
        size = f"N = {cell[0]}, n = {cell[1]}"

        def draw(axes: Axes) -> None:
            for variant in variants:
                line = sorted((row for row in rows if row["variant"] == variant), key=lambda row: float(row["updates"]))
                line = line[:: -(-len(line) // _MOST_POINTS)]
                updates, frequency, error = (
                    np.array([row[column] for row in line]) for column in ("updates", "frequency", "standard_error")
                )
                low, high = frequency - 1.96 * error, frequency + 1.96 * error
                axes.plot(updates, frequency, color=colours[variant], linewidth=1.4)
                axes.fill_between(updates, low, high, color=colours[variant], alpha=0.2, linewidth=0)
            axes.set(title=size, xlabel="updates", ylabel="best sub-action, %", ylim=(0, 103))

        return Panel(f"Frequency of the best last sub-action against updates, {size}.", draw)

    trials = sorted({int(row["trials"]) for row in experiment.rows})
    caption = (
        "How often the last dimension takes its best sub-action, which is known from the start, while the others are "
        f"still learning: mean of {trials[-1] if trials else 0:,} trials with 95% intervals."
    )
    legend = tuple((experiment.label(variant), colours[variant]) for variant in variants)
    return [Figure("tabular", caption, tuple(map(panel, cells)), legend)] if cells else []


def _choices_axis(axes: Axes, choices: Sequence[int]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(choices, [str(count) for count in choices])
    axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    axes.set_xlabel("n, choices per dimension")


def _nearest(wanted: int, known: Sequence[int]) -> int:
    return min((value for value in known if value > 1), key=lambda value: abs(value - wanted), default=1)
