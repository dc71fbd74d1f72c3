"""How much of the paper's protocol is carried out: all of it, what two cores do in two nights, or a minute's worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from revalued.errors import unknown_name

PAPER_SEEDS = 10
PAPER_TIMED_ENV_STEPS = 500_000
"""Interactions of the runs whose wall time the paper states."""

PAPER_ENV_STEPS = {"quadruped": 1_000_000, "humanoid": 2_000_000, "dog": 2_000_000}
"""Interactions per family of tasks, our reading.

The paper states 500,000 for its timing table only; its learning curves, where the others would be seen, are not part of
the text. It says that every experiment trains as long on a task as the main one. So: 500,000, but more where the
reported returns are near the top of tasks with 12 dimensions and more, which takes longer.
"""
PAPER_ENV_STEPS_ELSEWHERE = 500_000

LEAN: Mapping[str, Any] = MappingProxyType({"hidden_size": 160, "learning_rate": 1e-3, "normalise_observations": True})
"""The critic of every run at laptop scale: ten of them have the arithmetic of one of width 512."""
EQUAL_PRICE: Mapping[str, Any] = MappingProxyType(
    {"hidden_size": 512, "learning_rate": 3e-4, "target_update_rate": 0.01}
)
"""What differs in a single critic that costs as much as ten lean ones and was tuned as hard (docs/recipe.md)."""
PAPER_CRITIC: Mapping[str, Any] = MappingProxyType(
    {"hidden_size": 512, "learning_rate": 1e-4, "normalise_observations": False}
)
"""The critic of the paper, for runs that have it whatever the scale."""
LAPTOP_ENV_STEPS = 150_000
LAPTOP_SEEDS = 2
LAPTOP_MORE_SEEDS = 3
"""Of the main experiment, on one task for each size of N."""
CONFIRMATION_ENV_STEPS = 100_000
CONFIRMATION_SEEDS = 5
LONG_ENV_STEPS = 1_000_000
"""Of the runs that ask what happens at the end."""


@dataclass(frozen=True)
class Scale:
    """What stands for the paper's seeds, ensembles and interactions."""

    name: str
    seeds: int
    critics: int | None
    """Largest ensemble a preset gets; None leaves presets alone."""
    env_steps: int | None
    """Interactions of every run; None: the paper's, by task."""
    overrides: Mapping[str, Any]
    """Fields of the configuration, by their bare names."""
    remark: str = ""
    """What else has to be said about its results."""


def paper_env_steps(task: str) -> int:
    """Return how many interactions the paper's runs on this task had, as we read it."""
    return PAPER_ENV_STEPS.get(task.split("-")[0], PAPER_ENV_STEPS_ELSEWHERE)


SCALES: dict[str, Scale] = {
    "smoke": Scale(
        name="smoke",
        seeds=1,
        critics=2,
        env_steps=1_500,
        overrides={
            "warmup_env_steps": 500,
            "hidden_size": 64,
            "batch_size": 64,
            "eval_every": 100,
            "log_every": 50,
            "threads": 1,
            "device": "cpu",
        },
        remark="other cuts: the returns mean nothing",
    ),
    "laptop": Scale(
        name="laptop",
        seeds=LAPTOP_SEEDS,
        critics=None,
        env_steps=LAPTOP_ENV_STEPS,
        overrides={**LEAN, "threads": 1, "device": "cpu"},
    ),
    # One thread here too: many runs go on at once, and with PyTorch's own sums the number of threads would change bits.
    "paper": Scale(name="paper", seeds=PAPER_SEEDS, critics=None, env_steps=None, overrides={"threads": 1}),
}


def find_scale(name: str) -> Scale:
    """Return the scale of that name, or say which names come close."""
    if name not in SCALES:
        raise unknown_name("scale", name, SCALES)
    return SCALES[name]
