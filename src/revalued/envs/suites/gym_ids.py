"""Environments of Gymnasium's registry, by id: `gym:CartPole-v1`, or `gym:module:Id-v0` to import the module first."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress
from typing import Any

import gymnasium

from revalued.envs.suites.rendering import headless_backend
from revalued.errors import UserError, unknown_name

PREFIX = "gym:"


def make_gym_env(task: str, render_mode: str | None) -> gymnasium.Env[Any, Any]:
    """Build the environment behind a `gym:` task, with the time limit it is registered with."""
    module, _, name = task.removeprefix(PREFIX).rpartition(":")
    if module:
        _import(module, task)
    if render_mode is not None:
        _prepare_drawing()
    drawing: dict[str, Any] = (
        {} if render_mode is None else {"render_mode": render_mode}
    )  # not every constructor knows the word
    try:
        # Gymnasium's checker would only repeat, as warnings, what lanes refuse as errors.
        return gymnasium.make(name, disable_env_checker=True, **drawing)
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


def _import(module: str, task: str) -> None:
    # As `python -m` would: the module may lie in the folder where the user works.
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())
    try:
        importlib.import_module(module)
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"{task}: module {module!r} cannot be imported: {type(error).__name__}: {reason}") from error
