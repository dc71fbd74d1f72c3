"""What a learner gets from the replay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from revalued.replay.masks import read_masks


class Batch(NamedTuple):
    """B sampled n-step transitions (s, a, R, Γ, s'): the target is R + Γ · value(s')."""

    rows: npt.NDArray[np.int64]  # [B] where they are stored; hand back to `update_priorities`
    observations: npt.NDArray[np.float32]  # [B, D] s
    actions: npt.NDArray[np.int64]  # [B, N] a
    returns: npt.NDArray[np.float32]  # [B] R, the discounted sum of m <= n rewards
    discounts: npt.NDArray[np.float32]  # [B] Γ = γ^m, or 0 where the episode terminated
    next_observations: npt.NDArray[np.float32]  # [B, D] s', finite but meaningless where Γ = 0
    weights: npt.NDArray[np.float32]  # [B] importance weights ω, at most 1
    next_masks: npt.NDArray[np.bool_] | None = None  # [B, M] what is legal in s'; None in a task without action masks


def read_batch(
    arrays: Mapping[str, npt.NDArray[Any]],
    rows: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float32],
    mask_size: int,
) -> Batch:
    """Return the transitions in these rows of a replay's arrays, named as in `Replay.state`."""
    observations, next_rows = arrays["observations"], arrays["next_rows"].take(rows)
    return Batch(
        rows=rows,
        observations=observations.take(rows, axis=0),
        actions=arrays["actions"].take(rows, axis=0).astype(np.int64),
        returns=arrays["returns"].take(rows),
        discounts=arrays["discounts"].take(rows),
        next_observations=observations.take(next_rows, axis=0),
        weights=weights,
        next_masks=read_masks(arrays["masks"], next_rows, mask_size),
    )
