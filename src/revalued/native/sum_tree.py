"""The replay's sum tree in C, equal to the bit to what NumPy makes of it."""

from __future__ import annotations

from ctypes import addressof, byref, c_void_p
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from revalued.native.layout import TreeC, array_address
from revalued.native.library import load, why_missing

FAN_OUT = 16
"""Children per node, as in sum_tree.c."""


class NativeTree:
    """Levels of partial sums, leaves first, that live in NumPy arrays: a `FasterTree` of `revalued.replay`."""

    def __init__(self, levels: list[NDArray[np.float64]], size: int) -> None:
        # parents are padded to whole blocks themselves
        if any(not 0 <= FAN_OUT * len(above) - len(below) < FAN_OUT**2 for below, above in pairwise(levels)):
            raise ValueError(f"a sum tree in C has {FAN_OUT} children per node, not levels of {[*map(len, levels)]}")
        self._functions, self._levels = load(), levels
        self._addresses = (c_void_p * len(levels))(*(array_address(level, np.float64) for level in levels))
        self._running = np.zeros(len(levels[-1]) + 1)
        self._tree = TreeC(
            levels=addressof(self._addresses),
            num_levels=len(levels),
            size=size,
            top_width=len(levels[-1]),
            running=array_address(self._running, np.float64),
        )

    @property
    def address(self) -> int:
        """Where C finds the tree."""
        return addressof(self._tree)

    def set(self, indices: NDArray[np.int64], values: NDArray[np.float64], *, only_positive: bool) -> bool:
        """Write leaves and all sums above them, as `FasterTree` says."""
        indices, values = np.ascontiguousarray(indices, np.int64), np.ascontiguousarray(values)
        if indices.shape != values.shape:
            raise ValueError(f"there are {values.shape} values for {indices.shape} indices")
        done: int = self._functions.revalued_tree_set(
            byref(self._tree), array_address(indices, np.int64), array_address(values, np.float64), len(indices),
            only_positive,
        )  # fmt: skip
        return done != 0

    def find(self, prefix_sums: NDArray[np.float64], parts: int = 0) -> NDArray[np.int64] | None:
        """Return the leaves at these prefix sums, in units of the total over `parts` if given; None if all are 0."""
        remaining = prefix_sums.astype(np.float64)  # used up
        nodes = np.empty(len(remaining), np.int64)
        found = self._functions.revalued_tree_find(
            byref(self._tree), array_address(remaining, np.float64), len(nodes), parts, array_address(nodes, np.int64)
        )
        return nodes if found else None


def native_tree() -> type[NativeTree] | None:
    """Return what a replay is given to draw faster; None where there is no C library."""
    return NativeTree if why_missing() is None else None
