"""Ways to carry out a learner's update: the same arithmetic as PyTorch operations or, on a CPU, in C."""

from __future__ import annotations

from revalued.config import EngineName
from revalued.engines.native import NativeEngine, why_missing
from revalued.engines.state import Engine, LearnerState, NonFiniteError
from revalued.engines.torch_engine import TorchEngine
from revalued.errors import UserError

__all__ = ["Engine", "LearnerState", "NativeEngine", "NonFiniteError", "TorchEngine", "make_engine"]


def make_engine(state: LearnerState, name: EngineName, *, compiled: bool = False) -> Engine:
    """Return the engine of that name; `auto` is the native one wherever it can be used."""
    if name == "torch" or (name == "auto" and (compiled or state.device.type != "cpu" or why_missing())):
        return TorchEngine(state, compiled=compiled)
    if compiled:
        raise UserError("--compile is for PyTorch's operations, and the native engine has none: use --engine torch")
    if state.device.type != "cpu":
        raise UserError(f"the native engine runs on the CPU, not on {state.device}: use --engine torch or --device cpu")
    if reason := why_missing():
        raise UserError(f"the native engine cannot be used here ({reason}): use --engine torch")
    return NativeEngine(state)
