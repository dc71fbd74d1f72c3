"""Ways to carry out a learner's update: the same arithmetic as PyTorch operations or, on a CPU, in C."""

from __future__ import annotations

from revalued.config import EngineName
from revalued.learner.native_update import NativeEngine
from revalued.learner.state import Engine, LearnerState, NonFiniteError
from revalued.learner.torch_update import TorchEngine
from revalued.native.choice import resolve_engine

__all__ = ["Engine", "LearnerState", "NativeEngine", "NonFiniteError", "TorchEngine", "make_engine"]


def make_engine(state: LearnerState, name: EngineName, *, compiled: bool = False) -> Engine:
    """Return the engine of that name for a learner; `auto` is the native one wherever it can be used."""
    if resolve_engine(name, state.device, compiled=compiled) == "native":
        return NativeEngine(state)
    return TorchEngine(state, compiled=compiled)
