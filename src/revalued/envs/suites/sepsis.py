"""Sepsis treatment in an intensive care unit: two drug doses at each step, from the tables of the package `icu-sepsis`.

Only its tables are read (NumPy files, no pickle). Nothing of the package is imported, for that needs the retired gym.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

LEVELS = 5
"""Doses of fluids, and of vasopressors."""
NUM_TERMINAL = 3
"""The last states: death, survival, and the one after both."""
MAX_STEPS = 500


@dataclass(frozen=True)
class SepsisTables:
    """A Markov decision process of S states and A = LEVELS² actions, fluids first."""

    start: NDArray[np.float64]
    """[S], how likely an episode begins in a state."""
    transitions: NDArray[np.float64]
    """[S, A, S]; a dose that doctors do not give acts as the mean of those they give."""
    rewards: NDArray[np.float64]
    """[S, A, S], by state, action and next state: 1 for survival."""

    @property
    def num_states(self) -> int:
        """Return S."""
        return len(self.start)


@lru_cache(maxsize=1)
def read_tables(package: Path) -> SepsisTables:
    """Read the tables out of the folder of the installed package."""
    with np.load(package / "envs" / "assets" / "dynamics.npz", allow_pickle=False) as file:
        return SepsisTables(file["d_0"], file["tx_mat"], file["r_mat"])


class SepsisEnv(gymnasium.Env[Any, NDArray[np.int64]]):
    """One patient: a state of 716 in, a dose of fluids and a dose of vasopressors out; the return is 1 for survival."""

    action_names = ("fluids", "vasopressors")

    def __init__(self, tables: SepsisTables) -> None:
        self.observation_space = spaces.Discrete(tables.num_states)
        self.action_space = spaces.MultiDiscrete(np.array([LEVELS, LEVELS]))
        self.max_episode_steps = MAX_STEPS
        self.reward_range = (0.0, 1.0)
        self._tables, self._state, self._step = tables, 0, 0

    def __deepcopy__(self, memo: dict[int, Any]) -> SepsisEnv:
        """Share the tables, 200 MB of them."""
        return SepsisEnv(self._tables)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Admit a patient."""
        super().reset(seed=seed)
        self._state, self._step = self._draw(self._tables.start), 0
        return self._state, {}

    def step(self, action: NDArray[np.int64]) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Treat for four hours."""
        fluids, vasopressors = (int(level) for level in action)
        before, joint = self._state, fluids * LEVELS + vasopressors
        self._state = self._draw(self._tables.transitions[before, joint])
        self._step += 1
        terminated = self._state >= self._tables.num_states - NUM_TERMINAL
        reward = float(self._tables.rewards[before, joint, self._state])
        return self._state, reward, terminated, not terminated and self._step >= MAX_STEPS, {}

    def _draw(self, probabilities: NDArray[np.float64]) -> int:
        cumulated = np.cumsum(probabilities)
        # the sum may be a little off 1, and nothing of probability 0 may be drawn
        return int(np.searchsorted(cumulated, self.np_random.random() * cumulated[-1], side="right"))


def known_values(tables: SepsisTables, tolerance: float = 1e-10) -> tuple[float, float]:
    """Return the expected returns of uniformly random doses and of the best ones, without a time limit.

    V(s) = Σ_s' P(s'|s, a) (r(s, a, s') + V(s')), averaged or maximised over a, until nothing changes any more.
    """
    alive = np.arange(tables.num_states) < tables.num_states - NUM_TERMINAL
    expected_rewards = (tables.transitions * tables.rewards).sum(axis=-1)
    found = []
    for summary in (np.mean, np.max):
        values = np.zeros(tables.num_states)
        change = np.inf
        while change > tolerance:
            better = np.where(alive, summary(expected_rewards + tables.transitions @ values, axis=-1), 0.0)
            change, values = float(np.abs(better - values).max()), better
        found.append(float(tables.start @ values))
    return found[0], found[1]
