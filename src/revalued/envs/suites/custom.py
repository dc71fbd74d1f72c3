"""Environments handed over from Python, as an object or as a function: tasks named `custom:` and whatever you like."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import gymnasium
from gymnasium.vector.utils import CloudpickleWrapper

from revalued.envs.suites.pettingzoo import as_one_agent
from revalued.errors import UserError

PREFIX = "custom:"

EnvSource: TypeAlias = gymnasium.Env[Any, Any] | Callable[[], gymnasium.Env[Any, Any]]
"""An environment of the user's own: an object, of which copies are made, or a function that makes one."""
EnvMaker: TypeAlias = Callable[[str | None], gymnasium.Env[Any, Any]]
"""Makes one environment, given a render mode."""


def refuse_name(task: str, render_mode: str | None) -> gymnasium.Env[Any, Any]:
    """Refuse to make an environment from its name alone: nothing on disk could bring it back."""
    raise UserError(f"{task} is an environment of your own: hand it over from Python, as env=")


def env_maker(task: str, env: EnvSource) -> EnvMaker:
    """Return a function that makes environments like the one handed over; may be sent to other processes."""
    if not task.startswith(PREFIX):
        advice = f"name the task {PREFIX} and what you like, such as {PREFIX}MyEnv"
        raise UserError(f"env= and the task {task!r} contradict each other: {advice}")
    # Functions defined in a script or a notebook cannot be imported by workers; cloudpickle sends their code along.
    return partial(_make, CloudpickleWrapper(_maker(env)))


def _maker(env: EnvSource) -> Callable[[], Any]:
    env = as_one_agent(env)
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


def _make(make: Callable[[], Any], render_mode: str | None) -> gymnasium.Env[Any, Any]:
    env = as_one_agent(make())
    if not isinstance(env, gymnasium.Env):
        raise UserError(f"the function handed over as env= must return a Gymnasium environment, it returned {env!r}")
    if render_mode is not None and env.render_mode != render_mode:
        raise UserError(f"the environment handed over as env= must be made with render_mode={render_mode!r}")
    return env
