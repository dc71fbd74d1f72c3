"""What lanes tell those who use them: what a step brought, where all lanes stand, what came of restoring that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_LAST_EPISODE = 2**62


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
        """Undo `to_arrays`; arrays that do not fit each other are a ValueError."""
        wanted = {
            "episodes": ("i", 1),
            "lengths": ("i", 1),
            "actions": ("u", 2),
            "observations": ("f", 2),
            "masks": ("b", 2),
        }
        for name, (kind, rank) in wanted.items():
            if name not in arrays or arrays[name].dtype.kind != kind or arrays[name].ndim != rank:
                raise ValueError(f"the state of the lanes has no {name}, or of another kind")
        lengths, episodes = arrays["lengths"], arrays["episodes"]
        if len({len(arrays[name]) for name in wanted if name != "actions"}) > 1 or len(lengths) == 0:
            raise ValueError("the state belongs to other lanes: its parts have different lengths")
        if (lengths < 0).any() or lengths.sum() != len(arrays["actions"]):
            raise ValueError("the state of the lanes has another number of actions than its episodes have steps")
        if (episodes < 0).any() or (episodes > _LAST_EPISODE).any():
            raise ValueError("the state of the lanes has episodes that cannot be")
        ends = np.cumsum(lengths)
        return cls(
            episodes=np.asarray(arrays["episodes"], np.int64),
            actions=np.split(np.asarray(arrays["actions"]), ends[:-1]),
            observations=np.asarray(arrays["observations"], np.float32),
            masks=np.asarray(arrays["masks"], np.bool_),
        )

    def select(self, rows: slice) -> LaneState:
        """Return the state of some of the lanes, by their rows."""
        return LaneState(self.episodes[rows], self.actions[rows], self.observations[rows], self.masks[rows])


@dataclass(frozen=True)
class Restored:
    """What came of restoring a state."""

    observations: NDArray[np.float32]
    """[L, D], what to act on next."""
    diverged_lanes: tuple[int, ...]
    """Lanes, counted from 0, whose environment did not repeat itself; they began the next episode instead."""
    masks: NDArray[np.bool_] | None = None
    """[L, Σ sizes], what is legal now; None in a task without masks."""
