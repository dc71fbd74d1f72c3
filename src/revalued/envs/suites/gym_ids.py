"""Environments of Gymnasium's registry, by id: `gym:CartPole-v1`, or `gym:module:Id-v0` to import the module first.

To import a module is to run it. A name that somebody typed says so itself; for a name that stands in a file, whoever
builds the environment has to ask `refuse_untrusted` first.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import gymnasium

from revalued.envs.suites.rendering import headless_backend
from revalued.errors import UserError, unknown_name

PREFIX = "gym:"


def module_of(task: str) -> str:
    """Return the module that building a task imports because its name says so; empty where there is none."""
    return task.removeprefix(PREFIX).rpartition(":")[0] if task.startswith(PREFIX) else ""


def refuse_untrusted(task: str, trusted: Collection[str]) -> None:
    """Refuse a task from a file that would import a module nobody vouched for.

    One that this process has imported already, in whatever way, runs no code any more.
    """
    module = module_of(task)
    if module and module not in trusted and module not in sys.modules:
        raise UserError(
            f"the run's task {task[:200]!r} says to import the module {module[:100]!r}, which would run its code: "
            f"if you trust it, add --trust-module {module[:100]} (in Python trust_modules=[...])"
        )


def search_working_folder() -> None:
    """Let modules be found in the folder where somebody works, as `python -m` would, after everything installed."""
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())


def make_gym_env(task: str, render_mode: str | None) -> gymnasium.Env[Any, Any]:
    """Build the environment behind a `gym:` task, with the time limit it is registered with."""
    module, name = module_of(task), task.removeprefix(PREFIX).rpartition(":")[2]
    if module:
        _import(module, task)
    if render_mode is not None:
        _prepare_drawing()
    try:
        # Gymnasium's checker would only repeat, as warnings, what lanes refuse as errors.
        return gymnasium.make(name, render_mode=render_mode, disable_env_checker=True)
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
    try:
        importlib.import_module(module)
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        if isinstance(error, ModuleNotFoundError) and os.path.lexists(f"{module}.py"):
            reason += "; the current folder is not searched, unless you set PYTHONPATH=."
        raise UserError(f"{task}: module {module!r} cannot be imported: {reason}") from error
