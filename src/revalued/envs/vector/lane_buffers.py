"""The memory through which lanes are stepped, in this process or shared with a worker."""

from __future__ import annotations

import math
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
        return num_lanes * sum(np.dtype(dtype).itemsize * math.prod(row) for dtype, row in _layout(info).values())

    @classmethod
    def over(cls, memory: Any, num_lanes: int, info: TaskInfo) -> LaneBuffers:
        """Lay the arrays over a writable buffer of `num_bytes` bytes."""
        arrays: dict[str, NDArray[Any]] = {}
        offset = 0
        for name, (dtype, row) in _layout(info).items():
            shape = (num_lanes, *row)
            # numpy finds no room for nothing at the very end of the block
            arrays[name] = np.zeros(shape, dtype) if 0 in row else np.ndarray(shape, dtype, memory, offset)
            offset += arrays[name].nbytes
        return cls(**arrays)

    def select(self, rows: slice) -> LaneBuffers:
        """Return a view of some of the rows."""
        return LaneBuffers(*(getattr(self, field.name)[rows] for field in fields(self)))


def _layout(info: TaskInfo) -> dict[str, tuple[type[np.generic], tuple[int, ...]]]:
    """Return type and shape of one lane's row in each array; eight-byte types come first, which keeps all aligned."""
    observation, mask = (info.observation_size,), (info.mask_size,)
    return {
        "actions": (np.int64, (len(info.sizes),)),
        "rewards": (np.float64, ()),
        "episodes": (np.int64, ()),
        "steps": (np.int64, ()),
        "next_observations": (np.float32, observation),
        "observations": (np.float32, observation),
        "terminated": (np.bool_, ()),
        "truncated": (np.bool_, ()),
        "diverged": (np.bool_, ()),
        "next_masks": (np.bool_, mask),
        "masks": (np.bool_, mask),
    }
