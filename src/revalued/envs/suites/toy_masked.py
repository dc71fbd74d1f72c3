"""A small environment whose legal choices change from step to step."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Observation = NDArray[np.float32]
Action = NDArray[np.int64]


class MaskedLevers(gymnasium.Env[Observation, Action]):
    """A row of levers of which some positions are blocked, others at every step.

    A lever at position j pays `(j + 1) / sizes[i]`, so the best is always the highest position that is not blocked; the
    reward is the mean over levers. What would pay most is often blocked: an agent that maximises over blocked positions
    overestimates. One that chooses them is fined, −1 for each such lever, or with `strict` stopped by a `ValueError`.
    `best_return` is what the running episode pays at most.

    Observation: one number per position, 1 where it is free, then the fraction of the episode that is left. The mask in
    `info["action_mask"]` is the flat vector of the free positions. The last step terminates.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - the base class declares it as a plain attribute

    def __init__(self, sizes: tuple[int, ...] = (2, 3, 5), episode_steps: int = 10, *, strict: bool = False) -> None:
        self.action_space = spaces.MultiDiscrete(np.array(sizes))
        self.observation_space = spaces.Box(0.0, 1.0, (sum(sizes) + 1,), np.float32)
        self.max_episode_steps: int | None = episode_steps
        self.reward_range: tuple[float, float] | None = (-1.0, 1.0)
        self.best_return = 0.0
        self._strict = strict
        self._sizes = sizes
        self._pay = np.concatenate([(np.arange(size) + 1) / size for size in sizes]) / len(sizes)
        self._starts = np.cumsum([0, *sizes[:-1]])
        self._episode_steps = episode_steps
        self._free = np.zeros((episode_steps + 1, sum(sizes)), bool)
        self._step = episode_steps

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Draw which positions are free in every step of a new episode."""
        super().reset(seed=seed)
        self._free = self.np_random.random(self._free.shape) < 0.5
        for start, size in zip(self._starts, self._sizes, strict=True):
            # One position of each lever is always free.
            spared = start + self.np_random.integers(size, size=len(self._free))
            self._free[np.arange(len(self._free)), spared] = True
        best = np.maximum.reduceat(np.where(self._free[:-1], self._pay, 0.0), self._starts, axis=1)
        self.best_return = float(best.sum())
        self._step = 0
        return self._observe(), self._info()

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Pay for the positions of the levers, then block others."""
        if self._step >= self._episode_steps:
            raise gymnasium.error.ResetNeeded("step() after the end of the episode: call reset() first")
        positions = self._starts + np.asarray(action)
        is_free = self._free[self._step, positions]
        if self._strict and not is_free.all():
            raise ValueError(f"action {np.asarray(action).tolist()} is illegal in step {self._step + 1}")
        reward = float(np.where(is_free, self._pay[positions], -1 / len(self._sizes)).sum())
        self._step += 1
        return self._observe(), reward, self._step == self._episode_steps, False, self._info()

    def _observe(self) -> Observation:
        return np.array([*self._free[self._step], 1.0 - self._step / self._episode_steps], np.float32)

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self._free[self._step].copy()}
