"""In plain words: what of the paper's protocol a scale changes."""

from __future__ import annotations

from collections.abc import Sequence

from revalued.experiments.plan import Experiment, PlannedRun, TaskLabel, format_task, parse_task
from revalued.experiments.scales import PAPER_SEEDS, Scale, paper_env_steps

_PAPER_EVAL_EVERY = 1_000


def scale_note(
    experiment: Experiment, scale: Scale, planned: Sequence[PlannedRun], seeds: Sequence[int], tasks: Sequence[str]
) -> str:
    """Say which seeds, ensembles, interactions and tasks stand for the paper's."""
    paper_seeds = experiment.paper_seeds or PAPER_SEEDS
    if scale.name == "sweep":
        return f"A sweep of our own, not an experiment of the paper; {_interactions(planned)}, {len(seeds)} seeds."
    parts = [f"{_interactions(planned)} (paper: {_paper_interactions(experiment, planned)})"]
    parts.append(f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''} (paper: {paper_seeds})")
    if scale.critics is not None and not experiment.keeps_ensembles:
        parts.append(f"ensembles of {scale.critics} critics where the paper has 10 and the variant names no size")
    if "hidden_size" in scale.overrides:
        parts.append(
            f"networks of {scale.overrides['hidden_size']} units (512) and other cuts: the returns mean nothing"
        )
    eval_every = max(run.config.schedule.eval_every for run in planned)
    if eval_every != _PAPER_EVAL_EVERY:
        parts.append(f"a test episode every {eval_every:,} updates (paper: {_PAPER_EVAL_EVERY:,})")
    taking_part = {run.variant for run in planned}
    missing = [variant.id for variant in experiment.variants if "paper" in variant.scales]
    left_out = [name for name in missing if name not in taking_part] + _tasks_left_out(experiment, tasks)
    if left_out:
        parts.append(f"without {', '.join(left_out)}")
    if experiment.alone:
        parts.append("one run at a time with all cores, ensembles of 10 as in the paper")
    return f"{scale.name.capitalize()} scale: {'; '.join(parts)}."


def _interactions(planned: Sequence[PlannedRun]) -> str:
    return f"{_span({run.config.schedule.env_steps for run in planned})} interactions per run"


def _paper_interactions(experiment: Experiment, planned: Sequence[PlannedRun]) -> str:
    stated = experiment.scale_overrides.get("paper", {}).get("env_steps")
    if stated is not None:
        return f"{stated:,}"
    return f"{_span({paper_env_steps(run.config.task) for run in planned})}, our reading, as its text states none"


def _span(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _tasks_left_out(experiment: Experiment, tasks: Sequence[str]) -> list[str]:
    """Return which tasks of the paper's experiment are not there, by name where all their settings are missing."""
    there = {parse_task(task) for task in tasks}
    missing: list[str] = []
    for task in experiment.tasks["paper"]:
        labels = [TaskLabel(task, setting) for setting in experiment.settings]
        gone = [label for label in labels if label not in there]
        missing += [task] if gone == labels else [format_task(label) for label in gone]
    return missing
