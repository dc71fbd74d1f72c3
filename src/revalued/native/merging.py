"""The product of the critics' first two layers, which lets actions be chosen without reading the second."""

from __future__ import annotations

from ctypes import byref
from operator import attrgetter

import torch

from revalued.native.layout import LayersC, address
from revalued.native.library import load
from revalued.networks import NetworkShape, Parameters

writes_to = attrgetter("_version")
"""PyTorch counts how often a tensor was written to; C does so for what it writes (`increment_version`)."""

_NAMES = ("input", "block1.weight", "block1.bias")


class MergedLayers:
    """Products [K, D+1, H] of the input layer and the first block's, multiplied again whenever these have changed."""

    def __init__(self, shape: NetworkShape, parameters: Parameters) -> None:
        self._functions = load().functions
        self._factors = [parameters[name] for name in _NAMES]
        self._product = torch.zeros(shape.critics, shape.observation_size + 1, shape.hidden_size)
        self.address = address(self._product)
        self._layers = LayersC(
            sgemm=load().sgemm,
            set_product_threads=load().set_product_threads,
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
