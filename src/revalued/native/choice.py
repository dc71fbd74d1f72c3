"""Which engine a run uses, and who evaluates its critics: C code or PyTorch."""

from __future__ import annotations

import torch

from revalued.config import EngineName, Torso
from revalued.errors import UserError
from revalued.native.acting import NativeCritics
from revalued.native.library import why_missing
from revalued.networks import NetworkShape, Parameters


def resolve_engine(
    name: EngineName, device: torch.device, *, compiled: bool = False, torso: Torso = "plain"
) -> EngineName:
    """Return what the name means on this device: `native` or `torch`; refuses `native` where it cannot be used."""
    if name != "native":
        usable = device.type == "cpu" and not compiled and torso == "plain" and why_missing() is None
        return "native" if name == "auto" and usable else "torch"
    if compiled:
        raise UserError("--compile is for PyTorch's operations, and the native engine has none: use --engine torch")
    if torso != "plain":
        raise UserError(f"the native engine knows the plain torso only, not {torso}: use --engine torch")
    if device.type != "cpu":
        raise UserError(f"the native engine runs on the CPU, not on {device}: use --engine torch or --device cpu")
    if reason := why_missing():
        raise UserError(f"the native engine cannot be used here ({reason}): use --engine torch")
    return "native"


def native_critics(name: EngineName, shape: NetworkShape, parameters: Parameters) -> NativeCritics | None:
    """Return the critics that this engine hands to a policy; None where PyTorch evaluates them."""
    is_native = resolve_engine(name, parameters["input"].device, torso=shape.torso) == "native"
    return NativeCritics(shape, parameters) if is_native else None
