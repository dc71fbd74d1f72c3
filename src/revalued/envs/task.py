"""What a task is: plain values that name it, its sizes, and a function that makes its environments."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from revalued.envs.faults import ENV_ERRORS, read_mask, reason_of, store_observation
from revalued.envs.repeat import Repeated
from revalued.envs.spaces.factored import FactoredEnv, factored_layer
from revalued.errors import UserError


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
    action_repeat: int = 1
    """Steps of the environment for which every action is held."""


@dataclass(frozen=True)
class TaskSpaces:
    """The spaces of a task's environment, inside and outside of the layer that factors it."""

    own_observation: spaces.Space[Any]
    """What the environment itself returns."""
    own_action: spaces.Space[Any]
    """What the environment itself takes."""
    flat_observation: spaces.Space[Any]
    """What the agent sees."""
    action_names: tuple[str, ...] = ()
    """What the environment calls its action dimensions, if it does."""


@dataclass(frozen=True)
class TaskInfo:
    """What has to be known about a task before it can be learnt."""

    observation_size: int
    sizes: tuple[int, ...]
    """Choices per action dimension."""
    reward_range: tuple[float, float] | None
    """Smallest and largest reward of one step of the environment, if known; noise not counted."""
    max_episode_steps: int | None
    """Length of the longest episode, in steps of the environment, if there is one."""
    masked: bool = False
    """Whether the environment tells in `info["action_mask"]` which choices are legal."""
    spaces: TaskSpaces | None = field(default=None, compare=False)
    """What the sizes come from; None where nobody asked an environment."""

    @property
    def mask_size(self) -> int:
        """Return how many booleans a mask has, all dimensions laid end to end; 0 where there are no masks."""
        return sum(self.sizes) if self.masked else 0


@dataclass(frozen=True)
class Task:
    """A task that is known to work."""

    info: TaskInfo
    make: Callable[..., FactoredEnv]
    """Makes one environment, given nothing or a render mode; may be sent to other processes."""
    keeps_spaces: bool = False
    """Whether users see the spaces that the environment had before it was factored."""

    def user_spaces(self) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
        """Return the spaces of observations and actions that users see, see `make_user_env`."""
        known = self.info.spaces
        assert known is not None, "the sizes of this task were not taken from an environment"
        if self.keeps_spaces:
            return known.own_observation, known.own_action
        return known.flat_observation, spaces.MultiDiscrete(np.array(self.info.sizes))

    def make_user_env(self, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        """Make an environment with the spaces that users see: what an agent's `predict` takes and returns.

        An environment of the user's own, or one of Gymnasium's, keeps its spaces and is without noise; actions are
        repeated as in training. A task of this
        package has flat observations and one choice per dimension, as in `gymnasium.make("revalued/TASK-v0")`.
        """
        env = self.make(render_mode)
        if not self.keeps_spaces:
            return env
        own = factored_layer(env).env
        return Repeated(own, env.times) if isinstance(env, Repeated) else own


def inspect_env(env: FactoredEnv) -> TaskInfo:
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
        spaces=_spaces(env),
    )


def _spaces(env: FactoredEnv) -> TaskSpaces:
    own = factored_layer(env).env
    given = getattr(env.unwrapped, "action_names", ())
    names = given if isinstance(given, list | tuple) else ()
    return TaskSpaces(
        own.observation_space, own.action_space, env.observation_space, tuple(str(name) for name in names)
    )


def _has_masks(env: FactoredEnv, observation_size: int, sizes: tuple[int, ...]) -> bool:
    """Begin an episode to see; what is wrong from the start is better said now than in the middle of a run."""
    try:
        observation, info = env.reset(seed=0)
        store_observation(np.zeros(observation_size, np.float32), observation)
        masked = "action_mask" in info
        if masked:
            read_mask(info, sizes)
    except ENV_ERRORS as error:
        raise UserError(f"the environment fails at its first reset: {reason_of(error)}") from error
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
