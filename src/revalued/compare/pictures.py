"""The picture of a comparison: curves over interactions and over minutes, the random and the best policy as lines."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from revalued.compare.contestants import CONTESTANTS
from revalued.compare.result_table import RunCurve
from revalued.compare.tables import Comparison, Entry
from revalued.report.drawing import GREY, INK, Figure, Panel, colours_of
from revalued.report.statistics import LEVEL, SEED
from revalued.seeding import stream_rng

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Positions = Callable[[RunCurve], NDArray[np.float64]]
_POINTS, _RESAMPLES = 80, 1_000


def comparison_figure(name: str, found: Comparison) -> Figure:
    """Return the picture of one problem."""
    colours = colours_of([entry.name for entry in found.entries])
    task = found.provenance["task"]
    minutes = "minutes of one core" if found.budget.clock == "cpu" else "minutes"
    panels = (
        Panel(
            f"Returns on {task} over interactions",
            partial(_draw, found, colours, lambda curve: curve.env_steps, "interactions", _our_env_steps(found)),
        ),
        Panel(
            f"Returns on {task} over {minutes}",
            partial(_draw, found, colours, lambda curve: curve.seconds / 60, minutes, None),
        ),
    )
    legend = tuple((entry.label, colours[entry.name]) for entry in found.entries)
    return Figure(name, f"Greedy test episodes on {task}; bands are 95% intervals over seeds.", panels, legend)


def _our_env_steps(found: Comparison) -> float | None:
    """Return where our longest curve ends: whoever steps much faster would squeeze the others into a corner."""
    ours = [entry for entry in found.entries if not CONTESTANTS[entry.contestant].is_peer]
    return max((float(curve.env_steps[-1]) for entry in ours for curve in entry.curves.values()), default=None)


def _draw(
    found: Comparison, colours: dict[str, str], where: Positions, label: str, end: float | None, axes: Axes
) -> None:
    for entry in found.entries:
        positions, mean, band = mean_curve(entry, where, end)
        axes.plot(positions, mean, color=colours[entry.name])
        if band is not None:
            axes.fill_between(positions, *band, color=colours[entry.name], alpha=0.15, linewidth=0)
    if found.random is not None:
        axes.axhline(found.random, color=GREY, linestyle=":", linewidth=1.2)
    if found.provenance["optimum"] is not None:
        axes.axhline(found.provenance["optimum"], color=INK, linestyle="--", linewidth=1.0)
    axes.set_xlabel(label)
    axes.set_ylabel("return of test episodes")
    axes.set_title(found.provenance["task"])


def mean_curve(
    entry: Entry, where: Positions, end: float | None
) -> tuple[NDArray[np.float64], NDArray[np.float64], tuple[NDArray[np.float64], NDArray[np.float64]] | None]:
    """Return the mean over seeds on a grid that all of them cover, and its bootstrap band where there are several."""
    curves = [entry.curves[seed] for seed in sorted(entry.curves)]
    last = min(float(where(curve)[-1]) for curve in curves)
    grid = np.linspace(0.0, last if end is None else min(last, end), _POINTS)
    values = np.stack([np.interp(grid, where(curve), curve.returns) for curve in curves])
    if len(curves) == 1:
        return grid, values[0], None
    chosen = stream_rng(SEED).integers(len(curves), size=(_RESAMPLES, len(curves)))
    low, high = np.quantile(values[chosen].mean(axis=1), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return grid, values.mean(axis=0), (low, high)
