"""Robots as problems: time limits that truncate, agents joined without masks, and the packages where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from revalued.envs import TaskSpec, find_task
from revalued.envs.examine import examine
from revalued.envs.suites import problems
from revalued.envs.suites.problems import PROBLEMS


class LimitedRobots(gymnasium.Env[Any, Any]):
    """Terminates after 3 steps whatever is left, as the packages of the robots do."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.MultiDiscrete([2, 2])

    def __init__(self, food_left: int) -> None:
        self.field = np.array([0, food_left])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self._steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        return np.zeros(1, np.float32), 0.0, self._steps == 3, False, {}


@pytest.mark.parametrize(
    ("name", "food_left", "ends"),
    [("foraging", 1, (False, True)), ("foraging", 0, (True, False)), ("warehouse", 0, (False, True))],
)
def test_robots_whose_time_is_up_are_truncated(
    name: str, food_left: int, ends: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(problems, "make_gym_env", lambda *_: LimitedRobots(food_left))
    env = PROBLEMS[name].make(Path(), None)
    env.reset()
    assert [env.step(np.zeros(2))[2:4] for _ in range(3)] == [(False, False)] * 2 + [ends]


class Crew(LimitedRobots):
    """As agents are joined: with masks in every step."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return super().reset()[0], {"action_mask": [np.ones(2, np.bool_)] * 2, "seed": seed}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        *outcome, _ = super().step(action)
        return (*outcome, {"action_mask": [np.ones(2, np.bool_)] * 2, "kept": True})


def test_robots_that_spread_are_one_agent_without_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str | None]] = []

    def make(name: str, render_mode: str | None) -> Crew:
        asked.append((name, render_mode))
        return Crew(0)

    monkeypatch.setattr(problems, "make_pettingzoo_env", make)
    env = PROBLEMS["spread"].make(Path(), "rgb_array")
    assert asked == [("pettingzoo:mpe2.simple_spread_v3", "rgb_array")]
    assert env.reset(seed=3)[1] == {"seed": 3}
    assert env.step(np.zeros(2))[1:] == (0.0, False, False, {"kept": True})


def test_the_real_ones_spread_without_masks() -> None:
    pytest.importorskip("mpe2")
    task = find_task(TaskSpec("problem:spread"))
    assert (task.info.sizes, task.info.observation_size, task.info.masked) == ((5,) * 3, 54, False)


@pytest.mark.parametrize("name", ["foraging", "warehouse"])
def test_the_real_robots_are_truncated_too(name: str) -> None:
    pytest.importorskip(PROBLEMS[name].package)
    found = examine(find_task(TaskSpec(f"problem:{name}")), episodes=1, seconds=60.0, seed=0)
    assert (len(found.lengths), found.terminated) == (1, 0)
