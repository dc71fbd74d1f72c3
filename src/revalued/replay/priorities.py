"""Which rows of the replay are drawn how often."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from revalued.replay.checks import checked, smallest_and_largest
from revalued.replay.sum_tree import MakeFasterTree, SumTree

# A transition whose error is exactly 0 would have probability 0 and never be seen again, however wrong it is later.
PRIORITY_FLOOR = 1e-6
# New transitions enter at the largest priority seen; this stands in for it until there is a larger one.
INITIAL_PRIORITY = 1.0


@lru_cache(maxsize=1)
def _numbers_below(stop: int) -> npt.NDArray[np.float64]:
    return np.arange(stop, dtype=np.float64)


class Priorities:
    """One leaf of a sum tree for every row: priority^exponent, and 0 for rows that cannot be drawn."""

    def __init__(
        self, num_rows: int, priority_exponent: float, importance_exponent: float, faster_tree: MakeFasterTree | None
    ) -> None:
        self.tree = SumTree(num_rows, faster_tree)
        self.exponent, self._importance_exponent = float(priority_exponent), float(importance_exponent)
        self.num_live = 0
        self.largest = np.array(INITIAL_PRIORITY)
        """The largest priority seen, an array of one number."""
        self.new_leaf = 0.0
        """At which new transitions enter: that of the largest priority, never 0."""
        self._set_new_leaf()

    def set(self, rows: npt.NDArray[np.int64], leaves: npt.NDArray[np.float64]) -> None:
        """Write the leaves of distinct rows."""
        self.num_live += int(np.count_nonzero(leaves)) - int(np.count_nonzero(self.tree.get(rows)))
        self.tree.set(rows, leaves)

    def draw(self, batch_size: int, rng: np.random.Generator) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Return rows drawn in proportion to their leaves, one from each of equal parts of the sum, and weights."""
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        if self.num_live == 0:
            raise ValueError("the replay is empty: no transition is complete yet")
        strata = rng.random(batch_size)
        strata += _numbers_below(batch_size)
        rows = self.tree.find(strata, batch_size)
        leaves = self.tree.get(rows)
        # ω = P^-exponent over its batch maximum, P = leaf / total: the total cancels.
        weights = (leaves.item(leaves.argmin()) / leaves) ** self._importance_exponent
        return rows, weights.astype(np.float32)

    def update(self, rows: npt.NDArray[np.int64], priorities: npt.ArrayLike) -> None:
        """Set new priorities (absolute errors) of rows that were drawn; those overwritten since then stay out."""
        errors: npt.NDArray[np.float64] = checked("priorities", priorities, rows.shape).astype(np.float64)
        if errors.size == 0:
            return
        smallest, largest = smallest_and_largest(errors)
        # Written so that NaN, for which every comparison is false, is refused as well.
        if not (smallest >= 0 and largest < np.inf):
            raise ValueError("priorities must be finite and not negative")
        if largest > self.largest.item():
            self.largest[...] = largest
            self._set_new_leaf()
        if smallest < PRIORITY_FLOOR:
            errors = np.maximum(errors, PRIORITY_FLOOR)
        self.tree.set(rows, errors**self.exponent, only_positive=True)

    def load(self, leaves: npt.NDArray[np.float64], largest: npt.NDArray[np.float64]) -> None:
        """Take over the first leaves and the largest priority of another; the other leaves become 0."""
        everything = np.zeros(len(self.tree))
        everything[: len(leaves)] = leaves
        self.tree.set(np.arange(len(everything)), everything)
        self.num_live = int(np.count_nonzero(leaves))
        self.largest[...] = largest
        self._set_new_leaf()

    def _set_new_leaf(self) -> None:
        self.new_leaf = float(self.largest**self.exponent)
