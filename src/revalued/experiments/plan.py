"""Experiments as data: variants × tasks × seeds, the configuration of each run, and what differs from the paper."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from revalued.algorithms.presets import preset
from revalued.config import LearnerConfig, TrainConfig
from revalued.errors import UserError, unknown_name
from revalued.experiments.naming import Setting, TaskLabel, format_task, parse_task
from revalued.experiments.scales import PAPER_SEEDS, Scale, paper_env_steps
from revalued.settings import configure
from revalued.validation import validate

_PAPER_EVAL_EVERY = 1_000
MAX_SEEDS = 10_000
MAX_RUNS = 100_000


@dataclass(frozen=True)
class Variant:
    """One of the things compared: a preset and what differs from it."""

    id: str
    label: str
    """What people call it, for legends and tables."""
    overrides: Mapping[str, Any]
    """Fields of the configuration by their bare names; `algo` is the preset."""
    scales: tuple[str, ...] = ()
    """Where it takes part; empty: everywhere."""


@dataclass(frozen=True)
class Experiment:
    """A comparison by training runs."""

    name: str
    title: str
    source: str
    """The table or figure of the paper that it reproduces."""
    compares: str
    """What is compared, in one sentence."""
    variants: tuple[Variant, ...]
    tasks: Mapping[str, tuple[str, ...]]
    """Tasks per scale, without their settings."""
    settings: tuple[Setting, ...] = (Setting(),)
    """Every task is run in each of these settings."""
    scale_settings: Mapping[str, tuple[Setting, ...]] = field(default_factory=dict)
    """Fewer settings, where a scale has fewer."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the configuration that all its runs share."""
    scale_overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Fields of the configuration that differ from the scale's."""
    seeds: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Number of seeds by scale and task, where it is not the scale's."""
    paper_seeds: int | None = None
    """How many seeds the paper used, where it is not the usual number."""
    is_timed: bool = False
    """Whether its runs are timed: one after the other, with all cores, with ensembles as large as the paper's."""
    measures_stability: bool = False
    """Whether the gradient norms of every update are evaluated too."""

    def variants_at(self, scale: str) -> tuple[Variant, ...]:
        """Return the variants that take part at a scale."""
        return tuple(variant for variant in self.variants if not variant.scales or scale in variant.scales)

    def seeds_at(self, scale: Scale, task: str) -> int:
        """Return how many seeds a task has at a scale."""
        usual = self.paper_seeds if scale.name == "paper" and self.paper_seeds else scale.seeds
        return self.seeds.get(scale.name, {}).get(task, usual)


@dataclass(frozen=True)
class ComputedExperiment:
    """An experiment without training."""

    name: str
    title: str
    source: str
    compares: str
    function: str
    """MODULE:NAME of what computes its rows, given the scale's name and a function that is told the fraction done."""


@dataclass(frozen=True)
class PlannedRun:
    """One training run of an experiment."""

    variant: str
    task: str
    """The label, setting included."""
    seed: int
    config: TrainConfig

    @property
    def key(self) -> tuple[str, str, int]:
        """Return what tells it from the experiment's other runs."""
        return self.variant, self.task, self.seed

    @property
    def title(self) -> str:
        """Return it in a few words."""
        return f"{self.variant} on {self.task}, seed {self.seed}"


def labels_at(experiment: Experiment, scale: Scale, chosen: Sequence[str] = ()) -> list[TaskLabel]:
    """Return the tasks with their settings: the scale's, or those chosen by name (all settings) or by label (one)."""
    settings = experiment.scale_settings.get(scale.name, experiment.settings)
    labels: list[TaskLabel] = []
    for text in chosen or experiment.tasks[scale.name]:
        label = parse_task(text)
        labels += [TaskLabel(label.task, setting) for setting in settings] if text == label.task else [label]
    return list(dict.fromkeys(labels))


def plan(
    experiment: Experiment,
    scale: Scale,
    seeds: int | None = None,
    tasks: Sequence[str] = (),
    variants: Sequence[str] = (),
) -> list[PlannedRun]:
    """Return all runs, or those of some variants; every comparison has its first seed before any has its second."""
    labels, compared = labels_at(experiment, scale, tasks), _chosen(experiment.variants_at(scale.name), variants)
    counts = {label: experiment.seeds_at(scale, label.task) if seeds is None else seeds for label in labels}
    for count in counts.values():
        if not 1 <= count <= MAX_SEEDS:
            raise UserError(f"seeds = {count} is not possible: it must be at least 1 and at most {MAX_SEEDS:,}")
    refuse_too_many(sum(counts.values()) * len(compared))
    configs = [
        (variant, label, run_config(experiment, scale, variant, label)) for label in labels for variant in compared
    ]
    return [
        PlannedRun(variant.id, format_task(label), seed, dataclasses.replace(config, seed=seed))
        for seed in range(max(counts.values(), default=0))
        for variant, label, config in configs
        if seed < counts[label]
    ]


