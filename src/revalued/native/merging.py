"""The product of the critics' first two layers, which stands in for both: when it pays, and keeping it current."""

from __future__ import annotations

from ctypes import byref
from operator import attrgetter

import torch

from revalued.native.layout import LayersC, address
from revalued.native.library import load
from revalued.networks import NetworkShape, Parameters

writes_to = attrgetter("_version")
"""PyTorch counts how often a tensor was written to; C does so for what it writes (`increment_version`)."""


def merging_pays(shape: NetworkShape, rows: int, *, backward: bool) -> bool:
    """Tell from the sizes whether multiplying the first two layers saves arithmetic for batches of so many rows."""
    hidden, inputs = shape.hidden_size, shape.observation_size + 1
    # products of size B·H·H against those of size D·H·H and B·D·H; the backward pass has two more of the first kind
    products = 3 if backward else 1
    separate = products * rows * hidden * hidden
    merged = products * inputs * hidden * hidden + (2 if backward else 1) * rows * inputs * hidden
    return merged < separate


def merging_saves_reading(shape: NetworkShape) -> bool:
    """Tell whether the product of the first two layers is so much smaller than the second that making it pays.

    With a few observations it is reading the weights that takes the time, not arithmetic.
    """
    return 4 * (shape.observation_size + 1) <= shape.hidden_size


def merging_shrinks(shape: NetworkShape) -> bool:
    """Tell whether the product is smaller than the second layer: enough where it is made once, for a file."""
    return shape.observation_size < shape.hidden_size


class MergedLayers:
    """Products [K, D+1, H] of the input layer and the first block's, multiplied again whenever these have changed."""

    def __init__(self, shape: NetworkShape, parameters: Parameters) -> None:
        self._functions = load()
        self._factors = [parameters[name] for name in ("input", "block1.weight", "block1.bias")]
        self._product = torch.zeros(shape.critics, shape.observation_size + 1, shape.hidden_size)
        self.address = address(self._product)
        self._layers = LayersC(
            critics=shape.critics,
            inputs=shape.observation_size + 1,
            hidden=shape.hidden_size,
            input=address(parameters["input"]),
            weight=address(parameters["block1.weight"]),
            bias=address(parameters["block1.bias"]),
            merged=self.address,
        )
        self._current_after: list[int] | None = None

    def refresh(self) -> None:
        """Multiply again if anyone has written to a layer since."""
        if list(map(writes_to, self._factors)) != self._current_after:
            self._functions.revalued_merge(byref(self._layers))
            self.take_as_current()

    def take_as_current(self) -> None:
        """Take note that the product is that of the layers as they are now."""
        self._current_after = list(map(writes_to, self._factors))
