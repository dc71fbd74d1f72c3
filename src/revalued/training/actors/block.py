"""A block: some consecutive steps of one actor's lanes as plain arrays, checked to the last number on arrival."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revalued.envs import LaneError

Arrays = dict[str, NDArray[Any]]
"""How blocks and weights travel: arrays by name, nothing else."""

_HEADER = "header"


class BlockError(LaneError):
    """A block is not what was asked for; nothing of it has been used."""


@dataclass(frozen=True)
class BlockShape:
    """What all blocks of a run have in common."""

    num_lanes: int
    """L, of one actor."""
    observation_size: int
    num_dimensions: int
    max_choices: int
    mask_size: int = 0

    @property
    def action_type(self) -> np.dtype[Any]:
        """Return the smallest type that holds every choice."""
        return np.min_scalar_type(self.max_choices - 1)

    def layout(self, num_steps: int, num_ends: int) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        """Return shape and type of every array of a block of T steps in which so many episodes end."""
        lanes, steps = (self.num_lanes,), (num_steps, self.num_lanes)
        observation, mask = (self.observation_size,), (self.mask_size,)
        float32, float64, boolean = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.bool_)
        return {
            _HEADER: ((4,), np.dtype(np.int64)),
            "first_observations": ((*lanes, *observation), float32),
            "first_masks": ((*lanes, *mask), boolean),
            "actions": ((*steps, self.num_dimensions), self.action_type),
            "rewards": (steps, float64),
            "terminated": (steps, boolean),
            "truncated": (steps, boolean),
            "next_observations": ((*steps, *observation), float32),
            "next_masks": ((*steps, *mask), boolean),
            "reset_observations": ((num_ends, *observation), float32),
            "reset_masks": ((num_ends, *mask), boolean),
        }


@dataclass(frozen=True)
class Block:
    """T steps of L lanes: `actions` [T, L, N] were chosen by weights of one version."""

    actor: int
    incarnation: int
    number: int
    version: int
    first_observations: NDArray[np.float32]
    """[L, D], what the first actions were chosen on."""
    first_masks: NDArray[np.bool_]
    """[L, M]; M is 0 in a task without masks, here and below."""
    actions: NDArray[np.unsignedinteger[Any]]
    rewards: NDArray[np.float64]
    """[T, L]"""
    terminated: NDArray[np.bool_]
    """[T, L]"""
    truncated: NDArray[np.bool_]
    """[T, L]"""
    next_observations: NDArray[np.float32]
    """[T, L, D], what each step led to."""
    next_masks: NDArray[np.bool_]
    """[T, L, M]"""
    reset_observations: NDArray[np.float32]
    """[E, D], the first observation after each end of an episode, in order of step and lane."""
    reset_masks: NDArray[np.bool_]
    """[E, M]"""

    @property
    def ended(self) -> NDArray[np.bool_]:
        """Return where an episode ended, [T, L]."""
        return self.terminated | self.truncated

    def observations(self) -> NDArray[np.float32]:
        """Return what there was to act on after each step, [T, L, D]: the next episode's first where one ended."""
        return _filled(self.next_observations, self.ended, self.reset_observations)

    def masks(self) -> NDArray[np.bool_]:
        """Return what was legal there, [T, L, M]."""
        return _filled(self.next_masks, self.ended, self.reset_masks)

    def to_arrays(self) -> Arrays:
        """Return the block as it travels."""
        arrays = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return {_HEADER: np.array([self.actor, self.incarnation, self.number, self.version], np.int64), **arrays}


def _filled(values: NDArray[Any], ended: NDArray[np.bool_], resets: NDArray[Any]) -> NDArray[Any]:
    filled = values.copy()
    filled[ended] = resets
    return filled


def read_block(
    arrays: object, shape: BlockShape, *, actor: int, incarnation: int, number: int, version: int, num_steps: int
) -> Block:
    """Return the block that was asked for; anything else is refused, naming the actor, lane and step."""
    where = f"actor {actor}, block {number}"
    if not isinstance(arrays, Mapping) or not isinstance(arrays.get("terminated"), np.ndarray):
        raise BlockError(f"{where}: what came is no block")
    num_ends = len(np.asarray(arrays.get("reset_observations", ())))
    layout = shape.layout(num_steps, num_ends)
    if set(arrays) != set(layout):
        raise BlockError(f"{where}: it has the arrays {sorted(map(str, arrays))} instead of {sorted(layout)}")
    for name, (wanted_shape, wanted_type) in layout.items():
        array = arrays[name]
        if not isinstance(array, np.ndarray) or array.dtype != wanted_type or array.shape != wanted_shape:
            found = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else repr(type(array))
            raise BlockError(f"{where}: {name} is {found} instead of {wanted_type} {wanted_shape}")
    wanted = {"actor": actor, "incarnation": incarnation, "number": number, "version": version}
    for (name, value), found in zip(wanted.items(), arrays[_HEADER].tolist(), strict=True):
        if found != value:
            raise BlockError(f"{where}: it says {name} {found} where {value} was asked for")
    fields: dict[str, Any] = {name: array for name, array in arrays.items() if name != _HEADER}
    block = Block(actor, incarnation, number, version, **fields)
    _check_numbers(block, shape, where)
    return block


def _check_numbers(block: Block, shape: BlockShape, where: str) -> None:
    first_lane = block.actor * shape.num_lanes

    def refuse(lane: int, step: int, reason: str) -> None:
        lane += first_lane
        raise BlockError(f"{where}, lane {lane}, step {step} of the block: {reason}", lane=lane, step=step)

    if len(block.reset_observations) != np.count_nonzero(block.ended):
        raise BlockError(f"{where}: it has {len(block.reset_observations)} resets for {block.ended.sum()} ends")
    lanes_of_ends, steps_of_ends = block.ended.nonzero()[1], block.ended.nonzero()[0] + 1
    for lane in _rows_not_finite(block.first_observations):
        refuse(int(lane), 0, "the first observation is not finite")
    for step, lane in np.argwhere(~np.isfinite(block.rewards)):
        refuse(int(lane), int(step) + 1, f"the reward is {block.rewards[step, lane]}")
    for row in _rows_not_finite(block.next_observations.reshape(-1, shape.observation_size)):
        step, lane = divmod(int(row), shape.num_lanes)
        refuse(lane, step + 1, "the observation is not finite")
    for end in _rows_not_finite(block.reset_observations):
        refuse(int(lanes_of_ends[end]), int(steps_of_ends[end]), "the observation of the next episode is not finite")
    if block.actions.max() >= shape.max_choices:
        step, lane, _ = np.argwhere(block.actions >= shape.max_choices)[0].tolist()
        refuse(lane, step + 1, f"action {block.actions[step, lane].tolist()} is not below {shape.max_choices}")


def _rows_not_finite(values: NDArray[np.float32]) -> NDArray[np.int64]:
    finite = np.isfinite(values)
    return np.flatnonzero(~finite.all(axis=1)) if not finite.all() else np.zeros(0, np.int64)
