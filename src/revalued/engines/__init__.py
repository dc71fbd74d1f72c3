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
    "uses_native",
]


def uses_native(name: EngineName, device: torch.device) -> bool:
    """Tell whether that name means C code on the device; refuses `native` where it cannot be used."""
    if name == "native" and device.type != "cpu":
        raise UserError(f"the native engine runs on the CPU, not on {device}: use --engine torch or --device cpu")
    if name == "native" and (reason := why_missing()):
        raise UserError(f"the native engine cannot be used here ({reason}): use --engine torch")
    return name == "native" or (name == "auto" and device.type == "cpu" and why_missing() is None)


def make_engine(state: LearnerState, name: EngineName, *, compiled: bool = False) -> Engine:
    """Return the engine of that name; `auto` is the native one wherever it can be used."""
    if compiled and name == "native":
        raise UserError("--compile is for PyTorch's operations, and the native engine has none: use --engine torch")
    if not compiled and uses_native(name, state.device):
        return NativeEngine(state)
    return TorchEngine(state, compiled=compiled)
