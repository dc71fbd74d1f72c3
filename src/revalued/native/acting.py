"""Outputs of critics for a few observations at a time, in C: what choosing actions needs."""

from __future__ import annotations

from ctypes import byref
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray

from revalued.native.layout import CriticsC, Memory, ParametersC, address, array_address
from revalued.native.library import load
from revalued.native.merging import MergedLayers, merging_saves_reading
from revalued.networks import LAYER_NORM_EPSILON, NetworkShape, Parameters

ROWS_AT_A_TIME = 64


class NativeCritics:
    """`Critics` for a policy, whose parameters, on the CPU, are read anew in every call.

    Where there are few observations, the first two layers are multiplied beforehand. An engine that does so for its
    updates hands over its product, equal to the bit to the one made here.
    """

    def __init__(self, shape: NetworkShape, parameters: Parameters, merged: MergedLayers | None = None) -> None:
        self._library, self._parameters, self._shape = load(), parameters, shape
        self._merged = (merged or MergedLayers(shape, parameters)) if merging_saves_reading(shape) else None
        self._capacity, self._lock = 0, Lock()

    def _reserve(self, rows: int) -> None:
        shape, self._memory = self._shape, Memory()
        threads, self._capacity = torch.get_num_threads(), max(rows, ROWS_AT_A_TIME)
        size = (threads, ROWS_AT_A_TIME, shape.hidden_size)
        self._critics = CriticsC(
            threads=threads,
            critics=shape.critics,
            inputs=shape.observation_size + 1,
            hidden=shape.hidden_size,
            outputs=shape.head_size,
            block=ROWS_AT_A_TIME,
            epsilon=LAYER_NORM_EPSILON,
            parameters=ParametersC.of(self._parameters),
            merged=None if self._merged is None else self._merged.address,
            **{name: self._memory.reserve_places(*size) for name in ("residual", "block1", "features")},
        )
        # torch's memory is always aligned alike, and products round accordingly; the last column carries the bias
        self._inputs = torch.ones(self._capacity, shape.observation_size + 1)
        self._observations = self._inputs.numpy()[:, :-1]
        self._critic_of = np.zeros(self._capacity, np.int64)
        out = torch.zeros(self._capacity, shape.head_size)
        self._out = out.numpy()
        self._addresses = (address(self._inputs), array_address(self._critic_of, np.int64), address(out))

    def all_outputs(self, observations: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return what each critic says about each of the observations [B, D]: [K, B, O]."""
        num_critics, batch = self._shape.critics, len(observations)
        if num_critics == 1:
            return self._outputs(observations, 0)[None]
        critics = np.arange(num_critics).repeat(batch)
        return self._outputs(np.tile(observations, (num_critics, 1)), critics).reshape(num_critics, batch, -1)

    def outputs(self, observations: NDArray[np.float32], critics: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return outputs [B, O] of observations [B, D], each through the critic [B] named for it."""
        if self._shape.critics == 1:
            return self._outputs(observations, critics)
        order = critics.argsort(kind="stable")  # neighbours that name the same critic go through it together
        found = np.empty((len(critics), self._shape.head_size), np.float32)
        found[order] = self._outputs(observations[order], critics[order])
        return found

    def _outputs(self, observations: NDArray[np.float32], critics: NDArray[np.int64] | int) -> NDArray[np.float32]:
        rows = len(observations)
        with self._lock:  # Python's own lock is open while C works in the memory of this object
            if rows > self._capacity:
                self._reserve(rows)
            self._observations[:rows] = observations
            self._critic_of[:rows] = critics
            if self._merged is not None:
                self._merged.refresh()
            inputs, critic_of, out = self._addresses
            wrong = self._library.revalued_outputs(byref(self._critics), inputs, critic_of, rows, out)
            if wrong > 0:
                raise IndexError(f"{wrong} critics are asked for that are none of the {self._shape.critics}")
            found: NDArray[np.float32] = self._out[:rows].copy()
        return found
