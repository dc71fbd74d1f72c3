"""From observations of any supported space to one flat float32 vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from revalued.envs.faults import EnvFault
from revalued.envs.spaces import parts_of
from revalued.errors import UserError

Vector: TypeAlias = NDArray[np.float32]

# Every finite float32: a bound for what has none, since learning needs finite numbers anyway.
_LIMIT = np.finfo(np.float32).max


@dataclass(frozen=True)
class ObservationCodec:
    """The flat form of an observation space, and how an observation takes it.

    Numbers come in this order: arrays row by row, a Discrete as one-hot vector, a MultiDiscrete as one one-hot vector
    per entry, tuples from first to last, dictionaries in the order of the space's own keys.
    """

    low: Vector
    high: Vector
    flatten: Callable[[Any], Vector]
    """From an observation of the space to a fresh vector [D]."""


def observation_codec(space: spaces.Space[Any]) -> ObservationCodec:
    """Return how to flatten observations of a space."""
    codec = _codec(space, where="")
    if len(codec.low) == 0:
        raise UserError(f"the observation space {space} has no numbers in it")
    return codec


def _codec(space: spaces.Space[Any], where: str) -> ObservationCodec:
    parts = parts_of(space)
    if parts is not None:
        keys = [key for key, _ in parts]
        expected = f"a dictionary with {keys}" if isinstance(space, spaces.Dict) else f"a tuple of {len(keys)}"
        return _joined({key: _codec(part, f"{where}[{key!r}]") for key, part in parts}, where, expected)
    if isinstance(space, spaces.Box):
        return _numbers(space.shape, space.low, space.high, where)
    if isinstance(space, spaces.MultiBinary):
        return _numbers(space.shape, np.zeros(space.shape), np.ones(space.shape), where)
    if isinstance(space, spaces.Discrete):
        return _one_hot(np.array([space.n]), np.array([space.start]), (), where)
    if isinstance(space, spaces.MultiDiscrete):
        return _one_hot(space.nvec.ravel(), np.asarray(space.start).ravel(), space.nvec.shape, where)
    raise UserError(
        f"the observation space{f' at {where}' if where else ''} is {space}, which cannot be flattened: possible are "
        "Box, Discrete, MultiDiscrete, MultiBinary, and Tuple or Dict of these"
    )


def _numbers(shape: tuple[int, ...], low: NDArray[Any], high: NDArray[Any], where: str) -> ObservationCodec:
    def flatten(observation: Any) -> Vector:
        array = np.asarray(observation)
        if array.shape != shape:
            raise EnvFault(f"the observation{where} has shape {array.shape} instead of {shape}")
        try:
            with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, which is reported later
                return array.ravel().astype(np.float32)
        except (TypeError, ValueError):
            raise EnvFault(f"the observation{where} holds {array.dtype} instead of numbers") from None

    def bound(array: NDArray[Any]) -> Vector:
        return np.clip(array.ravel().astype(np.float64), -_LIMIT, _LIMIT).astype(np.float32)

    return ObservationCodec(bound(low), bound(high), flatten)


def _one_hot(sizes: NDArray[Any], starts: NDArray[Any], shape: tuple[int, ...], where: str) -> ObservationCodec:
    offsets = np.cumsum([0, *sizes[:-1]])
    total = int(sizes.sum())

    def flatten(observation: Any) -> Vector:
        entries = np.asarray(observation)
        if entries.shape != shape:
            raise EnvFault(f"the observation{where} has shape {entries.shape} instead of {shape}")
        positions = entries.ravel() - starts
        if not ((positions >= 0) & (positions < sizes)).all() or (positions != np.floor(positions)).any():
            raise EnvFault(f"the observation{where} is {entries.tolist()}, which is not in its space")
        flat = np.zeros(total, np.float32)
        flat[offsets + positions.astype(np.int64)] = 1.0
        return flat

    return ObservationCodec(np.zeros(total, np.float32), np.ones(total, np.float32), flatten)


def _joined(parts: dict[Any, ObservationCodec], where: str, expected: str) -> ObservationCodec:
    def flatten(observation: Any) -> Vector:
        try:
            values = [observation[key] for key in parts]
            complete = len(observation) == len(parts)
        except (KeyError, IndexError, TypeError):
            complete = False
        if not complete:
            raise EnvFault(f"the observation{where} should be {expected}, it is {shortened(observation)}")
        return np.concatenate([part.flatten(value) for part, value in zip(parts.values(), values, strict=True)])

    nothing = np.zeros(0, np.float32)
    low = np.concatenate([nothing, *(part.low for part in parts.values())])
    high = np.concatenate([nothing, *(part.high for part in parts.values())])
    return ObservationCodec(low, high, flatten)


def shortened(value: Any, length: int = 80) -> str:
    """Return what a value looks like, in one line of bounded length."""
    text = " ".join(repr(value).split())
    return text if len(text) <= length else text[: length - 3] + "..."
