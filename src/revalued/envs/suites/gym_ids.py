"""Environments of Gymnasium's registry, by id: `gym:CartPole-v1`, or `gym:module:Id-v0` to import the module first."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import gymnasium

from revalued.envs.modules import GYM, import_for, module_of
from revalued.envs.suites.mobile import with_seeds
from revalued.envs.suites.rendering import headless_backend
from revalued.errors import UserError, unknown_name


def make_gym_env(task: str, render_mode: str | None) -> gymnasium.Env[Any, Any]:
    """Build the environment behind a `gym:` task, with the time limit it is registered with."""
    if module_of(task):
        import_for(task)
    name = task.removeprefix(GYM).rpartition(":")[2]
    if render_mode is not None:
        _prepare_drawing()
    # not every constructor knows the word
    drawing: dict[str, Any] = {} if render_mode is None else {"render_mode": render_mode}
    try:
        # Gymnasium's checker would only repeat, as warnings, what lanes refuse as errors.
        return with_seeds(gymnasium.make(name, disable_env_checker=True, **drawing))
    except (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv):
        raise unknown_name("Gymnasium environment", name, gymnasium.registry) from None
    except Exception as error:
        # An id that is none, a missing dependency, or a constructor that fails: whichever, its first line tells most.
        reason = str(error).partition("\n")[0]
        raise UserError(f"{task} cannot be built: {type(error).__name__}: {reason}") from error


def _prepare_drawing() -> None:
    """Tell environments that draw with MuJoCo themselves how to do it without a display."""
    if os.environ.get("MUJOCO_GL", "disabled") == "disabled" and "DISPLAY" not in os.environ:
        with suppress(UserError):  # the environment may have its own ways; if not, it will say so
            os.environ["MUJOCO_GL"] = headless_backend()
