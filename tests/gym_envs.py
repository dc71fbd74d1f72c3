"""Environments that tests use as if users had brought them; importing this module registers some of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from revalued.envs import CountingEnv


class Kitchen(gymnasium.Env[Any, Any]):
    """A nested action space and a nested observation space, both with an offset, in episodes of unequal length.

    It pays 1 for each part of the action that fits the order shown, and refuses actions of another form.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.action_space = spaces.Dict(
            {
                "burner": spaces.Discrete(3, start=1),
                "heat": spaces.Box(0.0, 1.0, (1,), np.float32),
                "taps": spaces.Tuple((spaces.MultiBinary(2), spaces.MultiDiscrete([2, 4], start=[5, 0]))),
            }
        )
        self.observation_space = spaces.Dict({"order": spaces.Discrete(3, start=1), "clock": spaces.Box(0, 20, (1, 1))})
        self._order, self._clock, self._end = 1, 0, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self._clock, self._end = 0, int(self.np_random.integers(3, 15))
        return self._observe(), {}

    def step(self, action: dict[str, Any]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise ValueError(f"{action} is not of {self.action_space}")
        order = self._order
        bits, dials = action["taps"]
        right = [action["burner"] == order, action["heat"][0] == order / 2 - 0.5, *(bits == 1), dials[1] == order]
        self._clock += 1
        return self._observe(), float(sum(right)), self._clock == self._end, False, {}

    def render(self) -> Any:
        return np.full((31, 41, 3), 8 * self._clock, np.uint8)

    def _observe(self) -> dict[str, Any]:
        self._order = int(self.np_random.integers(1, 4))
        return {"order": self._order, "clock": np.array([[self._clock]], np.float32)}


class Broken(CountingEnv):
    """Is in order until a certain step of its life, then returns what it should not."""

    def __init__(self, fault: str, after: int = 60) -> None:
        super().__init__()
        self._fault, self._left = fault, after

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        self._left -= 1
        if self._left > 0:
            return observation, reward, terminated, truncated, info
        broken: dict[str, Callable[[], tuple[Any, Any]]] = {
            "nan": lambda: (np.full(4, np.nan, np.float32), reward),
            "shape": lambda: (observation[:3], reward),
            "reward": lambda: (observation, None),
        }
        return *broken[self._fault](), terminated, truncated, info


gymnasium.register("tests/Kitchen-v0", "gym_envs:Kitchen", max_episode_steps=8)
