"""Ways to carry out a learner's update: the same arithmetic as PyTorch operations or, on a CPU, in C."""

from __future__ import annotations

import torch

from revalued.config import EngineName
from revalued.engines.native import NativeCritics, NativeEngine, why_missing
from revalued.engines.state import Engine, LearnerState, NonFiniteError
from revalued.engines.torch_engine import TorchEngine
from revalued.errors import UserError

__all__ = [
    "Engine",
    "LearnerState",
    "NativeCritics",
    "NativeEngine",
    "NonFiniteError",
    "TorchEngine",
    "make_engine",
    "resolve_engine",
]


def resolve_engine(name: EngineName, device: torch.device, *, compiled: bool = False) -> EngineName:
    """Return what the name means on this device: `native` or `torch`; refuses `native` where it cannot be used."""
    if name != "native":
        usable = device.type == "cpu" and not compiled and why_missing() is None
        return "native" if name == "auto" and usable else "torch"
    if compiled:
        raise UserError("--compile is for PyTorch's operations, and the native engine has none: use --engine torch")
    if device.type != "cpu":
        raise UserError(f"the native engine runs on the CPU, not on {device}: use --engine torch or --device cpu")
    if reason := why_missing():
        raise UserError(f"the native engine cannot be used here ({reason}): use --engine torch")
    return "native"


def make_engine(state: LearnerState, name: EngineName, *, compiled: bool = False) -> Engine:
    """Return the engine of that name for a learner; `auto` is the native one wherever it can be used."""
    if resolve_engine(name, state.device, compiled=compiled) == "native":
        return NativeEngine(state)
    return TorchEngine(state, compiled=compiled)
