"""The figures of training experiments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from revalued.experiments.naming import split_bins, task_in_words
from revalued.report import statistics
from revalued.report.curves import beside_peers, curves_over_minutes, learning_curves
from revalued.report.drawing import COLOURS, GREY, INK, Figure, Legend, Panel, colours_of, from_zero, legend_of
from revalued.report.published import BETA, ENSEMBLE_SIZE, reference
from revalued.report.results import ExperimentResults
from revalued.report.statistics import Summary
from revalued.report.verdicts import cvar_values, minutes_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PUBLISHED = "paper"


def training_figures(experiment: ExperimentResults) -> list[Figure]:
    """Return the figures that suit an experiment, those that say most first."""
    usual = (learning_curves, interquartile)
    drawers = {
        "main": (learning_curves, curves_over_minutes, interquartile, beside_peers),
        "long-run": (beside_peers, curves_over_minutes),
        "ensemble-size": (against_setting, *usual),
        "beta": (against_setting, *usual),
        "bins": (against_bins, *usual),
        "ensembled-baselines": (against_bins, *usual),
        "stability": (stability, *usual),
        "wall-time": (wall_time,),
    }.get(experiment.name, usual)
    return [figure for draw in drawers if (figure := draw(experiment)) is not None]


def interquartile(experiment: ExperimentResults) -> Figure | None:
    """Return the interquartile mean per variant over the tasks that all variants have finished, if several."""
    variants = experiment.variants_with_runs
    tasks = [task for task in experiment.tasks if all(experiment.of(variant, task) for variant in variants)]
    if len(tasks) < 2 or len(variants) < 2:
        return None
    colours = colours_of(variants)
    summaries = {
        variant: statistics.interquartile_summary(
            [[statistics.final_performance(run) for run in experiment.of(variant, task)] for task in tasks]
        )
        for variant in variants
    }

    def draw(axes: Axes) -> None:
        for position, variant in enumerate(reversed(variants)):
            summary = summaries[variant]
            axes.barh(position, summary.mean, height=0.6, color=colours[variant], alpha=0.85)
            if summary.interval is not None:
                axes.plot(summary.interval, (position, position), color=INK, linewidth=1.4, solid_capstyle="butt")
        axes.set_yticks(range(len(variants)), [experiment.label(variant) for variant in reversed(variants)])
        axes.set(title=f"all {len(tasks)} tasks", xlabel="interquartile mean of the final return")
        axes.grid(visible=False, axis="y")

    caption = (
        f"Interquartile mean of the final return over {len(tasks)} tasks and their seeds, with 95% intervals from a "
        "bootstrap within each task; none where a task has a single seed."
    )
    words = ", ".join(f"{experiment.label(name)} {summary.mean:.0f}" for name, summary in summaries.items())
    return Figure(f"{experiment.name}-iqm", caption, (Panel(f"Interquartile means: {words}.", draw),))


def against_setting(experiment: ExperimentResults) -> Figure | None:
    """Return, per task, the final return against the number of critics or β, beside the paper's."""
    symbol = "K, critics" if experiment.name == "ensemble-size" else "β"

    def panel(task: str) -> Panel | None:
        ours: dict[float, Summary] = {}
        for variant in experiment.variants:
            value, summary = experiment.setting(variant), statistics.final_summary(experiment, variant, task)
            if value is not None and summary is not None:
                ours[value] = summary
        if not ours:
            return None
        theirs = (ENSEMBLE_SIZE if experiment.name == "ensemble-size" else BETA).get(task, {})

        def draw(axes: Axes) -> None:
            _points(axes, ours, COLOURS["revalued"])
            if theirs:
                means, errors = zip(*((point.mean, point.spread) for point in theirs.values()), strict=True)
                axes.errorbar(list(theirs), means, errors, color=GREY, linestyle="--", marker="s", markersize=3.5)
            axes.set(title=task_in_words(task), xlabel=symbol, ylabel="final return", xticks=sorted({*ours, *theirs}))
            from_zero(axes)

        words = ", ".join(f"{value:g}: {summary.mean:.0f}" for value, summary in sorted(ours.items()))
        return Panel(f"Final return on {task_in_words(task)} by {symbol}: {words}.", draw)

    caption = "Final return with standard errors over seeds; the paper's are for 10 seeds and longer training."
    legend = (("here", COLOURS["revalued"]), (PUBLISHED, GREY))
    return _figure(f"{experiment.name}-final", caption, map(panel, experiment.tasks), legend)


