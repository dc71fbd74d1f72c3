"""The only door to simulators: from a task's name to an environment that every other room can use."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from revalued.envs.faults import EnvFault, read_mask, store_observation
from revalued.envs.noise import Noisy
from revalued.envs.spaces.discretise import Discretise
from revalued.envs.spaces.factored import Factored, FactoredEnv
from revalued.envs.suites import gym_ids as gym_tasks
from revalued.envs.suites import metaworld as metaworld_tasks
from revalued.envs.suites.control_suite import ControlSuiteEnv, all_task_names
from revalued.envs.suites.toy_fmdp import TabularFMDP
from revalued.envs.suites.toy_masked import MaskedLevers
from revalued.envs.suites.toys import CountingEnv, LeverGame
from revalued.errors import UserError, unknown_name


@dataclass(frozen=True)
class TaskSpec:
    """Everything needed to build an environment, in plain values, so that it travels to workers and into files."""

    task: str
    bins: int = 3
    """Choices per dimension of a continuous action; a task with discrete actions keeps its own."""
    reward_noise: float = 0.0
    """Standard deviation of Gaussian noise on the rewards."""
    state_noise: float = 0.0
    """Standard deviation of Gaussian noise on every number of the observations."""


@dataclass(frozen=True)
class TaskInfo:
    """What the other rooms need to know about a task."""

    observation_size: int
    sizes: tuple[int, ...]
    """Choices per action dimension."""
    reward_range: tuple[float, float] | None
    """Smallest and largest reward of one step, if known; noise not counted."""
    max_episode_steps: int | None
    """Length of the longest episode, if there is one."""
    masked: bool = False
    """Whether the environment tells in `info["action_mask"]` which choices are legal."""

    @property
    def mask_size(self) -> int:
        """Return how many booleans a mask has, all dimensions laid end to end; 0 where there are no masks."""
        return sum(self.sizes) if self.masked else 0


_TOYS: dict[str, Callable[[], FactoredEnv]] = {
    "toy-levers": LeverGame,
    "toy-counting": CountingEnv,
    "toy-masked": MaskedLevers,
    "toy-fmdp": TabularFMDP,
}


def task_names() -> list[str]:
    """Return every task that can be learnt: the benchmark's, the rest of the control suite, the toys."""
    # The actions of lqr have no bounds and so cannot be discretised; making it says so.
    return [*(name for name in all_task_names() if not name.startswith("lqr-")), *_TOYS]


def make_env(spec: TaskSpec, render_mode: str | None = None) -> FactoredEnv:
    """Build the environment of a task: one-dimensional float32 observations, MultiDiscrete actions."""
    return with_noise(_make_exact(spec, render_mode), spec.reward_noise, spec.state_noise)


def with_noise(env: FactoredEnv, reward_noise: float, state_noise: float) -> FactoredEnv:
    """Add noise to what an environment tells, if there is to be any."""
    return Noisy(env, reward_noise, state_noise) if reward_noise > 0 or state_noise > 0 else env


def _make_exact(spec: TaskSpec, render_mode: str | None) -> FactoredEnv:
    task = spec.task
    if task in _TOYS:
        if render_mode is not None:
            raise UserError(f"{task} has no pictures")
        return _TOYS[task]()
    if task.startswith(gym_tasks.PREFIX):
        return Factored(gym_tasks.make_gym_env(task, render_mode), spec.bins)
    if task.startswith(metaworld_tasks.PREFIX):
        return Factored(metaworld_tasks.MetaWorldEnv(task, render_mode), spec.bins)
    if task.startswith(CUSTOM_PREFIX):
        raise UserError(f"{task} is an environment of your own: hand it over from Python, as env=")
    if task not in all_task_names():
        raise unknown_name("task", task, task_names())
    return Discretise(ControlSuiteEnv(task, render_mode), spec.bins)


CUSTOM_PREFIX = "custom:"
"""Begins the names of tasks whose environment is handed over as an object, and which no name can bring back."""


@lru_cache(maxsize=64)
def describe(spec: TaskSpec) -> TaskInfo:
    """Return the sizes of a task, found by building its environment once."""
    env = make_env(spec)
    try:
        return inspect(env)
    finally:
        env.close()


def inspect(env: FactoredEnv) -> TaskInfo:
    """Return what an environment is like; begins an episode to see whether there are masks."""
    action_space = env.action_space
    assert isinstance(action_space, spaces.MultiDiscrete)
    assert env.observation_space.shape is not None
    (observation_size,) = env.observation_space.shape
    sizes = tuple(int(size) for size in action_space.nvec)
    return TaskInfo(
        observation_size=observation_size,
        sizes=sizes,
        reward_range=_reward_range(env.unwrapped),
        max_episode_steps=_max_episode_steps(env),
        masked=_has_masks(env, observation_size, sizes),
    )


def _has_masks(env: FactoredEnv, observation_size: int, sizes: tuple[int, ...]) -> bool:
    """Begin an episode to see; what is wrong from the start is better said now than in the middle of a run."""
    try:
        observation, info = env.reset(seed=0)
        store_observation(np.zeros(observation_size, np.float32), observation)
        masked = "action_mask" in info
        if masked:
            read_mask(info, sizes)
    except Exception as error:
        reason = str(error) if isinstance(error, EnvFault) else f"{type(error).__name__}: {error}"
        raise UserError(f"the environment fails at its first reset: {reason}") from error
    return masked


def _reward_range(env: gymnasium.Env[Any, Any]) -> tuple[float, float] | None:
    """Return the range that an environment declares; one without ends says nothing."""
    try:
        low, high = (float(bound) for bound in getattr(env, "reward_range", ()))
    except (TypeError, ValueError):
        return None
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def _max_episode_steps(env: gymnasium.Env[Any, Any]) -> int | None:
    declared = getattr(env.unwrapped, "max_episode_steps", None)
    limit = declared if env.spec is None or env.spec.max_episode_steps is None else env.spec.max_episode_steps
    return int(limit) if isinstance(limit, int | float) and limit >= 1 and math.isfinite(limit) else None
