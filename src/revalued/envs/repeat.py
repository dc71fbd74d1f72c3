"""Action repeat: every action is held for some steps of the environment, and their rewards are added up."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from revalued.envs.noise import TRUE_REWARD

STEPS = "revalued.env_steps"
"""Where `info` tells for how many steps of the environment an action was held."""
_SOLVED = ("success", "is_success")


class Repeated(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Takes every action `times` times in a row and returns what the last step led to.

    It is held for fewer steps where the episode ends, and where the environment masks actions and the mask changes:
    what was legal may not be any more. `info` is the last step's, except that a task solved on the way stays solved.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], times: int) -> None:
        super().__init__(env)
        self.times = times
        self._mask: list[NDArray[Any]] = []
        if (pace := env.metadata.get("render_fps")) is not None:  # pictures are taken between two actions only
            self.metadata = {**env.metadata, "render_fps": max(1, round(pace / times))}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._mask = _kept(info.get("action_mask"))
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Hold one action; the reward is the sum of what the environment's steps paid, with noise and without."""
        steps, total, true_total = 0, 0.0, 0.0
        solved: dict[str, Any] = {}
        while True:
            observation, reward, terminated, truncated, info = self.env.step(action)
            steps += 1
            total += float(reward)
            true_total += float(info.get(TRUE_REWARD, reward))
            solved |= {name: info[name] for name in _SOLVED if _says_yes(info.get(name))}
            before, self._mask = self._mask, _kept(info.get("action_mask"))
            if steps == self.times or terminated or truncated or not _are_equal(before, self._mask):
                break
        told = {TRUE_REWARD: true_total} if TRUE_REWARD in info else {}
        return observation, total, terminated, truncated, {**info, **solved, **told, STEPS: steps}


def _says_yes(value: Any) -> bool:
    return isinstance(value, bool | int | float | np.bool_ | np.number) and bool(value)


def _kept(mask: Any) -> list[NDArray[Any]]:
    """Return a copy of a mask, a flat vector or one vector per dimension; nothing where there is none."""
    parts = mask if isinstance(mask, list | tuple) else [] if mask is None else [mask]
    return [np.array(part) for part in parts]


def _are_equal(one: list[NDArray[Any]], other: list[NDArray[Any]]) -> bool:
    return len(one) == len(other) and all(map(np.array_equal, one, other))
