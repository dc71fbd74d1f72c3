"""A block: some consecutive steps of one actor's lanes as plain arrays, checked to the last number on arrival."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revalued.envs import LaneError

Arrays = dict[str, NDArray[Any]]
"""How blocks and weights travel: arrays by name, nothing else."""

HEADER = ("actor", "incarnation", "number", "version")
"""What the first array of a block says, a number each."""


class BlockError(LaneError):
    """A block is not what was asked for; nothing of it has been used."""


@dataclass(frozen=True)
class Ticket:
    """One block that an actor was asked for."""

    actor: int
    incarnation: int
    number: int
    """Of the block within this incarnation, from 0."""
    version: int
    """Of the weights to act with: the learner's updates when they were published."""
    env_steps: int
    """Interactions before this block, in the order in which they were asked for; ε follows from it."""
    num_steps: int
    """Steps of every lane."""
    max_updates: int
    """Updates that the block will pay for, at most."""
    sent_at: float = 0.0


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
            "header": ((len(HEADER),), np.dtype(np.int64)),
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


def _filled(values: NDArray[Any], ended: NDArray[np.bool_], resets: NDArray[Any]) -> NDArray[Any]:
    filled = values.copy()
    filled[ended] = resets
    return filled


def read_block(arrays: object, shape: BlockShape, ticket: Ticket) -> Block:
    """Return the block that was asked for; anything else is refused, naming the actor, lane and step."""
    where = f"actor {ticket.actor}, block {ticket.number}"
    if not isinstance(arrays, Mapping) or not isinstance(arrays.get("terminated"), np.ndarray):
        raise BlockError(f"{where}: what came is no block")
    num_ends = len(np.asarray(arrays.get("reset_observations", ())))
    layout = shape.layout(ticket.num_steps, num_ends)
    if set(arrays) != set(layout):
        raise BlockError(f"{where}: it has the arrays {sorted(map(str, arrays))} instead of {sorted(layout)}")
    for name, (wanted_shape, wanted_type) in layout.items():
        array = arrays[name]
        if not isinstance(array, np.ndarray) or array.dtype != wanted_type or array.shape != wanted_shape:
            found = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else repr(type(array))
            raise BlockError(f"{where}: {name} is {found} instead of {wanted_type} {wanted_shape}")
    header = dict(zip(HEADER, arrays["header"].tolist(), strict=True))
    for name, found in header.items():
        if found != getattr(ticket, name):
            raise BlockError(f"{where}: it says {name} {found} where {getattr(ticket, name)} was asked for")
    block = Block(**header, **{name: array for name, array in arrays.items() if name != "header"})
    _check_numbers(block, shape, where)
    return block


def _check_numbers(block: Block, shape: BlockShape, where: str) -> None:
    def refuse(is_wrong: NDArray[np.bool_], reason: Callable[[int, int], str], first_step: int = 1) -> None:
        """Refuse the block at the first of these [T, L] that is wrong."""
        for row, column in np.argwhere(is_wrong)[:1].tolist():
            lane, step = block.actor * shape.num_lanes + column, first_step + row
            raise BlockError(
                f"{where}, lane {lane}, step {step} of the block: {reason(row, column)}", lane=lane, step=step
            )

    def not_finite(values: NDArray[np.float32]) -> NDArray[np.bool_]:
        is_wrong: NDArray[np.bool_] = np.any(~np.isfinite(values), axis=-1)
        return is_wrong

    if len(block.reset_observations) != np.count_nonzero(block.ended):
        raise BlockError(f"{where}: it has {len(block.reset_observations)} resets for {block.ended.sum()} ends")
    first, rewards, actions = block.first_observations[None], block.rewards, block.actions
    refuse(not_finite(first), lambda step, lane: "the first observation is not finite", first_step=0)
    refuse(~np.isfinite(rewards), lambda step, lane: f"the reward is {rewards[step, lane]}")
    refuse(not_finite(block.next_observations), lambda step, lane: "the observation is not finite")
    refuse(not_finite(block.observations()), lambda step, lane: "the observation of the next episode is not finite")
    refuse(
        np.any(actions >= shape.max_choices, axis=-1),
        lambda step, lane: f"action {actions[step, lane].tolist()} is not below {shape.max_choices}",
    )
