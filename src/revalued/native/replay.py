"""The replay's sum tree in C, equal to the bit to what NumPy makes of it."""

from __future__ import annotations

from ctypes import addressof, byref, c_void_p

import numpy as np
from numpy.typing import NDArray

from revalued.native.layout import TreeC, array_address
from revalued.native.library import load

LARGEST_FAN_OUT = 128
"""NumPy adds up more numbers than that in another order."""


class NativeTree:
    """Levels of partial sums, leaves first, that live in NumPy arrays."""

    def __init__(self, levels: list[NDArray[np.float64]], fan_out: int, size: int) -> None:
        self._functions, self._levels = load().functions, levels
        self._addresses = (c_void_p * len(levels))(*(array_address(level, np.float64) for level in levels))
        self._running = np.zeros(len(levels[-1]) + 1)
        self._tree = TreeC(
            addressof(self._addresses),
            len(levels),
            fan_out,
            size,
            len(levels[-1]),
            array_address(self._running, np.float64),
        )

    def set(self, indices: NDArray[np.int64], values: NDArray[np.float64], *, only_positive: bool) -> bool:
        """Write leaves, and all sums above them; False where an index or a value is wrong, and then nothing is written.

        Where `only_positive`, leaves that are 0 stay so.
        """
        indices, values = np.ascontiguousarray(indices, np.int64), np.ascontiguousarray(values)
        if indices.shape != values.shape:
            raise ValueError(f"there are {values.shape} values for {indices.shape} indices")
        done: int = self._functions.revalued_tree_set(
            byref(self._tree),
            array_address(indices, np.int64),
            array_address(values, np.float64),
            len(indices),
            only_positive,
        )
        return done != 0

    def set_range(self, start: int, values: NDArray[np.float64]) -> None:
        """Write neighbouring leaves that exist, and all sums above them."""
        self._functions.revalued_tree_set_range(
            byref(self._tree), start, array_address(values, np.float64), len(values)
        )

    def find(self, prefix_sums: NDArray[np.float64], parts: int = 0) -> NDArray[np.int64] | None:
        """Return the leaves at these prefix sums, in units of the total over `parts` if given; None if all are 0."""
        remaining = prefix_sums.astype(np.float64)  # used up
        nodes = np.empty(len(remaining), np.int64)
        found = self._functions.revalued_tree_find(
            byref(self._tree), array_address(remaining, np.float64), len(nodes), parts, array_address(nodes, np.int64)
        )
        return nodes if found else None
