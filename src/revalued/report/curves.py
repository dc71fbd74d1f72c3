"""Learning curves: over interactions, over the minutes that a person waits, and beside what others have published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from revalued.experiments.catalogue import dimensions_of
from revalued.experiments.naming import task_in_words
from revalued.experiments.recorded import NOTHING_LEARNT
from revalued.report import peers, statistics
from revalued.report.drawing import GREY, INK, Figure, Panel, colours_of, from_zero, legend_of
from revalued.report.published import reference
from revalued.report.results import ExperimentResults
from revalued.report.statistics import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INTERACTIONS = "interactions, thousands"
_PEER_MARKERS = {"SimbaV2": "s", "SimBa": "^", "BRO": "D", peers.CURVE_PEER: "o"}


def learning_curves(experiment: ExperimentResults) -> Figure | None:
    """Return one panel per task: mean return over seeds against interactions, with 95% bands."""
    curves = {task: _curves(experiment, task) for task in _tasks_with_runs(experiment)}
    lead = "Mean of the last three greedy test episodes"
    return _figure(experiment, curves, _INTERACTIONS, "curves", lead)


def curves_over_minutes(experiment: ExperimentResults) -> Figure | None:
    """Return the same curves over wall time, by the pace of runs on the commonest processor."""
    counts = Counter(run.processor for run in experiment.runs if run.finished)
    if not counts:
        return None
    processor = counts.most_common(1)[0][0]
    curves = {task: _over_minutes(experiment, task, processor) for task in _tasks_with_runs(experiment)}
    where = "" if processor is None else f" on one kind of processor ({processor})"
    lead = f"The same over minutes, by the median pace measured{where} with one thread per run and other runs beside it"
    return _figure(experiment, curves, "minutes", "minutes", lead)


def beside_peers(experiment: ExperimentResults) -> Figure | None:
    """Return the curves on dog and humanoid beside the published means of others at as many environment steps."""
    tasks = [task for task in _tasks_with_runs(experiment) if task in peers.AT_A_MILLION]
    if not tasks:
        return None
    longest = max(float(run.env_steps[-1]) for run in experiment.runs)
    is_long = longest >= 0.9 * peers.TABLE_ENV_STEPS
    colours = colours_of(experiment.variants_with_runs)

    def panel(task: str) -> Panel:
        drawn = _curves(experiment, task)
        means = peers.peer_curve(task)
        theirs = dict(peers.AT_A_MILLION[task]) if is_long else {}
        paper = reference("main", "revalued", task) if is_long else None
        budget = max(float(curve.xs[-1]) for curve in drawn.values())

        def draw(axes: Axes) -> None:
            _draw_curves(axes, _in_thousands(drawn), colours)
            if means is not None:
                shown = max(budget * 1.02, peers.CURVE_ENV_STEPS[1]) >= peers.CURVE_ENV_STEPS
                steps = peers.CURVE_ENV_STEPS[shown] / 1000
                axes.plot(steps, means[shown], "--", color=GREY, marker="o", markersize=3, linewidth=1.2)
            for name, value in theirs.items():
                axes.plot(peers.TABLE_ENV_STEPS / 1000, value, _PEER_MARKERS[name], color=GREY, markersize=5)
            if theirs:
                _write_beside(axes, theirs)
            if paper is not None:
                axes.axhline(paper.mean, color=INK, linewidth=0.8, linestyle=":")
                axes.annotate("paper, REValueD at the end", (0, paper.mean), fontsize=7, va="bottom")
            _finish(axes, task, _INTERACTIONS)

        known = [f"{name} {value:.0f} after 1,000,000" for name, value in theirs.items()]
        at = peers.peer_at(task, budget)
        if at is not None and not theirs:
            known.append(f"{peers.CURVE_PEER} {at:.0f} after {budget:,.0f}")
        ends = f"{_ends(experiment, drawn)}; published: {', '.join(known) or 'nothing at this length'}"
        return Panel(f"{task_in_words(task)}: {ends}.", draw)

    caption = (
        f"Beside others. Dashed: {peers.CURVE_PEER} at the same number of environment steps ({peers.CURVE_SOURCE})."
    )
    if is_long:
        caption += f" Marks at 1,000,000: {peers.TABLE_SOURCE}. Dotted: the paper's REValueD at the end of its runs."
    legend = (*legend_of(experiment.label, colours), (f"{peers.CURVE_PEER}, published", GREY))
    return Figure(f"{experiment.name}-peers", caption, tuple(map(panel, tasks)), legend)


def _write_beside(axes: Axes, theirs: Mapping[str, float]) -> None:
    """Write names beside the marks at the right edge, the higher above the lower, none on top of another."""
    gap = 0.06 * max(theirs.values())
    lowest = None
    for name, value in sorted(theirs.items(), key=lambda entry: -entry[1]):
        place = value if lowest is None else min(value, lowest - gap)
        lowest = place
        axes.annotate(
            f" {name} {theirs[name]:.0f}", (peers.TABLE_ENV_STEPS / 1000, place), fontsize=7, va="center", color=INK
        )
    axes.margins(x=0.2)


def _figure(
    experiment: ExperimentResults, curves: Mapping[str, Mapping[str, Curve]], over: str, suffix: str, lead: str
) -> Figure | None:
    """Return a panel for every task that has curves, by variant."""
    tasks = [task for task in curves if curves[task]]
    if not tasks:
        return None
    colours = colours_of(experiment.variants_with_runs)

    def panel(task: str) -> Panel:
        drawn = curves[task]

        def draw(axes: Axes) -> None:
            _draw_curves(axes, _in_thousands(drawn) if over == _INTERACTIONS else drawn, colours)
            _finish(axes, task, over)

        return Panel(f"Learning curves on {task_in_words(task)}: {_ends(experiment, drawn)}.", draw)

    caption = f"{lead}: {_seeds(experiment, curves)}"
    return Figure(
        f"{experiment.name}-{suffix}", caption, tuple(map(panel, tasks)), legend_of(experiment.label, colours)
    )


def _tasks_with_runs(experiment: ExperimentResults) -> list[str]:
    return [task for task in experiment.tasks if any(run.task == task for run in experiment.runs)]


def _curves(experiment: ExperimentResults, task: str) -> dict[str, Curve]:
    return {
        variant: statistics.curve(runs)
        for variant in experiment.variants_with_runs
        if (runs := experiment.shown(variant, task))
    }


def _over_minutes(experiment: ExperimentResults, task: str, processor: str | None) -> dict[str, Curve]:
    """Return the curves of which the pace is known; a curve's seeds may come from anywhere."""
    found = {}
    for variant, curve in _curves(experiment, task).items():
        pace = statistics.pace([run for run in experiment.shown(variant, task) if run.processor == processor])
        if pace is not None:
            found[variant] = replace(curve, xs=pace.minutes(curve.xs))
    return found


