"""The replay's sum tree and its batches in C; equal to the bit to what NumPy makes of them."""

from __future__ import annotations

from ctypes import addressof, byref, c_void_p
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from revalued.native.layout import RowsC, TreeC, array_address
from revalued.native.library import load

LARGEST_FAN_OUT = 128
"""NumPy adds up more numbers than that in another order."""


class NativeTree:
    """Levels of partial sums, leaves first, that live in NumPy arrays."""

    def __init__(self, levels: list[NDArray[np.float64]], fan_out: int) -> None:
        self._functions, self._levels = load().functions, levels
        self._addresses = (c_void_p * len(levels))(*(array_address(level, np.float64) for level in levels))
        self._running = np.zeros(len(levels[-1]) + 1)
        self._tree = TreeC(
            addressof(self._addresses),
            len(levels),
            fan_out,
            len(levels[-1]),
            array_address(self._running, np.float64),
        )

    def set(self, indices: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Write leaves that exist, and all sums above them."""
        own = indices.astype(np.int64)  # used up
        values = np.ascontiguousarray(values)
        self._functions.revalued_tree_set(
            byref(self._tree), array_address(own, np.int64), array_address(values, np.float64), len(own)
        )

    def find(self, prefix_sums: NDArray[np.float64]) -> NDArray[np.int64] | None:
        """Return the leaves at these prefix sums; None where all leaves are 0."""
        remaining = prefix_sums.astype(np.float64)  # used up
        nodes = np.empty(len(remaining), np.int64)
        found = self._functions.revalued_tree_find(
            byref(self._tree), array_address(remaining, np.float64), len(remaining), array_address(nodes, np.int64)
        )
        return nodes if found else None


class Gathered(NamedTuple):
    """What a batch takes from the rows of a replay."""

    observations: NDArray[np.float32]
    next_observations: NDArray[np.float32]
    actions: NDArray[np.int64]
    returns: NDArray[np.float32]
    discounts: NDArray[np.float32]
    next_rows: NDArray[np.int64]


class NativeRows:
    """The arrays of a replay, to be read in many random rows at once."""

    def __init__(
        self,
        observations: NDArray[np.float32],
        actions: NDArray[Any],
        returns: NDArray[np.float32],
        discounts: NDArray[np.float32],
        next_rows: NDArray[Any],
    ) -> None:
        self._functions = load().functions
        self._arrays = (observations, actions, returns, discounts, next_rows)
        self._rows = RowsC(
            array_address(observations, np.float32),
            array_address(returns, np.float32),
            array_address(discounts, np.float32),
            array_address(actions, actions.dtype.type),
            array_address(next_rows, next_rows.dtype.type),
            *observations.shape,
            actions.shape[1],
            actions.itemsize,
            next_rows.itemsize,
        )

    def gather(self, rows: NDArray[np.int64]) -> Gathered:
        """Return what is in these rows, which must exist."""
        count, floats = len(rows), (len(rows), self._rows.observation_size)
        found = Gathered(
            np.empty(floats, np.float32),
            np.empty(floats, np.float32),
            np.empty((count, self._rows.num_dimensions), np.int64),
            np.empty(count, np.float32),
            np.empty(count, np.float32),
            np.empty(count, np.int64),
        )
        wrong = self._functions.revalued_gather(
            byref(self._rows),
            array_address(rows, np.int64),
            count,
            *(array_address(array, array.dtype.type) for array in found),
        )
        if wrong > 0:
            raise IndexError(f"{wrong} transitions lead to rows that there are not")
        return found
