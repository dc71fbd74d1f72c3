"""Value-based reinforcement learning for factorised action spaces."""

from __future__ import annotations

from revalued.run.signals import end_at_once, is_command

if is_command():
    end_at_once()  # the next lines take half a second

import importlib
from typing import TYPE_CHECKING, Any

from revalued.envs.registration import register_tasks

if TYPE_CHECKING:
    from revalued.acting.ensemble import Utilities
    from revalued.agent import BDQ, DQN, Agent, DecQN, DecQNC51, DecQNSum, Lean, REValueD, load
    from revalued.algorithms.decompositions import register_decomposition
    from revalued.errors import UserError
    from revalued.run.save import SaveBest
    from revalued.training.callbacks import Event, StopOnReturn

__version__ = "0.1.0"

__all__ = [
    "BDQ",
    "DQN",
    "Agent",
    "DecQN",
    "DecQNC51",
    "DecQNSum",
    "Event",
    "Lean",
    "REValueD",
    "SaveBest",
    "StopOnReturn",
    "UserError",
    "Utilities",
    "load",
    "register_decomposition",
]

_HOMES = {
    **dict.fromkeys(
        ("Agent", "BDQ", "DQN", "DecQN", "DecQNC51", "DecQNSum", "Lean", "REValueD", "load"), "revalued.agent"
    ),
    **dict.fromkeys(("Event", "StopOnReturn"), "revalued.training.callbacks"),
    "SaveBest": "revalued.run.save",
    "UserError": "revalued.errors",
    "Utilities": "revalued.acting.ensemble",
    "register_decomposition": "revalued.algorithms.decompositions",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: PyTorch takes a second, and not everybody needs it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names before they are imported, too."""
    return sorted({*globals(), *__all__})


register_tasks()