def _in_thousands(curves: Mapping[str, Curve]) -> dict[str, Curve]:
    return {variant: replace(curve, xs=curve.xs / 1000) for variant, curve in curves.items()}


def _draw_curves(axes: Axes, curves: Mapping[str, Curve], colours: Mapping[str, str]) -> None:
    for variant, curve in curves.items():
        style = "-" if curve.finished else ":"
        marker = "o" if len(curve.xs) == 1 else None
        axes.plot(curve.xs, curve.mean, style, color=colours[variant], marker=marker)
        if curve.band is not None:
            axes.fill_between(curve.xs, *curve.band, color=colours[variant], alpha=0.18, linewidth=0)


def _finish(axes: Axes, task: str, over: str) -> None:
    axes.set(title=task_in_words(task), xlabel=over, ylabel="return")
    from_zero(axes)
    if dimensions_of(task) is not None:  # where nobody has learnt anything, noise should not fill the picture
        axes.set_ylim(top=max(axes.get_ylim()[1], 2 * NOTHING_LEARNT))


def _ends(experiment: ExperimentResults, curves: Mapping[str, Curve]) -> str:
    return ", ".join(f"{experiment.label(variant)} ends at {curve.mean[-1]:.0f}" for variant, curve in curves.items())


def _seeds(experiment: ExperimentResults, curves: Mapping[str, Mapping[str, Curve]]) -> str:
    """Return over how many seeds the curves are means, and which have not come to their end."""
    groups = [experiment.shown(variant, task) for task, drawn in curves.items() for variant in drawn]
    fewest, most = min(map(len, groups)), max(map(len, groups))
    if most == 1:
        text = "a single seed each, so no interval can be given."
    else:
        text = f"mean over {most if fewest == most else f'{fewest} to {most}'} seeds, with 95% bootstrap bands"
        text += " where there is more than one seed." if fewest == 1 else "."
    if not all(run.finished for runs in groups for run in runs):
        text += " Dotted: runs that have not come to their end."
    return text
