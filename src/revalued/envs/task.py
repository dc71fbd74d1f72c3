"""A task as the training loop wants it: what it is like, and a function that makes its environments."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import gymnasium
from gymnasium.vector.utils import CloudpickleWrapper

from revalued.envs.kinds import CUSTOM_PREFIX, TaskInfo, TaskSpec, describe, inspect, make_env, with_noise
from revalued.envs.spaces.factored import Factored, FactoredEnv
from revalued.errors import UserError

EnvSource: TypeAlias = gymnasium.Env[Any, Any] | Callable[[], gymnasium.Env[Any, Any]]
"""An environment of the user's own: an object, of which copies are made, or a function that makes one."""


@dataclass(frozen=True)
class Task:
    """A task that is known to work."""

    info: TaskInfo
    make: Callable[..., FactoredEnv]
    """Makes one environment, given nothing or a render mode; may be sent to other processes."""


def find_task(spec: TaskSpec, env: EnvSource | None = None) -> Task:
    """Return the task of that name, or the one behind an environment handed over as object or function."""
    if env is None:
        return Task(describe(spec), partial(make_env, spec))
    if not spec.task.startswith(CUSTOM_PREFIX):
        advice = f"name the task {CUSTOM_PREFIX} and what you like, such as {CUSTOM_PREFIX}MyEnv"
        raise UserError(f"env= and the task {spec.task!r} contradict each other: {advice}")
    # Functions defined in a script or a notebook cannot be imported by workers; cloudpickle sends their code along.
    make = partial(_make_custom, CloudpickleWrapper(_maker(env)), spec)
    trial = make()
    try:
        return Task(inspect(trial), make)
    finally:
        trial.close()


def _maker(env: EnvSource) -> Callable[[], Any]:
    if not isinstance(env, gymnasium.Env):
        if not callable(env):
            raise UserError(f"env= must be a Gymnasium environment or a function that makes one, got {env!r}")
        return env
    try:
        copy.deepcopy(env).close()
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"the environment {env} cannot be copied ({type(error).__name__}: {reason}), and several are needed: "
            "hand over a function that makes one"
        ) from error
    return partial(copy.deepcopy, env)


def _make_custom(make: Callable[[], Any], spec: TaskSpec, render_mode: str | None = None) -> FactoredEnv:
    env = make()
    if not isinstance(env, gymnasium.Env):
        raise UserError(f"the function handed over as env= must return a Gymnasium environment, it returned {env!r}")
    if render_mode is not None and env.render_mode != render_mode:
        raise UserError(f"the environment handed over as env= must be made with render_mode={render_mode!r}")
    return with_noise(Factored(env, spec.bins), spec.reward_noise, spec.state_noise)
