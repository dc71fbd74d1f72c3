"""The only door to simulators: from a task's name to an environment that every other room can use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from revalued.envs.control_suite import ControlSuiteEnv, all_task_names
from revalued.envs.discretise import Discretise
from revalued.envs.toy import CountingEnv, LeverGame
from revalued.errors import unknown_name

FactoredEnv: TypeAlias = gymnasium.Env[NDArray[np.float32], NDArray[np.int64]]
"""What every task becomes: flat float32 observations, MultiDiscrete actions."""


@dataclass(frozen=True)
class TaskSpec:
    """Everything needed to build an environment, in plain values, so that it travels to workers and into files."""

    task: str
    bins: int = 3
    """Choices per dimension of a continuous action; a task with discrete actions keeps its own."""


@dataclass(frozen=True)
class TaskInfo:
    """What the other rooms need to know about a task."""

    observation_size: int
    sizes: tuple[int, ...]
    """Choices per action dimension."""
    reward_range: tuple[float, float] | None
    """Smallest and largest reward of one step, if known."""
    max_episode_steps: int | None
    """Length of the longest episode, if there is one."""


def _make_control_suite(spec: TaskSpec) -> FactoredEnv:
    return Discretise(ControlSuiteEnv(spec.task), spec.bins)


_MAKERS: dict[str, Callable[[TaskSpec], FactoredEnv]] = {
    **dict.fromkeys(all_task_names(), _make_control_suite),
    "toy-levers": lambda spec: LeverGame(),
    "toy-counting": lambda spec: CountingEnv(),
}


def task_names() -> list[str]:
    """Return every task that can be learnt: the benchmark's, the rest of the control suite, the toys."""
    # The actions of lqr have no bounds and so cannot be discretised; making it says so.
    return [name for name in _MAKERS if not name.startswith("lqr-")]


def make_env(spec: TaskSpec) -> FactoredEnv:
    """Build the environment of a task: one-dimensional float32 observations, MultiDiscrete actions."""
    maker = _MAKERS.get(spec.task)
    if maker is None:
        raise unknown_name("task", spec.task, task_names())
    return maker(spec)


@lru_cache(maxsize=64)
def describe(spec: TaskSpec) -> TaskInfo:
    """Return the sizes of a task, found by building its environment once."""
    env = make_env(spec)
    action_space = env.action_space
    assert isinstance(action_space, spaces.MultiDiscrete)
    assert env.observation_space.shape is not None
    (observation_size,) = env.observation_space.shape
    info = TaskInfo(
        observation_size=observation_size,
        sizes=tuple(int(size) for size in action_space.nvec),
        reward_range=getattr(env.unwrapped, "reward_range", None),
        max_episode_steps=getattr(env.unwrapped, "max_episode_steps", None),
    )
    env.close()
    return info
