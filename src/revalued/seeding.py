"""Every random stream of the package: one seed makes many, and none depends on what the others draw.

No other file makes a generator of NumPy's. An environment draws from the generator that Gymnasium makes from its
episode's seed, and PyTorch initialises parameters from `stream_seed`.
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Stream(enum.IntEnum):
    """What a stream of random numbers is for; the numbers are part of what a seed means, so they never change."""

    INITIALISATION = 1
    """The critics' parameters."""
    EXPLORATION = 2
    """Which actions are random and which critic chooses the others; each actor has a stream of its own."""
    REPLAY = 3
    """Which transitions make a batch."""
    PREDICT = zlib.crc32(b"predict")
    """What an agent's `predict` draws if it is not deterministic."""
    TRAINING = zlib.crc32(b"training")
    """Seeds of the episodes that are learnt from."""
    EVALUATION = zlib.crc32(b"evaluation")
    """Seeds of the test episodes during a run."""
    EVALUATE = zlib.crc32(b"evaluate")
    """Seeds of the episodes that `revalued evaluate` and `revalued inspect` play."""
    NOISE = zlib.crc32(b"noise")
    """Noise on rewards and observations, from the episode's seed."""
    CRITIC = zlib.crc32(b"critic")
    """The critic that acts throughout an episode, from the episode's seed."""
    TARGET_CRITICS = zlib.crc32(b"target critics")
    """The target critics whose smallest value is learnt, from the number of the update."""


def stream_seed(seed: int, stream: Stream) -> int:
    """Return a 63-bit seed for a stream of a run."""
    return int(np.random.SeedSequence((seed, stream)).generate_state(1, np.uint64)[0] >> 1)


def stream_rng(seed: int, *key: int) -> np.random.Generator:
    """Return the generator of a stream: of a run's seed and a `Stream`, or of a seed that serves one purpose alone.

    The latter, such as a bootstrap or an experiment, may have any key: one generator for each point of a grid.
    """
    return _generator(np.random.SeedSequence((seed, *key)))


def exploration_rng(seed: int, actor: int, incarnation: int) -> np.random.Generator:
    """Return the generator by which one incarnation of an actor explores."""
    return _generator(np.random.SeedSequence((seed, Stream.EXPLORATION), spawn_key=(actor, incarnation)))


def episode_stream(incarnation: int) -> int:
    """Return the stream of an actor's episodes: a replaced actor never plays an episode of its predecessors again."""
    return Stream.TRAINING if incarnation == 0 else zlib.crc32(f"training, incarnation {incarnation}".encode())


def episode_seed(seed: int, stream: int, lane: int, episode: int) -> int:
    """Return the 32-bit seed of one episode; different streams share no episodes."""
    sequence = np.random.SeedSequence(seed, spawn_key=(stream, lane, episode))
    return int(sequence.generate_state(1, np.uint32)[0])


def evaluation_seed(seed: int, updates: int, episode: int) -> int:
    """Return the seed of a test episode: it depends on the run's seed, when the episode is played, and its number."""
    return episode_seed(seed, Stream.EVALUATION, updates, episode)


def evaluate_seeds(seed: int, episodes: int) -> Iterator[int]:
    """Yield the seeds of the episodes that `revalued evaluate` and `revalued inspect` play."""
    return (episode_seed(seed, Stream.EVALUATE, 0, number) for number in range(episodes))


def noise_rng(episode_seed: int | None) -> np.random.Generator:
    """Return the generator of an episode's noise; without a seed, one that nobody can repeat.

    A stream of its own: the environment may draw from a generator with the very same seed.
    """
    return _generator(np.random.SeedSequence(episode_seed, spawn_key=(Stream.NOISE,)))


def critic_of_episode(episode_seed: int, critics: int) -> int:
    """Return which of so many critics acts throughout an episode: a function of its seed, with no state to keep."""
    return int(_generator(np.random.SeedSequence(episode_seed, spawn_key=(Stream.CRITIC,))).integers(critics))


def drawn_critics(seed: int, updates: int, count: int, critics: int) -> NDArray[np.int64]:
    """Return so many different ones of all critics, for the update after so many others; no state needs to be kept."""
    order = stream_rng(seed, Stream.TARGET_CRITICS, updates).permutation(critics)
    return np.sort(order[:count]).astype(np.int64)


def rng_state(rng: np.random.Generator) -> dict[str, Any]:
    """Return the state of a generator as plain numbers, ready for JSON."""
    return dict(rng.bit_generator.state)


def restore_rng(rng: np.random.Generator, state: dict[str, Any]) -> None:
    """Put a generator back to where `rng_state` found it; a state that is none is a ValueError."""
    current = rng.bit_generator.state
    numbers, bits = state.get("state"), {"state": 128, "inc": 128}
    if not isinstance(numbers, dict) or numbers.keys() != bits.keys() or state.keys() != current.keys():
        raise ValueError("the state of a random stream is not of the right form")
    whole = [(numbers[name], size) for name, size in bits.items()]
    whole += [(state["has_uint32"], 1), (state["uinteger"], 32)]
    if not all(isinstance(value, int) and 0 <= value < 2**size for value, size in whole):
        raise ValueError("the state of a random stream holds something else than its numbers")
    if state["bit_generator"] != current["bit_generator"]:
        raise ValueError(f"the state of a random stream is not that of {current['bit_generator']}")
    rng.bit_generator.state = state


def _generator(sequence: np.random.SeedSequence) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(sequence))
