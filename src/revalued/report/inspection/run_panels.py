"""Pictures of how a run learnt and of what is in its replay, each a small panel that fits a phone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from revalued.report.drawing import GREY, Panel
from revalued.report.inspection.replay_errors import ReplayErrors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"
Table = Sequence[dict[str, str]]
Curves = dict[str, tuple[list[float], list[float]]]


def curves(rows: Table, columns: Sequence[str]) -> Curves:
    """Return (interactions, values) of those columns of a table that hold numbers."""
    found: Curves = {}
    for column in columns:
        pairs = [(row.get("env_steps"), row.get(column)) for row in rows]
        points = [(float(x), float(y)) for x, y in pairs if x and y and math.isfinite(float(x) + float(y))]
        if points:
            found[column] = ([x for x, _ in points], [y for _, y in points])
    return found


def learning_panels(tests: Table, metrics: Table, gradient_clip: float) -> list[Panel]:
    """Draw the learning curve and what the learner logged; what was never logged is left out."""
    panels: list[Panel] = []
    returns = {**curves(tests, ["return"]), **curves(metrics, ["train_return"])}
    if returns:

        def draw_returns(axes: Axes) -> None:
            if "train_return" in returns:
                axes.plot(*returns["train_return"], ".", color=ORANGE, alpha=0.5, markersize=4, label="training")
            if "return" in returns:
                axes.plot(*returns["return"], color=BLUE, label="test, greedy")
            _over_interactions(axes, "Return of an episode")

        panels.append(Panel("learning curve: returns over interactions", draw_returns))
    groups = (
        ("Loss", {"loss": "weighted, all critics", "td_loss": "TD, per critic", "regulariser": "regulariser"}, "log"),
        ("Mean Q-value", {"mean_q": "Q(s, a)", "mean_target": "target y"}, "linear"),
        ("Mean |TD error|", {"td_error": "|y − Q|"}, "log"),
        ("Gradient norm", {"gradient_norm": "mean over critics"}, "log"),
    )
    for title, labels, scale in groups:
        lines = curves(metrics, list(labels))
        if lines:
            limit = gradient_clip if title == "Gradient norm" else None
            panels.append(Panel(f"{title.lower()} over interactions", _line_drawer(title, labels, lines, scale, limit)))
    return panels


def _line_drawer(
    title: str, labels: dict[str, str], lines: Curves, scale: str, limit: float | None
) -> Callable[[Axes], None]:
    def draw(axes: Axes) -> None:
        for (column, line), colour in zip(lines.items(), (BLUE, ORANGE, GREEN), strict=False):
            axes.plot(*line, color=colour, label=labels[column], linewidth=1.4)
        highest = max(max(values) for _, values in lines.values())
        if limit is not None and highest > limit / 4:  # elsewhere it would only squeeze the curve
            axes.axhline(limit, color=GREY, linestyle="--", linewidth=1.2, label="clipped here")
        lowest = min(min(values) for _, values in lines.values())
        if scale == "log" and lowest > 0 and highest > 10 * lowest:
            axes.set_yscale("log")
            _plain_log_ticks(axes.yaxis, highest / lowest)
        _over_interactions(axes, title)

    return draw


def _over_interactions(axes: Axes, title: str) -> None:
    axes.set(title=title, xlabel="interactions")
    axes.xaxis.set_major_formatter(lambda value, position: f"{value / 1000:g}k" if value >= 1000 else f"{value:g}")
    if len(axes.get_legend_handles_labels()[0]) > 1:
        axes.legend(frameon=False, fontsize=8)


def replay_panels(errors: ReplayErrors) -> list[Panel]:
    """Draw the distributions of TD errors and of priorities."""
    drawn = {"in the replay": (errors.uniform, BLUE)}
    if errors.prioritised is not None:
        drawn["drawn by priority"] = (errors.prioritised, ORANGE)

    def draw_errors(axes: Axes, *, logarithmic: bool) -> None:
        everything = np.concatenate([values for values, _ in drawn.values()])
        edges = _edges(everything, logarithmic=logarithmic)
        for label, (values, colour) in drawn.items():
            axes.hist(values, bins=edges, histtype="step", color=colour, label=label, linewidth=1.5)
        axes.set(title="|TD error|, log scale" if logarithmic else "|TD error|", xlabel="|y − Q|")
        axes.set_ylabel("transitions")
        if logarithmic:
            axes.set_xscale("log")
            _plain_log_ticks(axes.xaxis, edges[-1] / edges[0])
        else:
            axes.set_yscale("log")
        if len(drawn) > 1:
            axes.legend(frameon=False, fontsize=8)

    panels = [
        Panel("histogram of TD errors", lambda axes: draw_errors(axes, logarithmic=False)),
        Panel("histogram of TD errors on a logarithmic axis", lambda axes: draw_errors(axes, logarithmic=True)),
    ]
    if errors.priorities is not None:
        priorities = errors.priorities

        def draw_priorities(axes: Axes) -> None:
            edges = _edges(priorities, logarithmic=True)
            axes.hist(priorities, bins=edges, color=GREEN, linewidth=0)
            axes.set(title="Stored priorities", xlabel="|y − Q| when last seen", ylabel="transitions", xscale="log")
            _plain_log_ticks(axes.xaxis, edges[-1] / edges[0])

        panels.append(Panel("histogram of stored priorities on a logarithmic axis", draw_priorities))
    return panels


def _edges(values: NDArray[Any], *, logarithmic: bool, bins: int = 50) -> list[float]:
    """Return the edges of a histogram; errors of exactly 0 go into the lowest bin of a logarithmic one."""
    highest = max(float(values.max()), 1e-9) * 1.0001
    if not logarithmic:
        return [float(edge) for edge in np.linspace(0.0, highest, bins + 1)]
    positive = values[values > 0]
    lowest = max(float(positive.min()) if len(positive) else highest / 10, highest * 1e-7)
    return [float(edge) for edge in np.geomspace(lowest * 0.9999, highest, bins + 1)]


def _plain_log_ticks(axis: Axis, ratio: float) -> None:
    """Label a logarithmic axis with plain numbers, at 1, 2 and 5 where there are few powers of ten."""
    from matplotlib.ticker import LogLocator

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if ratio < 50 else (1.0,), numticks=8))
    axis.set_major_formatter(lambda value, position: f"{value:g}")
    axis.set_minor_formatter("")
