"""What passes between lanes and those who use them: seeds, steps, states, errors, and the memory they share."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


def episode_seed(seed: int, stream: int | str, lane: int, episode: int) -> int:
    """Return the 32-bit seed of one episode; different streams (training, evaluation) share no episodes."""
    stream_number = zlib.crc32(stream.encode()) if isinstance(stream, str) else stream
    sequence = np.random.SeedSequence(seed, spawn_key=(stream_number, lane, episode))
    return int(sequence.generate_state(1, np.uint32)[0])


class LaneError(RuntimeError):
    """An environment failed, or the process that ran it; the message says where, the lanes cannot go on."""

    def __init__(
        self,
        message: str,
        *,
        lane: int | None = None,
        episode: int | None = None,
        step: int | None = None,
        worker: int | None = None,
        traceback_text: str = "",
    ) -> None:
        super().__init__(message)
        self.lane = lane
        self.episode = episode
        self.step = step
        """Which step of the episode failed, from 1; 0 is the reset."""
        self.worker = worker
        self.traceback_text = traceback_text
        """The traceback inside the environment, possibly of another process."""
        if traceback_text:
            self.add_note(traceback_text)


class LaneStep(NamedTuple):
    """What one step of all lanes brought; the arrays belong to the receiver."""

    rewards: NDArray[np.float64]
    """[L]"""
    terminated: NDArray[np.bool_]
    """[L]"""
    truncated: NDArray[np.bool_]
    """[L]"""
    next_observations: NDArray[np.float32]
    """[L, D], the true successors: where an episode ended, its last observation."""
    observations: NDArray[np.float32]
    """[L, D], what to act on next: where an episode ended, the first observation of the new one."""
    next_masks: NDArray[np.bool_] | None = None
    """[L, Σ sizes], what is legal in `next_observations`, meaningless where an episode terminated; None: no masks."""
    masks: NDArray[np.bool_] | None = None
    """[L, Σ sizes], what is legal in `observations`."""


@dataclass
class LaneState:
    """Where all lanes stand, as the actions that lead there."""

    episodes: NDArray[np.int64]
    """[L], number of the running episode."""
    actions: list[NDArray[np.unsignedinteger[Any]]]
    """Per lane [T, N], the actions taken so far in the running episode."""
    observations: NDArray[np.float32]
    """[L, D], the current observations."""
    masks: NDArray[np.bool_]
    """[L, Σ sizes], what is legal now; [L, 0] in a task without masks."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as plain arrays, to be stored without pickle."""
        return {
            "episodes": self.episodes,
            "observations": self.observations,
            "masks": self.masks,
            "actions": np.concatenate(self.actions),
            "lengths": np.array([len(actions) for actions in self.actions], np.int64),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> LaneState:
        """Undo `to_arrays`."""
        ends = np.cumsum(arrays["lengths"])
        return cls(
            episodes=np.asarray(arrays["episodes"], np.int64),
            actions=np.split(np.asarray(arrays["actions"]), ends[:-1]),
            observations=np.asarray(arrays["observations"], np.float32),
            masks=np.asarray(arrays["masks"], np.bool_),
        )

    def select(self, lanes: range) -> LaneState:
        """Return the state of a contiguous part of the lanes."""
        part = slice(lanes.start, lanes.stop)
        return LaneState(self.episodes[part], self.actions[part], self.observations[part], self.masks[part])


@dataclass(frozen=True)
class Restored:
    """What came of restoring a state."""

    observations: NDArray[np.float32]
    """[L, D], what to act on next."""
    diverged_lanes: tuple[int, ...]
    """Lanes whose environment did not repeat itself; they began the next episode instead."""
    masks: NDArray[np.bool_] | None = None
    """[L, Σ sizes], what is legal now; None in a task without masks."""


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
    def num_bytes(num_lanes: int, observation_size: int, num_dimensions: int, mask_size: int) -> int:
        """Return the size of the block for so many lanes."""
        per_lane = 8 * (num_dimensions + 3) + 4 * 2 * observation_size + 3 + 2 * mask_size
        return num_lanes * per_lane

    @classmethod
    def over(
        cls, memory: Any, num_lanes: int, observation_size: int, num_dimensions: int, mask_size: int
    ) -> LaneBuffers:
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
            actions=take(np.int64, num_dimensions),
            rewards=take(np.float64),
            episodes=take(np.int64),
            steps=take(np.int64),
            next_observations=take(np.float32, observation_size),
            observations=take(np.float32, observation_size),
            terminated=take(np.bool_),
            truncated=take(np.bool_),
            diverged=take(np.bool_),
            next_masks=take(np.bool_, mask_size),
            masks=take(np.bool_, mask_size),
        )

    def select(self, lanes: range) -> LaneBuffers:
        """Return a view of a contiguous part of the lanes."""
        part = slice(lanes.start, lanes.stop)
        return LaneBuffers(*(getattr(self, field.name)[part] for field in fields(self)))
