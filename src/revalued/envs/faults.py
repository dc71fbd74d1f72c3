"""What can go wrong in an environment, and the checks of what it hands over.

A check raises an `EnvFault`, which says what is wrong; whoever steps the environment makes a `LaneError` of it, which
adds where.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

ENV_ERRORS = (Exception, SystemExit)
"""Whatever an environment may raise; one that calls `sys.exit` must not end a run in silence."""
_MAX_REASON = 400


class EnvFault(Exception):
    """An environment returned something that cannot be used."""


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


def reason_of(error: BaseException) -> str:
    """Return what went wrong, in one line of bounded length; a traceback has the rest."""
    text = " ".join((str(error) if isinstance(error, EnvFault) else f"{type(error).__name__}: {error}").split())
    return text if len(text) <= _MAX_REASON else text[: _MAX_REASON - 3] + "..."


def store_observation(destination: NDArray[np.float32], observation: Any) -> None:
    """Copy an observation to where it belongs; another shape, NaN and infinity are faults."""
    copy_observation(destination, observation)
    check_finite(destination)


def copy_observation(destination: NDArray[np.float32], observation: Any) -> None:
    """Copy an observation to where it belongs; another shape is a fault, the numbers are not checked."""
    shape = observation.shape if isinstance(observation, np.ndarray) else np.shape(observation)
    if shape != destination.shape:
        raise EnvFault(f"the observation has shape {shape} instead of {destination.shape}")
    destination[:] = observation


def check_finite(observation: NDArray[np.float32]) -> None:
    """Raise a fault if there is NaN or infinity in an observation."""
    if not are_finite(observation):
        entry = int(np.argmin(np.isfinite(observation)))
        raise EnvFault(f"entry {entry} of the observation is {observation[entry]}")


def are_finite(observations: NDArray[np.float32]) -> bool:
    """Return whether there is neither NaN nor infinity in one or several observations."""
    return bool(np.count_nonzero(np.isfinite(observations)) == observations.size)


def read_mask(info: dict[str, Any], sizes: Sequence[int]) -> NDArray[np.bool_]:
    """Return `info["action_mask"]` laid end to end, [Σ sizes]; every dimension must keep a legal choice.

    The environment offers one boolean vector per dimension, or all of them in one flat vector.
    """
    if "action_mask" not in info:
        raise EnvFault("there is no action_mask in info, but there was one at the first reset")
    offered = info["action_mask"]
    total = sum(sizes)
    try:
        # A flat vector is told from a vector of vectors by its first entry, not by its length: sizes may all be 1.
        is_flat = np.ndim(offered[0]) == 0
        parts = [np.asarray(offered)] if is_flat else [np.asarray(part) for part in offered]
    except (TypeError, KeyError, IndexError, ValueError):
        raise EnvFault(_mask_shape(sizes, f"it is {offered!r}")) from None
    lengths = [part.shape for part in parts]
    expected = [(total,)] if is_flat else [(size,) for size in sizes]
    if lengths != expected:
        raise EnvFault(_mask_shape(sizes, f"its shape is {lengths[0] if is_flat else lengths}"))
    flat = np.concatenate(parts)
    if not np.isin(flat, (0, 1)).all():
        raise EnvFault(f"the action mask must hold nothing but True and False (or 1 and 0), it is {flat.tolist()}")
    mask: NDArray[np.bool_] = flat.astype(bool)
    legal_choices = np.add.reduceat(mask, np.cumsum([0, *sizes[:-1]]), dtype=np.int64)
    if not legal_choices.all():
        raise EnvFault(f"the action mask leaves no legal choice in dimension {int(np.argmin(legal_choices))}")
    return mask


def _mask_shape(sizes: Sequence[int], found: str) -> str:
    wanted = f"one vector per dimension, of lengths {list(sizes)}, or one flat vector of length {sum(sizes)}"
    return f"the action mask must be {wanted}, but {found}"