def _chosen(variants: Sequence[Variant], names: Sequence[str]) -> Sequence[Variant]:
    known = {variant.id: variant for variant in variants}
    for name in names:
        if name not in known:
            raise unknown_name("variant", name, known)
    return [variant for variant in variants if variant.id in names] if names else variants


def refuse_too_many(runs: int) -> None:
    """Refuse more runs than anybody makes, before they are listed."""
    if runs > MAX_RUNS:
        raise UserError(f"these are {runs:,} runs: at most {MAX_RUNS:,} are possible at a time")


def run_config(experiment: Experiment, scale: Scale, variant: Variant, label: TaskLabel) -> TrainConfig:
    """Return the configuration of a run with seed 0: the preset changed by scale, experiment, variant and task."""
    overrides = dict(variant.overrides)
    algo = overrides.pop("algo")
    changes: dict[str, Any] = {**scale.overrides, "env_steps": scale.env_steps or paper_env_steps(label.task)}
    if scale.critics is not None and preset(algo).critics > scale.critics and not experiment.is_timed:
        changes["critics"] = scale.critics
    changes |= {**experiment.overrides, **experiment.scale_overrides.get(scale.name, {}), **overrides}
    changes |= dataclasses.asdict(label.setting)
    config = configure(label.task, algo, changes)
    validate(config)
    return config


def scale_note(
    experiment: Experiment,
    scale: Scale,
    planned: Sequence[PlannedRun],
    seeds: Sequence[int],
    tasks: Sequence[str],
    variants: Collection[str],
) -> str:
    """Say which seeds, ensembles, interactions, tasks and variants stand for the paper's."""
    if scale.name == "sweep":
        return f"A sweep of our own, not an experiment of the paper; {_interactions(planned)}, {len(seeds)} seeds."
    parts = [f"{_interactions(planned)} (paper: {_paper_interactions(experiment, planned)})"]
    parts.append(f"{_seeds(planned, seeds)} (paper: {experiment.paper_seeds or PAPER_SEEDS})")
    if scale.critics is not None and not experiment.is_timed:
        parts.append(f"ensembles of {scale.critics} critics where the paper has 10 and the variant names no size")
    parts += _other_critics(scale, planned)
    eval_every = max(run.config.schedule.eval_every for run in planned)
    if eval_every != _PAPER_EVAL_EVERY:
        parts.append(f"a test episode every {eval_every:,} updates (paper: {_PAPER_EVAL_EVERY:,})")
    left_out = [variant.id for variant in experiment.variants_at("paper") if variant.id not in variants]
    left_out += _tasks_left_out(experiment, tasks)
    if left_out:
        parts.append(f"without {', '.join(left_out)}")
    if experiment.is_timed:
        parts.append("one run at a time with all cores, ensembles of 10 as in the paper")
    if scale.remark:
        parts.append(scale.remark)
    return f"{scale.name.capitalize()} scale: {'; '.join(parts)}."


def _seeds(planned: Sequence[PlannedRun], seeds: Sequence[int]) -> str:
    """Return how many seeds there are, from the task that has fewest to the one that has most."""
    of_tasks: dict[tuple[str, str], set[int]] = {}
    for run in planned:
        of_tasks.setdefault((run.variant, run.task), set()).add(run.seed)
    counts = {len(found) for found in of_tasks.values()}
    if len(counts) > 1 and max(counts) == len(seeds):
        return f"{min(counts)} to {max(counts)} seeds"
    return f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}"


def _other_critics(scale: Scale, planned: Sequence[PlannedRun]) -> list[str]:
    """Return in which respects the critics are not the paper's, those of variants that name their own aside."""
    usual, own = LearnerConfig(), scale.overrides
    parts = []
    if (width := own.get("hidden_size", usual.hidden_size)) != usual.hidden_size:
        parts.append(f"critics {width} wide (paper: {usual.hidden_size})")
    if (rate := own.get("learning_rate", usual.learning_rate)) != usual.learning_rate:
        parts.append(f"learning rate {rate:g} (paper: {usual.learning_rate:g})")
    if own.get("normalise_observations", False):
        parts.append("observations normalised (paper: not)")
    shared = {name: value for name, value in own.items() if hasattr(usual, name)}
    others = [run.variant for run in planned if any(getattr(run.config.learner, n) != shared[n] for n in shared)]
    if parts and others:
        parts.append(f"other critics, named by the variant: {', '.join(dict.fromkeys(others))}")
    return parts


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
