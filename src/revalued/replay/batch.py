"""What a learner gets from the replay."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


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
