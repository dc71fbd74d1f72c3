"""Which runs a comparison needs, in which order, and what became of tuning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from revalued.compare.contestants import CONTESTANTS, DEFAULT
from revalued.compare.meter import Clock
from revalued.compare.result_table import RunCurve, RunKey

TUNING_SHARE, TUNING_SEED = 0.25, 1_000
"""A setting is tried for this share of the budget, with a seed that no result has."""
RANDOM = "random"
WINDOW = 0.2
"""A score is the mean of the curve over the last fifth of what was asked for."""


@dataclass(frozen=True)
class Budget:
    """What everybody gets."""

    minutes: float | None
    env_steps: int | None
    clock: Clock

    def seconds(self, share: float) -> float | None:
        """Return the time of a run with such a share."""
        return None if self.minutes is None else 60 * self.minutes * share

    def interactions(self, share: float) -> int | None:
        """Return the interactions of a run with such a share."""
        return None if self.env_steps is None else max(1, round(self.env_steps * share))


def default_runs(names: Sequence[str], seeds: int) -> list[RunKey]:
    """Return the runs with published settings, seed by seed, so that a part of them is a comparison too."""
    runs = [RunKey(RANDOM, DEFAULT, 0, 1.0)] if RANDOM in names else []
    learners = [name for name in names if name != RANDOM]
    return runs + [RunKey(name, DEFAULT, seed, 1.0) for seed in range(seeds) for name in learners]


def tuning_runs(names: Sequence[str]) -> list[RunKey]:
    """Return the runs that try every setting of everybody, for the same time each."""
    return [
        RunKey(name, setting, TUNING_SEED, TUNING_SHARE)
        for name in names
        if name != RANDOM
        for setting in CONTESTANTS[name].settings
    ]


def tuned_settings(names: Sequence[str], finished: Mapping[RunKey, RunCurve], budget: Budget) -> dict[str, str]:
    """Return the best setting of everybody whose settings have all been tried; the earlier of two equal ones."""
    best: dict[str, str] = {}
    for name in names:
        keys = [key for key in tuning_runs([name]) if key in finished]
        if keys and len(keys) == len(CONTESTANTS[name].settings):
            best[name] = max(keys, key=lambda key: final_score(finished[key], budget, key.share)).setting
    return best


def tuned_runs(chosen: Mapping[str, str], seeds: int) -> list[RunKey]:
    """Return the runs with the best settings; where those are the published ones, there are none to add."""
    return [
        RunKey(name, setting, seed, 1.0)
        for seed in range(seeds)
        for name, setting in chosen.items()
        if setting != DEFAULT
    ]


def final_score(curve: RunCurve, budget: Budget, share: float = 1.0) -> float:
    """Return the score of a run at the end of its budget."""
    seconds = budget.seconds(share)
    if seconds is not None:
        return score_at(curve.seconds, curve.returns, seconds)
    return score_at(curve.env_steps, curve.returns, float(budget.interactions(share) or curve.env_steps[-1]))


def score_at(positions: NDArray[np.float64], returns: NDArray[np.float64], end: float) -> float:
    """Return the mean of a curve from (1 − WINDOW) · end to end, interpolated between test rounds."""
    return float(np.mean(np.interp(np.linspace((1 - WINDOW) * end, end, 21), positions, returns)))
