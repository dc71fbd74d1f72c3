"""The factorised action space: the choices of each dimension, which of the padded ones exist, which are legal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from revalued.errors import UserError

MAX_ATOMIC_ACTIONS = 1_000_000


@dataclass(frozen=True)
class FactorisedActions:
    """An action made of N choices, dimension i offering `sizes[i]` of them.

    Dimensions of unequal size are padded to `A = max(sizes)`; `exists` tells real choices from padding.
    With `atomic_over` set, the single dimension enumerates all combinations of those sizes.
    """

    sizes: tuple[int, ...]
    atomic_over: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1:
            raise UserError(f"an action space needs at least one dimension with at least one choice, got {self.sizes}")

    @classmethod
    def atomic(cls, sizes: tuple[int, ...]) -> FactorisedActions:
        """Return the space whose one dimension enumerates every combination of `sizes` (what plain DQN needs)."""
        total = math.prod(sizes)
        if total > MAX_ATOMIC_ACTIONS:
            raise UserError(
                f"the atomic decomposition would enumerate {total:,} joint actions ({len(sizes)} dimensions), "
                f"at most {MAX_ATOMIC_ACTIONS:,} are allowed: use a factorised algorithm such as revalued or decqn"
            )
        return cls(sizes=(total,), atomic_over=tuple(sizes))

    @property
    def num_dimensions(self) -> int:
        """Return N."""
        return len(self.sizes)

    @property
    def max_choices(self) -> int:
        """Return A, the number of choices of the largest dimension."""
        return max(self.sizes)

    @cached_property
    def exists(self) -> NDArray[np.bool_]:
        """Return [N, A]: True for real choices, False for padding."""
        return np.arange(self.max_choices)[None, :] < np.asarray(self.sizes)[:, None]

    @property
    def is_padded(self) -> bool:
        """Tell whether the dimensions have unequal sizes."""
        return min(self.sizes) != self.max_choices

    @property
    def environment_sizes(self) -> tuple[int, ...]:
        """Return the choices per dimension of the environment itself."""
        return self.sizes if self.atomic_over is None else self.atomic_over

    def legal(self, masks: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Spread an environment's masks [..., Σ sizes], dimensions laid end to end, to [..., N, A]; padding is illegal.

        A combination of an atomic space is legal if all its sub-actions are.
        """
        if self.atomic_over is None:
            spread = np.zeros((*masks.shape[:-1], *self.exists.shape), np.bool_)
            spread[..., self.exists] = masks
            return spread
        combined = np.ones((*masks.shape[:-1], 1), np.bool_)
        for part in np.split(masks, np.cumsum(self.atomic_over)[:-1], axis=-1):
            combined = (combined[..., :, None] & part[..., None, :]).reshape(*masks.shape[:-1], -1)
        return combined[..., None, :]

    def uniform(self, draws: NDArray[np.float64], legal: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Map uniform draws in [0, 1) of shape [..., N] to uniformly distributed choices of the same shape.

        With `legal` [..., N, A] they are uniform over the legal choices of each dimension.
        """
        choices: NDArray[np.int64]
        if legal is None:
            choices = (draws * np.asarray(self.sizes)).astype(np.int64)
            return choices
        rank = (draws * legal.sum(axis=-1)).astype(np.int64)
        choices = (legal.cumsum(axis=-1) > rank[..., None]).argmax(axis=-1)
        return choices

    def to_environment(self, actions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Translate actions [..., N] of this space to sub-actions of the environment's own dimensions."""
        if self.atomic_over is None:
            return actions
        return np.stack(np.unravel_index(actions[..., 0], self.atomic_over), axis=-1).astype(np.int64)
