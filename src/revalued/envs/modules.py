"""Modules that a task's name says to import: `gym:module:Id-v0`, `pettingzoo:module`.

To import a module is to run it. A name that somebody typed says so itself; for a name that stands in a file, whoever
builds the environment has to ask `refuse_untrusted` first.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Collection, Mapping
from types import ModuleType

from revalued.errors import UserError

GYM, PETTINGZOO = "gym:", "pettingzoo:"
_PROBLEMS = dict.fromkeys(("mobile_env", "lbforaging", "rware", "sumo_rl"), "pip install 'revalued[problems]'")
HOW_TO_INSTALL: Mapping[str, str] = {
    **_PROBLEMS,
    "icu_sepsis": "pip install --no-deps icu-sepsis",  # what it depends on, the retired gym among it, is not used
    "dacbench": "pip install --no-deps dacbench",  # only its data is read
    "mpe2": "pip install --no-deps mpe2 pettingzoo pygame",  # it asks for pygame-ce, which gets in the way of pygame
    "pettingzoo": "pip install --no-deps pettingzoo",
}
"""Commands that bring modules which tasks are known to need."""


def module_of(task: str) -> str:
    """Return the module that building a task imports because its name says so; empty where there is none."""
    if task.startswith(PETTINGZOO):
        return task.removeprefix(PETTINGZOO)
    return task.removeprefix(GYM).rpartition(":")[0] if task.startswith(GYM) else ""


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


def import_for(task: str) -> ModuleType:
    """Import the module that a task's name says to import."""
    module = module_of(task)
    try:
        return importlib.import_module(module)
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        if isinstance(error, ModuleNotFoundError) and os.path.lexists(f"{module}.py"):
            reason += "; the current folder is not searched, unless you set PYTHONPATH=."
        elif isinstance(error, ModuleNotFoundError) and error.name:
            package = error.name.partition(".")[0]
            reason += f": {HOW_TO_INSTALL.get(package, f'install the package that has {package!r}')}"
        raise UserError(f"{task}: module {module!r} cannot be imported: {reason}") from error
