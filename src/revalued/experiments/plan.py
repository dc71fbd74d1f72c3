"""Experiments as data: variants × tasks × seeds, and the configuration of each run that follows from them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from revalued.algorithms.presets import preset
from revalued.config import TrainConfig
from revalued.errors import UserError
from revalued.experiments.scales import Scale
from revalued.settings import configure
from revalued.validation import validate

DEFAULT_BINS = 3
DEFAULT_NOISE = 0.1
"""Standard deviation that a noise suffix without a number stands for: the paper's."""
_NOISES = ("reward-noise", "state-noise")


@dataclass(frozen=True, order=True)
class Setting:
    """How a task is set up: bins per dimension and noise."""

    bins: int = DEFAULT_BINS
    reward_noise: float = 0.0
    state_noise: float = 0.0


@dataclass(frozen=True, order=True)
class TaskLabel:
    """A task with its setting: what the `task` column of a result says."""

    task: str
    setting: Setting = Setting()


def format_task(label: TaskLabel) -> str:
    """Write a label: TASK[@BINS][+reward-noise[SIGMA]][+state-noise[SIGMA]]; what is left out is 3 bins, no noise.

    A noise without a number has the paper's σ = 0.1.
    """
    setting = label.setting
    text = label.task if setting.bins == DEFAULT_BINS else f"{label.task}@{setting.bins}"
    for name, sigma in zip(_NOISES, (setting.reward_noise, setting.state_noise), strict=True):
        if sigma:
            text += f"+{name}" if sigma == DEFAULT_NOISE else f"+{name}{sigma:g}"
    return text


_LABEL = re.compile(r"(?P<task>[^@+]+)(@(?P<bins>\d+))?(?P<noise>(\+(reward|state)-noise[\d.e-]*)*)")


def parse_task(text: str) -> TaskLabel:
    """Read what `format_task` writes."""
    match = _LABEL.fullmatch(text)
    if match is None:
        raise UserError(f"task {text!r} cannot be read: write TASK, TASK@BINS, TASK+reward-noise or TASK+state-noise")
    sigmas = dict.fromkeys(_NOISES, 0.0)
    for part in filter(None, match["noise"].split("+")):
        name = part[: part.index("noise") + len("noise")]
        number = part.removeprefix(name)
        try:
            sigmas[name] = float(number) if number else DEFAULT_NOISE
        except ValueError:
            raise UserError(f"task {text!r} cannot be read: {number!r} is no number") from None
    bins = int(match["bins"]) if match["bins"] else DEFAULT_BINS
    return TaskLabel(match["task"], Setting(bins, sigmas["reward-noise"], sigmas["state-noise"]))


@dataclass(frozen=True)
class Variant:
    """One of the things compared: a preset and what differs from it."""

    id: str
    label: str
    """What people call it, for legends and tables."""
    overrides: Mapping[str, Any]
    """Fields of the configuration by their bare names; `algo` is the preset."""
    scales: tuple[str, ...] = ("paper", "laptop", "smoke")
    """Where it takes part."""


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
    paper_seeds: int | None = None
    """How many seeds the paper used, where it is not the usual number."""
    keeps_ensembles: bool = False
    """Whether ensembles stay as large as the paper's at every scale."""
    alone: bool = False
    """Whether its runs are to be timed: one after the other, with all cores."""
    measures_stability: bool = False
    """Whether the gradient norms of every update are evaluated too."""

    def settings_at(self, scale: Scale) -> tuple[Setting, ...]:
        """Return the settings of its tasks at a scale."""
        return self.scale_settings.get(scale.name, self.settings)

    def seeds_at(self, scale: Scale) -> int:
        """Return how many seeds it has unless told otherwise."""
        return self.paper_seeds if scale.name == "paper" and self.paper_seeds is not None else scale.seeds


@dataclass(frozen=True)
class ComputedExperiment:
    """An experiment without training: a module with `COLUMNS` and `compute(scale, report)`."""

    name: str
    title: str
    source: str
    compares: str
    module: str


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


def variants_at(experiment: Experiment, scale: Scale) -> tuple[Variant, ...]:
    """Return the variants that take part at a scale."""
    return tuple(variant for variant in experiment.variants if scale.name in variant.scales)


def labels_at(experiment: Experiment, scale: Scale, chosen: Sequence[str] = ()) -> list[TaskLabel]:
    """Return the tasks with their settings: the scale's, or those chosen by name (all settings) or by label (one)."""
    settings = experiment.settings_at(scale)
    labels: list[TaskLabel] = []
    for text in chosen or experiment.tasks[scale.name]:
        label = parse_task(text)
        labels += [TaskLabel(label.task, setting) for setting in settings] if text == label.task else [label]
    return list(dict.fromkeys(labels))


def plan(experiment: Experiment, scale: Scale, seeds: int | None = None, tasks: Sequence[str] = ()) -> list[PlannedRun]:
    """Return all runs; every comparison has its first seed before any has its second."""
    count = experiment.seeds_at(scale) if seeds is None else seeds
    if count < 1:
        raise UserError(f"seeds = {count} is not possible: it must be at least 1")
    compared = [
        (variant, label, run_config(experiment, scale, variant, label))
        for label in labels_at(experiment, scale, tasks)
        for variant in variants_at(experiment, scale)
    ]
    return [
        PlannedRun(variant.id, format_task(label), seed, dataclasses.replace(config, seed=seed))
        for seed in range(count)
        for variant, label, config in compared
    ]


def run_config(experiment: Experiment, scale: Scale, variant: Variant, label: TaskLabel) -> TrainConfig:
    """Return the configuration of a run with seed 0: the preset changed by scale, experiment, variant and task."""
    overrides = dict(variant.overrides)
    algo = overrides.pop("algo")
    changes: dict[str, Any] = {**scale.overrides, "env_steps": scale.env_steps_of(label.task)}
    if scale.critics is not None and preset(algo).critics > scale.critics and not experiment.keeps_ensembles:
        changes["critics"] = scale.critics
    changes |= {**experiment.overrides, **experiment.scale_overrides.get(scale.name, {}), **overrides}
    changes |= dataclasses.asdict(label.setting)
    config = configure(label.task, algo, changes)
    validate(config)
    return config
