"""Names for readers: of variants, of tasks, of the settings that a variant's name carries."""

from __future__ import annotations

import re
from types import MappingProxyType

from revalued.report.results import Experiment

LABELS = MappingProxyType(
    {
        "revalued": "REValueD",
        "decqn": "DecQN",
        "bdq": "BDQ",
        "decqn-ensemble": "DecQN + ensemble",
        "decqn-sum": "DecQN-Sum",
        "decqn-c51": "DecQN-C51",
        "bdq-ensemble": "BDQ + ensemble",
        "decqn-sum-ensemble": "DecQN-Sum + ensemble",
        "dqn": "DQN",
        "revalued-quadratic": "REValueD, quadratic weight",
        "revalued-mean": "REValueD, regulariser averaged over dimensions",
        "revalued-mean-of-max": "REValueD, mean of maxima",
    }
)
_SETTINGS = {"ensemble-size": ("k", "critics", 10.0), "beta": ("beta", "beta", 0.5)}
_SYMBOLS = {"k": "K", "beta": "β", "c": "c"}


def variant_label(variant: str, experiment: Experiment | None = None) -> str:
    """Return a variant's name for readers: the experiment's own where it gives one."""
    if experiment is not None and variant in experiment.labels:
        return experiment.labels[variant]
    if variant in LABELS:
        return LABELS[variant]
    parts = re.fullmatch(r"(.+)-(k|beta|c)([\d.]+)", variant)
    if parts is None:
        return variant
    return f"{variant_label(parts[1])}, {_SYMBOLS[parts[2]]} = {parts[3]}"


def task_label(task: str) -> str:
    """Return a task's name for readers: `cheetah-run@30+reward-noise` is cheetah-run, 30 bins, reward noise."""
    setup, *noises = task.split("+")
    name, bins = split_bins(setup)
    words = [f"{bins} bins"] if "@" in setup else []
    words += [re.sub(r"-noise(.*)", lambda parts: f" noise {parts[1]}".rstrip(), noise) for noise in noises]
    return ", ".join([name.removeprefix("metaworld:"), *words])


def split_bins(task: str) -> tuple[str, int]:
    """Return a task's label without its bins, and the bins: 3 where it names none."""
    parts = re.fullmatch(r"([^@]+)@(\d+)(.*)", task)
    return (task, 3) if parts is None else (parts[1] + parts[3], int(parts[2]))


def setting(experiment: Experiment, variant: str) -> float | None:
    """Return what a variant of `ensemble-size` or `beta` varies: its number of critics or its β; None elsewhere."""
    if experiment.name not in _SETTINGS:
        return None
    letter, key, default = _SETTINGS[experiment.name]
    parts = re.fullmatch(rf"revalued-{letter}([\d.]+)", variant)
    if parts is not None:
        return float(parts[1])
    overrides = experiment.provenance.get("variants", {}).get(variant, {}).get("overrides", {})
    for name, value in overrides.items():
        if name.split(".")[-1] == key:
            return float(value)
    return default if variant == "revalued" else None


def with_setting(experiment: Experiment, variant: str) -> str | None:
    """Return the variant that an experiment has under this name, or under another with the same setting."""
    if variant in experiment.variants:
        return variant
    wanted = setting(experiment, variant)
    same = [name for name in experiment.variants if wanted is not None and setting(experiment, name) == wanted]
    return same[0] if same else None
