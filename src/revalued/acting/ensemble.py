"""The utilities of an ensemble as plain arrays, for people who want to look at them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from revalued.acting.policy import Policy


@dataclass(frozen=True)
class Utilities:
    """What the critics say about each choice of each dimension; nan where a dimension has fewer choices than A."""

    mean: NDArray[np.float32]
    """[..., N, A] mean over the ensemble, whose largest entries are the greedy action."""
    spread: NDArray[np.float32]
    """[..., N, A] standard deviation over the ensemble; 0 for a single critic."""
    all: NDArray[np.float32]
    """[K, ..., N, A] each critic's own."""


def utilities_of(policy: Policy, observations: NDArray[np.float32], *, is_batch: bool) -> Utilities:
    """Return the utilities of observations [B, D]; of a single one, without the dimension of the batch."""
    values = policy.utilities(observations).cpu().numpy().copy()
    values[..., ~policy.shape.actions.exists] = np.nan
    if not is_batch:
        values = values[:, 0]
    return Utilities(values.mean(axis=0), values.std(axis=0), values)
