"""One seed, many independent random streams, none of which depends on what the others draw."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np


class Stream(enum.IntEnum):
    """What a stream of random numbers is for; the numbers are part of what a seed means, so they never change."""

    INITIALISATION = 1
    EXPLORATION = 2
    REPLAY = 3


def stream_seed(seed: int, stream: Stream) -> int:
    """Return a 63-bit seed for a stream."""
    return int(np.random.SeedSequence((seed, stream)).generate_state(1, np.uint64)[0] >> 1)


def stream_rng(seed: int, stream: Stream) -> np.random.Generator:
    """Return the generator of a stream."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, stream))))


def rng_state(rng: np.random.Generator) -> dict[str, Any]:
    """Return the state of a generator as plain numbers, ready for JSON."""
    return dict(rng.bit_generator.state)


def restore_rng(rng: np.random.Generator, state: dict[str, Any]) -> None:
    """Put a generator back to where `rng_state` found it."""
    rng.bit_generator.state = state
