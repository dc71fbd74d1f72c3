"""Sigmoid of DACBench: configure an algorithm at run time, one value in each of several dimensions at every step.

The settings that would be right follow one sigmoid per dimension. Only the instances of the package `dacbench` are read
(a CSV file). Its own environment, in version 0.5.6, pays the mean of the dimensions; the benchmark's paper (Biedenkapp
et al., "Dynamic Algorithm Configuration", ECAI 2020) multiplies them, so that one wrong dimension spoils the others.
Both are here.
"""

from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

NUM_DIMENSIONS, NUM_CHOICES, NUM_STEPS = 5, 3, 10
Coupling = Literal["product", "mean"]


@lru_cache(maxsize=1)
def read_instances(package: Path) -> NDArray[np.float64]:
    """Return slopes and shifts of the training instances, [instances, dimensions, 2], from the installed package."""
    name = f"sigmoid_{NUM_DIMENSIONS}D{NUM_CHOICES}M_train.csv"
    with (package / "instance_sets" / "function_approximation" / name).open(newline="") as file:
        rows = list(csv.DictReader(file))
    return np.array(
        [[[float(row[f"function_{d}_{key}"]) for key in "ab"] for d in range(NUM_DIMENSIONS)] for row in rows]
    )


class SigmoidEnv(gymnasium.Env[NDArray[np.float32], NDArray[np.int64]]):
    """Ten steps; in each, one of three values per dimension, near to where the dimension's sigmoid is just then.

    Observation: steps left, slope and shift of every dimension, the last action (-1 before the first).
    """

    def __init__(self, instances: NDArray[np.float64], coupling: Coupling) -> None:
        _, self._num_dimensions, _ = instances.shape
        limit = np.finfo(np.float32).max
        self.observation_space = spaces.Box(-limit, limit, (1 + 3 * self._num_dimensions,), np.float32)
        self.action_space = spaces.MultiDiscrete(np.full(self._num_dimensions, NUM_CHOICES))
        self.max_episode_steps = NUM_STEPS
        self.reward_range = (0.0, 1.0)
        self._instances, self._coupling = instances, coupling
        self._instance = instances[0]
        self._last: NDArray[Any] = np.full(self._num_dimensions, -1)
        self._step = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Draw an instance."""
        super().reset(seed=seed)
        self._instance = self._instances[self.np_random.integers(len(self._instances))]
        self._last, self._step = np.full(self._num_dimensions, -1), 0
        return self._observe(), {}

    def step(self, action: NDArray[np.int64]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Pay for how near the chosen values are."""
        self._step += 1
        self._last = np.asarray(action)
        nearness = 1 - np.abs(self._right_values() - self._last / (NUM_CHOICES - 1))
        return self._observe(), self._combine(nearness), False, self._step == NUM_STEPS, {}

    @property
    def optimal_return(self) -> float:
        """Return what the best actions earn in the running episode: the nearest value in every dimension."""
        now, total = self._step, 0.0
        for self._step in range(1, NUM_STEPS + 1):
            offered = np.arange(NUM_CHOICES) / (NUM_CHOICES - 1)
            nearest = 1 - np.abs(self._right_values()[:, None] - offered).min(axis=1)
            total += self._combine(nearest)
        self._step = now
        return total

    def _right_values(self) -> NDArray[np.float64]:
        slopes, shifts = self._instance.T
        with np.errstate(over="ignore"):  # far left of the shift the value is 0
            values: NDArray[np.float64] = 1 / (1 + np.exp(-slopes * (self._step - shifts)))
        return values

    def _combine(self, nearness: NDArray[np.float64]) -> float:
        return float(np.prod(nearness) if self._coupling == "product" else np.mean(nearness))

    def _observe(self) -> NDArray[np.float32]:
        return np.array([NUM_STEPS - self._step, *self._instance.ravel(), *self._last], np.float32)