def against_bins(experiment: ExperimentResults) -> Figure | None:
    """Return, per task, the final return against the number of bins."""
    variants = experiment.variants_with_runs
    colours = colours_of(variants)
    names = list(dict.fromkeys(split_bins(task)[0] for task in experiment.tasks))

    def panel(name: str) -> Panel | None:
        lines: dict[str, dict[float, Summary]] = {}
        for task in [task for task in experiment.tasks if split_bins(task)[0] == name]:
            for variant in variants:
                summary = statistics.final_summary(experiment, variant, task)
                if summary is not None:
                    lines.setdefault(variant, {})[split_bins(task)[1]] = summary
        if not lines:
            return None

        def draw(axes: Axes) -> None:
            for variant, line in lines.items():
                _points(axes, line, colours[variant])
            axes.set_xscale("log")
            ticks = sorted({value for line in lines.values() for value in line})
            axes.set_xticks(ticks, [f"{value:g}" for value in ticks])
            axes.minorticks_off()
            axes.set(title=task_in_words(name), xlabel="bins per dimension", ylabel="final return")
            from_zero(axes)

        return Panel(f"Final return on {task_in_words(name)} against the number of bins.", draw)

    caption = "Final return with standard errors over seeds, by the number of bins per dimension."
    legend = legend_of(experiment.label, colours)
    return _figure(f"{experiment.name}-final", caption, map(panel, names), legend)


def wall_time(experiment: ExperimentResults) -> Figure | None:
    """Return, per task, the minutes for the paper's 500,000 interactions, here and in the paper."""
    colours = colours_of(experiment.variants)

    def panel(task: str) -> Panel | None:
        bars: list[tuple[str, float, str, str]] = []
        for variant in experiment.variants:
            found = minutes_of(experiment, variant, task)
            label = experiment.label(variant)
            if found:
                minutes = sum(value for value, _ in found) / len(found)
                bars.append((f"{label}, here", minutes, colours[variant], "//" if any(p for _, p in found) else ""))
            published = reference("wall-time", variant, task)
            if published is not None:
                bars.append((f"{label}, {PUBLISHED}", published.mean, GREY, ""))
        if not bars:
            return None

        def draw(axes: Axes) -> None:
            for position, (_, minutes, colour, hatch) in enumerate(reversed(bars)):
                axes.barh(position, minutes, height=0.65, color=colour, alpha=0.85, hatch=hatch, linewidth=0)
                axes.annotate(f" {minutes:.0f}", (minutes, position), va="center", fontsize=8)
            axes.set_yticks(range(len(bars)), [bar[0] for bar in reversed(bars)])
            axes.set(title=task_in_words(task), xlabel="minutes for 500,000 interactions")
            axes.margins(x=0.12)
            axes.grid(visible=False, axis="y")

        words = ", ".join(f"{label} {minutes:.0f}" for label, minutes, _, _ in bars)
        return Panel(f"Minutes on {task_in_words(task)}: {words}.", draw)

    caption = "Wall time. Hatched: projected from shorter runs. Different machines; only the ratios can be compared."
    return _figure("wall-time", caption, map(panel, experiment.tasks))


def stability(experiment: ExperimentResults) -> Figure | None:
    """Return, per task, the CVaR of the gradient norm's jumps."""
    colours = colours_of(experiment.variants)

    def panel(task: str) -> Panel | None:
        found = {
            variant: statistics.summarise(values)
            for variant in experiment.variants
            if (values := cvar_values(experiment, variant, task))
        }
        if not found:
            return None

        def draw(axes: Axes) -> None:
            for position, (variant, summary) in enumerate(found.items()):
                axes.bar(position, summary.mean, width=0.6, color=colours[variant], alpha=0.85)
                if summary.standard_error is not None:
                    axes.errorbar(position, summary.mean, summary.standard_error, color=INK, linewidth=1.4)
            axes.set_xticks(range(len(found)), [experiment.label(variant) for variant in found])
            axes.set(title=task_in_words(task), ylabel="CVaR 95%")
            axes.grid(visible=False, axis="x")

        words = ", ".join(f"{experiment.label(name)} {summary.mean:.3g}" for name, summary in found.items())
        return Panel(f"CVaR on {task_in_words(task)}: {words}.", draw)

    caption = (
        "Mean of the largest 5% of the jumps of the gradient norm between updates, with standard errors over seeds."
    )
    return _figure("stability-cvar", caption, map(panel, experiment.tasks))


def _figure(name: str, caption: str, panels: Iterable[Panel | None], legend: Legend = ()) -> Figure | None:
    """Return a figure of the panels that there are, None where there are none."""
    drawn = tuple(panel for panel in panels if panel is not None)
    return Figure(name, caption, drawn, legend) if drawn else None


def _points(axes: Axes, line: dict[float, Summary], colour: str) -> None:
    """Draw means with standard errors against what was varied."""
    xs = sorted(line)
    errors = [line[x].standard_error or 0.0 for x in xs]
    axes.errorbar(xs, [line[x].mean for x in xs], errors, color=colour, marker="o", markersize=4, capsize=0)
