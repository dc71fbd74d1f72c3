"""The tables that people see first: every task of the main experiment beside the paper, and beside other agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from revalued.experiments.catalogue import dimensions_of
from revalued.experiments.naming import task_in_words
from revalued.experiments.recorded import NOTHING_LEARNT
from revalued.experiments.scales import PAPER_SEEDS, paper_env_steps
from revalued.report import peers
from revalued.report.published import reference
from revalued.report.results import ExperimentResults
from revalued.report.statistics import final_performance, final_summary
from revalued.report.tables import TextTable

_NONE = "–"
_PAPERS = ("revalued", "decqn")


def front_table(experiment: ExperimentResults, strong: Callable[[str], str] = lambda text: text) -> TextTable:
    """Return final returns per task beside the paper's; the highest of ours in each row is made `strong`.

    Where nobody has learnt anything no number is the better one.
    Tasks without any finished run stay in, so that a reader sees what is missing.
    """
    variants = experiment.variants
    rows = []
    for task in experiment.tasks:
        found = {variant: final_summary(experiment, variant, task) for variant in variants}
        known = {variant: summary.mean for variant, summary in found.items() if summary is not None}
        best = max(known, key=lambda variant: known[variant]) if len(known) > 1 else None
        if best is not None and known[best] < NOTHING_LEARNT:
            best = None
        cells = []
        for variant in variants:
            summary = found[variant]
            if summary is None:
                cells.append(_NONE)
                continue
            mean = strong(f"{summary.mean:.0f}") if variant == best else f"{summary.mean:.0f}"
            cells.append(mean if summary.standard_error is None else f"{mean} ± {summary.standard_error:.0f}")
        theirs = [reference("main", variant, task) for variant in _PAPERS]
        rows.append(
            (
                task_in_words(task),
                str(dimensions_of(task) or _NONE),
                *cells,
                seeds_of(experiment, task),
                *(f"{published.mean:.0f}" if published else _NONE for published in theirs),
                f"{env_steps_of(experiment, task) / 1000:,.0f}k / {paper_env_steps(task) / 1000:,.0f}k",
            )
        )
    papers = (f"paper: {experiment.label(variant)}" for variant in _PAPERS)
    header = ("Task", "N", *map(experiment.label, variants), "Seeds", *papers, "Interactions: here / paper")
    return TextTable(header, tuple(rows), front_caption(experiment))


def front_caption(experiment: ExperimentResults) -> str:
    """Return what the numbers of `front_table` are."""
    critics = "; ".join(_critics_in_words(experiment, variant) for variant in experiment.variants)
    return (
        "Mean of the last three test episodes ± standard error over seeds. "
        f"Critics here: {critics}. The paper: {PAPER_SEEDS} seeds, 512 wide, ensembles of 10; its interactions are our "
        "reading, – where it prints a picture only."
    )


def algorithm_table(experiments: Iterable[ExperimentResults], variant: str) -> TextTable:
    """Return what an algorithm reached wherever it took part as its preset says; runs that are shared stand once."""
    rows: dict[tuple[str, float], tuple[str, ...]] = {}
    critics: dict[str, None] = {}
    for experiment in experiments:
        for task in experiment.tasks:
            summary, env_steps = final_summary(experiment, variant, task), env_steps_of(experiment, task)
            if summary is None or (task, env_steps) in rows:
                continue
            theirs = reference("main", variant, task)
            rows[task, env_steps] = (
                task_in_words(task),
                str(dimensions_of(task) or _NONE),
                f"{env_steps:,.0f}",
                f"{summary.mean:.0f}" + ("" if summary.standard_error is None else f" ± {summary.standard_error:.0f}"),
                str(summary.seeds),
                f"{theirs.mean:.0f} after {paper_env_steps(task):,}" if theirs else _NONE,
            )
            critics[_critics_in_words(experiment, variant)] = None
    header = ("Task", "N", "Interactions", "Return", "Seeds", "Paper, 512 wide, 10 seeds")
    caption = f"Mean of the last three test episodes ± standard error over seeds. Critics here: {'; '.join(critics)}."
    if all(row[-1] == _NONE for row in rows.values()):  # the paper has pictures of it only
        return TextTable(header[:-1], tuple(row[:-1] for row in rows.values()), caption)
    return TextTable(header, tuple(rows.values()), caption)


def seeds_of(experiment: ExperimentResults, task: str) -> str:
    """Return how many finished seeds the variants have on a task."""
    counts = sorted({len(experiment.of(variant, task)) for variant in experiment.variants})
    if not counts:
        return "0"
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def env_steps_of(experiment: ExperimentResults, task: str) -> float:
    """Return how long the finished runs on a task were, or how long they are to be where there is none."""
    lengths = [
        float(run.get("env_steps") or 0)
        for run in experiment.provenance.get("runs", ())
        if run["task"] == task and run["status"] == "finished"
    ]
    return max(lengths, default=float(experiment.provenance.get("planned_env_steps", 0)))


def peer_table(experiment: ExperimentResults) -> TextTable:
    """Return, for dog and humanoid, the best of ours beside what others reach at as many steps, and at a million."""
    rows = []
    for task in [task for task in experiment.tasks if task in peers.AT_A_MILLION]:
        finals = {
            variant: [final_performance(run) for run in runs]
            for variant in experiment.variants
            if (runs := experiment.of(variant, task))
        }
        means = {variant: sum(values) / len(values) for variant, values in finals.items()}
        best = max(means, key=lambda variant: means[variant], default=None)
        budget = env_steps_of(experiment, task)
        theirs = peers.peer_at(task, budget)
        ours = _NONE if best is None else f"{means[best]:.0f} ({experiment.label(best)}, {_seeds(len(finals[best]))})"
        rows.append(
            (
                task_in_words(task),
                f"{budget:,.0f}",
                ours,
                _NONE if theirs is None else f"{theirs:.0f}",
                *(f"{value:.0f}" for value in peers.AT_A_MILLION[task].values()),
            )
        )
    names = next(iter(peers.AT_A_MILLION.values()))
    header = ("Task", "Environment steps", "Best here", f"{peers.CURVE_PEER} then", *(f"{name}, 1M" for name in names))
    caption = (
        f"Beside agents with continuous actions: published means. {peers.CURVE_PEER} then: {peers.CURVE_SOURCE}, "
        f"interpolated. After 1,000,000 steps: {peers.TABLE_SOURCE}"
    )
    return TextTable(header, tuple(rows), caption)


def _seeds(count: int) -> str:
    return f"{count} seed{'s' if count != 1 else ''}"


def _critics_in_words(experiment: ExperimentResults, variant: str) -> str:
    facts = experiment.provenance.get("variants", {}).get(variant, {}).get("overrides", {})
    critics, width, rate = (facts.get(name) for name in ("critics", "hidden_size", "learning_rate"))
    size = f"{critics} × {width}" if critics and width else "not recorded"
    return f"{experiment.label(variant)} {size}" + (f", learning rate {rate:g}" if rate else "")
