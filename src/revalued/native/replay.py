"""The replay in C, equal to the bit to what NumPy makes of it."""

from __future__ import annotations

from ctypes import addressof, byref, c_void_p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revalued.native.layout import RowsC, TreeC, array_address
from revalued.native.library import load

LARGEST_FAN_OUT = 128
"""NumPy adds up more numbers than that in another order."""


class NativeTree:
    """Levels of partial sums, leaves first, that live in NumPy arrays."""

    def __init__(self, levels: list[NDArray[np.float64]], fan_out: int, size: int) -> None:
        self._functions, self._levels = load().functions, levels
        self._addresses = (c_void_p * len(levels))(*(array_address(level, np.float64) for level in levels))
        self._running = np.zeros(len(levels[-1]) + 1)
        self.structure = TreeC(
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
            byref(self.structure),
            array_address(indices, np.int64),
            array_address(values, np.float64),
            len(indices),
            only_positive,
        )
        return done != 0

    def find(self, prefix_sums: NDArray[np.float64], parts: int = 0) -> NDArray[np.int64] | None:
        """Return the leaves at these prefix sums, in units of the total over `parts` if given; None if all are 0."""
        remaining = prefix_sums.astype(np.float64)  # used up
        nodes = np.empty(len(remaining), np.int64)
        found = self._functions.revalued_tree_find(
            byref(self.structure),
            array_address(remaining, np.float64),
            len(nodes),
            parts,
            array_address(nodes, np.int64),
        )
        return nodes if found else None


class NativeRows:
    """The arrays of a replay, which live in NumPy."""

    def __init__(
        self,
        tree: NativeTree,
        *,
        observations: NDArray[np.float32],
        actions: NDArray[np.integer],
        returns: NDArray[np.float32],
        discounts: NDArray[np.float32],
        next_rows: NDArray[np.integer],
        heads: NDArray[np.int64],
        num_pending: NDArray[np.int64],
        pending_returns: NDArray[np.float64],
        discount_powers: NDArray[np.float64],
        max_choices: int,
    ) -> None:
        self._functions = load().functions
        num_lanes = len(heads)
        changed, leaves = np.zeros(2 * num_lanes, np.int64), np.zeros(2 * num_lanes)
        arrays = (
            observations, actions, returns, discounts, next_rows,
            heads, num_pending, pending_returns, discount_powers, changed, leaves,
        )  # fmt: skip
        # A step is copied to where C looks for it: asking every array for its address takes longer.
        self._lanes, self._actions = np.zeros(num_lanes, np.int64), np.zeros((num_lanes, actions.shape[1]), np.int64)
        self._rewards, (self._terminated, self._truncated) = np.zeros(num_lanes), np.zeros((2, num_lanes), np.bool_)
        self._next_observations = np.zeros((num_lanes, observations.shape[1]), np.float32)
        step = (self._actions, self._rewards, self._terminated, self._truncated, self._next_observations)
        self._lanes_address = array_address(self._lanes, np.int64)
        self._step_addresses = [array_address(array, array.dtype.type) for array in step]
        self._kept_alive = (tree, arrays)
        self._structure = RowsC(
            addressof(tree.structure), len(observations) // num_lanes, num_lanes, max_choices,
            observations.shape[1], actions.shape[1], len(pending_returns), actions.itemsize, next_rows.itemsize,
            *(array_address(array, array.dtype.type) for array in arrays),
        )  # fmt: skip

    def append(
        self,
        lanes: NDArray[np.int64],
        actions: NDArray[Any],
        rewards: NDArray[Any],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        next_observations: NDArray[Any],
        new_leaf: float,
    ) -> int | None:
        """Add one step of these distinct lanes if nothing ends and one transition becomes complete in each.

        Return how many transitions were overwritten; None where the step is another, and then nothing is written.
        """
        count = len(lanes)
        self._lanes[:count] = lanes
        self._actions[:count] = actions
        self._rewards[:count] = rewards
        self._terminated[:count] = terminated
        self._truncated[:count] = truncated
        self._next_observations[:count] = next_observations
        overwritten: int = self._functions.revalued_append(
            byref(self._structure), self._lanes_address, count, *self._step_addresses, new_leaf
        )
        return None if overwritten < 0 else overwritten
