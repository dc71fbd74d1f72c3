"""What the choices of a task mean: their names, and the values that the environment itself receives for them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from revalued.envs.spaces import parts_of
from revalued.envs.spaces.actions import ActionCodec
from revalued.envs.spaces.factored import FactoredEnv, factored_layer


@dataclass(frozen=True)
class ActionPart:
    """One array of an environment's action: all of it, or one entry of a Tuple or Dict."""

    name: str
    """Where it is, such as `taps.0`; empty if it is the whole action."""
    first: int
    """Its first dimension; the others follow."""
    shape: tuple[int, ...]
    """As the environment wants it, () for a single number."""
    table: NDArray[Any]
    """[n, A] the values of the choices, in the environment's own type; a shorter row ends with its last value again."""

    @property
    def num_dimensions(self) -> int:
        """Return how many dimensions fill this part."""
        return len(self.table)


@dataclass(frozen=True)
class ChoiceTable:
    """The names and values of all choices, dimension by dimension, in the order of the policy's sub-actions."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    parts: tuple[ActionPart, ...]

    def values(self) -> list[list[Any]]:
        """Return the values of each dimension's choices as plain numbers."""
        rows = [row for part in self.parts for row in part.table.tolist()]
        return [row[:size] for row, size in zip(rows, self.sizes, strict=True)]


def choice_table(env: FactoredEnv) -> ChoiceTable:
    """Return what the choices of a task's environment mean.

    Names come from the environment's attribute `action_names` where it has one name per dimension, otherwise from the
    structure of its action space.
    """
    factored = factored_layer(env)
    return choices_in(factored.env.action_space, factored.action_codec, getattr(env.unwrapped, "action_names", ()))


def choices_in(space: spaces.Space[Any], codec: ActionCodec, own_names: Sequence[str]) -> ChoiceTable:
    """Return what the choices of an action space mean, see `choice_table`."""
    sizes, decode = codec.sizes, codec.decode
    # shorter dimensions repeat their last choice
    columns = [np.minimum(column, np.asarray(sizes) - 1) for column in range(max(sizes))]
    actions = [dict(_leaves(space, decode(column))) for column in columns]
    parts: list[ActionPart] = []
    names: list[str] = []
    for name, leaf in actions[0].items():
        shape = np.shape(leaf)
        table = np.stack([np.ravel(action[name]) for action in actions], axis=1)
        if len(table):
            parts.append(ActionPart(name, len(names), shape, table))
            names += [f"{name or 'action'}{_index(shape, number)}" for number in range(len(table))]
    if len(own_names) == len(names):
        names = [str(label) for label in own_names]
    return ChoiceTable(tuple(names), sizes, tuple(parts))


def _leaves(space: spaces.Space[Any], action: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the arrays and numbers of an action with their places, in the order of the dimensions."""
    parts = parts_of(space)
    if parts is None:
        yield where, action
    for key, part in parts or ():
        yield from _leaves(part, action[key], f"{where}.{key}" if where else str(key))


def _index(shape: tuple[int, ...], number: int) -> str:
    """Return the index of an entry of an array, as one would write it."""
    if not shape or math.prod(shape) == 0:
        return ""
    return f"[{', '.join(str(index) for index in np.unravel_index(number, shape))}]"
