"""The structures of the C code, field by field, and the memory that they point to."""

from __future__ import annotations

import math
from ctypes import Structure, addressof, c_char, c_float, c_int, c_int64, c_void_p
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from revalued.networks import Parameters

_ALIGNED_FLOATS = 16


def _fields(kind: type[Any], *names: str) -> list[tuple[str, type[Any]]]:
    return [(name, kind) for name in names]


def _pointers(*names: str) -> list[tuple[str, type[Any]]]:
    return _fields(c_void_p, *names)


class _StructureC(Structure):
    """A structure that is filled by name: fields not named are 0, names that are no fields are refused."""

    def __init__(self, **values: Any) -> None:
        if unknown := values.keys() - {name for name, *_ in self._fields_}:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        super().__init__(**values)


class ParametersC(_StructureC):
    """`Parameters`."""

    _fields_ = _pointers(
        "input", "block1_weight", "block1_bias", "block2_weight", "block2_bias",
        "norm_scale", "norm_shift", "head_weight", "head_bias",
    )  # fmt: skip

    @classmethod
    def of(cls, parameters: Parameters) -> ParametersC:
        """Point to the parameters of all critics."""
        return cls(**{name.replace(".", "_"): address(tensor) for name, tensor in parameters.items()})


class FoldingC(_StructureC):
    """`Folding`."""

    _fields_ = _pointers("block1", "head_weight", "head_bias")


class KeptC(_StructureC):
    """`Kept`."""

    _fields_ = _pointers(
        "hidden", "block1", "block2", "features", "mean", "inverse_deviation", "output", "output_gradient"
    )


class ScratchC(_StructureC):
    """`Scratch`."""

    _fields_ = _pointers("hidden", "block1", "block2", "raw", "mean", "inverse_deviation", "outputs")


class BackwardC(_StructureC):
    """`Backward`."""

    _fields_ = _pointers("scaled", "upstream", "residual", "block1", "merged", "head", "squares")


class UpdateC(_StructureC):
    """`Update`."""

    _fields_ = [
        *_fields(c_int, "threads", "critics", "rows", "inputs", "hidden", "outputs"),
        *_fields(c_int, "whole", "parts", "width", "block"),
        *_fields(c_float, "epsilon", "trunk_scale"),
        *_fields(ParametersC, "online", "target", "first_moment", "second_moment", "gradients"),
        *_fields(FoldingC, "online_folding", "target_folding"),
        ("kept", KeptC),
        ("scratch", ScratchC),
        ("backward", BackwardC),
        *_pointers("observations", "target_next", "online_next"),
        ("target_passes", c_int),
    ]


class LossC(_StructureC):
    """`Loss`."""

    _fields_ = [
        *_pointers("actions", "returns", "discounts", "weights", "legal"),
        *_fields(c_int, "legal_stride", "dimensions", "choices", "mean_of_max", "adds", "quadratic", "reduces_by_mean"),
        *_fields(c_float, "beta", "temperature"),
        ("drawn", c_void_p),
        ("num_drawn", c_int),
        *_pointers("targets", "errors", "priorities", "sums", "metrics"),
    ]


class StepC(_StructureC):
    """`Step`."""

    _fields_ = [
        *_fields(c_float, "clip", "step_size", "rate1", "rate2", "correction2", "epsilon", "target_rate", "keep"),
        ("norms", c_void_p),
    ]


class CriticsC(_StructureC):
    """`Critics`."""

    _fields_ = [
        *_fields(c_int, "threads", "critics", "inputs", "hidden", "outputs", "block"),
        ("epsilon", c_float),
        ("parameters", ParametersC),
        *_pointers("merged", "residual", "block1", "features"),
    ]


class LayersC(_StructureC):
    """`Layers`."""

    _fields_ = [
        *_fields(c_int, "critics", "inputs", "hidden"),
        *_pointers("input", "weight", "bias", "merged"),
    ]


class TreeC(_StructureC):
    """`Tree`."""

    _fields_ = [
        ("levels", c_void_p),
        ("num_levels", c_int),
        *_fields(c_int64, "size", "top_width"),
        ("running", c_void_p),
    ]


class RowsC(_StructureC):
    """`Rows`."""

    _fields_ = [
        *_fields(c_int64, "positions", "lanes", "max_choices"),
        *_fields(c_int, "observation_size", "dimensions", "n_step", "action_bytes", "next_row_bytes"),
        *_pointers("observations", "returns", "discounts", "actions", "next_rows", "heads", "pending", "changed"),
        *_pointers("pending_returns", "leaves", "discount_powers", "step_rewards"),
        *_pointers("step_lanes", "step_actions", "step_observations", "ended"),
    ]


STRUCTURES = _StructureC.__subclasses__()
"""All structures of `kernels.h`; there, their names end without the C."""


def address(tensor: Tensor | None) -> int | None:
    """Return where the tensor's numbers lie, in the order and of the kind that C expects; None stays None."""
    if tensor is None:
        return None
    if tensor.dtype != torch.float32 or not tensor.is_contiguous() or tensor.device.type != "cpu":
        raise TypeError(f"expected contiguous float32 on the CPU, not {tensor.dtype} on {tensor.device}")
    return tensor.data_ptr()


def array_address(array: NDArray[np.generic], dtype: type[np.generic]) -> int:
    """Return where the array's numbers lie; refuses another order or kind than C expects."""
    if array.dtype != dtype or not array.flags.c_contiguous:
        raise TypeError(f"expected contiguous {dtype.__name__}, not {array.dtype}")
    if not array.flags.writeable:
        return int(array.ctypes.data)
    return addressof(c_char.from_buffer(array))  # type: ignore[arg-type]  # the same, several times as fast


def aligned(numbers: int) -> int:
    """Return the size of a place for so many numbers: whole cache lines."""
    return -(-numbers // _ALIGNED_FLOATS) * _ALIGNED_FLOATS


class Memory:
    """Memory for C to work in, kept as long as this object lives."""

    def __init__(self) -> None:
        self._tensors: list[Tensor] = []

    def reserve(self, *size: int, dtype: torch.dtype = torch.float32) -> int:
        """Reserve zeros and return where they lie."""
        tensor = torch.zeros(size, dtype=dtype)
        self._tensors.append(tensor)
        return tensor.data_ptr()

    def reserve_places(self, places: int, *size: int) -> int:
        """Reserve zeros of this size in as many places, all aligned alike."""
        return self.reserve(places, aligned(math.prod(size)))
