"""The memory through which lanes are stepped, in this process or shared with a worker."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revalued.envs.task import TaskInfo


@dataclass(frozen=True)
class LaneBuffers:
    """The arrays through which lanes are stepped, one row per lane, all in one block of memory.

    In a worker process the block is shared, so that a step moves no arrays through a pipe.
    """

    # The eight-byte fields come first: that keeps every array aligned.
    actions: NDArray[np.int64]
    rewards: NDArray[np.float64]
    episodes: NDArray[np.int64]
    """Number of the running episode."""
    steps: NDArray[np.int64]
    """Steps taken in the running episode."""
    next_observations: NDArray[np.float32]
    observations: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    diverged: NDArray[np.bool_]
    """Whether the last restore failed to repeat the episode."""
    next_masks: NDArray[np.bool_]
    masks: NDArray[np.bool_]
    """Both [L, 0] in a task without masks."""

    @staticmethod
    def num_bytes(num_lanes: int, info: TaskInfo) -> int:
        """Return the size of the block for so many lanes of a task."""
        per_lane = 8 * (len(info.sizes) + 3) + 4 * 2 * info.observation_size + 3 + 2 * info.mask_size
        return num_lanes * per_lane

    @classmethod
    def over(cls, memory: Any, num_lanes: int, info: TaskInfo) -> LaneBuffers:
        """Lay the arrays over a writable buffer of `num_bytes` bytes."""
        offset = 0

        def take(dtype: type[np.generic], *row_shape: int) -> NDArray[Any]:
            nonlocal offset
            shape = (num_lanes, *row_shape)
            if 0 in row_shape:  # numpy finds no room for nothing at the very end of the block
                return np.zeros(shape, dtype)
            array: NDArray[Any] = np.ndarray(shape, dtype, buffer=memory, offset=offset)
            offset += array.nbytes
            return array

        return cls(
            actions=take(np.int64, len(info.sizes)),
            rewards=take(np.float64),
            episodes=take(np.int64),
            steps=take(np.int64),
            next_observations=take(np.float32, info.observation_size),
            observations=take(np.float32, info.observation_size),
            terminated=take(np.bool_),
            truncated=take(np.bool_),
            diverged=take(np.bool_),
            next_masks=take(np.bool_, info.mask_size),
            masks=take(np.bool_, info.mask_size),
        )

    def select(self, rows: slice) -> LaneBuffers:
        """Return a view of some of the rows."""
        return LaneBuffers(*(getattr(self, field.name)[rows] for field in fields(self)))
