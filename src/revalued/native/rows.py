"""Storing the usual step of a replay in C, equal to the bit to what NumPy makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import byref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revalued.native.layout import RowsC, array_address
from revalued.native.library import load, why_missing
from revalued.native.sum_tree import NativeTree


class NativeRows:
    """The arrays of a replay, which live in NumPy, and those of a step."""

    def __init__(
        self, arrays: Mapping[str, NDArray[Any]], levels: list[NDArray[np.float64]], size: int, max_choices: int
    ) -> None:
        self._functions, self._tree = load(), NativeTree(levels, size)
        lanes, observation_size = len(arrays["heads"]), arrays["observations"].shape[1]
        # A step is copied to where C looks for it: asking every array for its address takes longer.
        self._lanes, self._rewards = np.zeros(lanes, np.int64), np.zeros(lanes)
        self._actions = np.zeros((lanes, arrays["actions"].shape[1]), np.int64)
        self._ended = np.zeros((2, lanes), np.bool_)
        self._observations = np.zeros((lanes, observation_size), np.float32)
        self._arrays = {
            "observations": arrays["observations"], "actions": arrays["actions"], "returns": arrays["returns"],
            "discounts": arrays["discounts"], "next_rows": arrays["next_rows"], "heads": arrays["heads"],
            "pending": arrays["num_pending"], "pending_returns": arrays["pending_returns"],
            "discount_powers": arrays["discount_powers"],
            "changed": np.zeros(2 * lanes, np.int64), "leaves": np.zeros(2 * lanes),
            "step_lanes": self._lanes, "step_actions": self._actions, "step_rewards": self._rewards,
            "ended": self._ended, "step_observations": self._observations,
        }  # fmt: skip
        self._rows = RowsC(
            positions=len(arrays["observations"]) // lanes,
            lanes=lanes,
            max_choices=max_choices,
            observation_size=observation_size,
            dimensions=self._actions.shape[1],
            n_step=len(arrays["pending_returns"]),
            action_bytes=arrays["actions"].itemsize,
            next_row_bytes=arrays["next_rows"].itemsize,
            **{name: array_address(array, array.dtype.type) for name, array in self._arrays.items()},
        )

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
        """Add one step of these distinct lanes, as `FasterRows` says."""
        count = len(lanes)
        self._lanes[:count] = lanes
        self._actions[:count] = actions
        self._rewards[:count] = rewards
        self._ended[0, :count] = terminated
        self._ended[1, :count] = truncated
        self._observations[:count] = next_observations
        overwritten: int = self._functions.revalued_append(byref(self._rows), self._tree.address, count, new_leaf)
        return None if overwritten < 0 else overwritten


def native_rows() -> type[NativeRows] | None:
    """Return what a replay is given to store faster; None where there is no C library."""
    return NativeRows if why_missing() is None else None
