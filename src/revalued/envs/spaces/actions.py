"""From any action space that can be factorised to choices per dimension, and back to an action of that space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from revalued.envs.spaces import parts_of, put_together
from revalued.errors import UserError

Choices: TypeAlias = NDArray[np.int64]

MAX_BINS = 100_000
"""More than any network has outputs for; their values are listed one by one before its size is known."""


@dataclass(frozen=True)
class ActionCodec:
    """The dimensions of an action space, and how a choice in each becomes an action of it.

    Dimensions come in this order: arrays row by row, tuples from first to last, dictionaries in the order of the
    space's own keys (Gymnasium sorts those of a plain dictionary, keywords and an OrderedDict keep theirs).
    """

    sizes: tuple[int, ...]
    decode: Callable[[Choices], Any]
    """From choices [N] to an action of the space."""


def action_codec(space: spaces.Space[Any], bins: int) -> ActionCodec:
    """Return how to act in a space; `bins` is the number of choices per dimension of a Box."""
    if not 2 <= bins <= MAX_BINS:
        raise UserError(f"bins must be at least 2, to leave a choice, and at most {MAX_BINS:,}, got {bins:,}")
    codec = _codec(space, bins, where="")
    if not codec.sizes:
        raise UserError(f"the action space {space} has no dimension to choose in")
    return codec


def _codec(space: spaces.Space[Any], bins: int, where: str) -> ActionCodec:
    parts = parts_of(space)
    if parts is not None:
        return _joined(space, {key: _codec(part, bins, f"{where}[{key!r}]") for key, part in parts})
    if isinstance(space, spaces.Discrete):
        start, kind = space.start, np.dtype(space.dtype).type
        return ActionCodec((int(space.n),), lambda choices: kind(choices[0] + start))
    if isinstance(space, spaces.MultiDiscrete):
        return _array(space.nvec, np.asarray(space.start), space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return _array(np.full(space.shape, 2), np.zeros(space.shape, np.int64), space.dtype)
    if isinstance(space, spaces.Box):
        return _binned(space, bins, where)
    raise UserError(
        f"the action space{f' at {where}' if where else ''} is {space}, which has no dimensions to choose in: possible "
        "are Discrete, MultiDiscrete, MultiBinary, bounded Box, and Tuple or Dict of these"
    )


def _array(counts: NDArray[Any], starts: NDArray[Any], dtype: Any) -> ActionCodec:
    """Take so many whole numbers from each start on."""
    sizes = tuple(counts.ravel().tolist())
    return ActionCodec(sizes, lambda choices: (choices.reshape(counts.shape) + starts).astype(dtype))


def _binned(space: spaces.Box, bins: int, where: str) -> ActionCodec:
    """Cut each dimension into `linspace(low, high, bins)`; whole numbers into no more than there are."""
    named = f"the action space{f' at {where}' if where else ''}"
    if not space.is_bounded():
        raise UserError(f"actions without bounds cannot be cut into bins: {named} is {space}")
    whole = np.issubdtype(space.dtype, np.integer) or space.dtype == np.bool_
    low, high = (bound.ravel().astype(np.float64) for bound in (space.low, space.high))
    columns = []
    for lowest, highest in zip(low, high, strict=True):
        distinct = highest - lowest + 1 if whole else (1 if lowest == highest else np.inf)
        # halves before the difference: a range as wide as the type allows must not overflow
        column = 2 * np.linspace(lowest / 2, highest / 2, int(min(bins, distinct)))
        columns.append((np.rint(column) if whole else column).astype(space.dtype))
    sizes = tuple(len(column) for column in columns)
    offsets = np.cumsum([0, *sizes[:-1]]) if sizes else np.zeros(0, np.int64)
    table = np.concatenate(columns) if columns else np.zeros(0, space.dtype)
    shape = space.shape
    return ActionCodec(sizes, lambda choices: table[offsets + choices].reshape(shape))


def _joined(space: spaces.Space[Any], parts: dict[Any, ActionCodec]) -> ActionCodec:
    ends = np.cumsum([len(part.sizes) for part in parts.values()]).tolist()
    places = {key: slice(end - len(part.sizes), end) for (key, part), end in zip(parts.items(), ends, strict=True)}

    def decode(choices: Choices) -> Any:
        return put_together(space, {key: part.decode(choices[places[key]]) for key, part in parts.items()})

    return ActionCodec(tuple(size for part in parts.values() for size in part.sizes), decode)
