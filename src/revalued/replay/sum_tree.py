"""A sum tree: draw an index with probability proportional to its value, in few and wide steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from revalued.replay.checks import smallest_and_largest
from revalued.replay.memory import zeros_together

# Measured with 500,000 leaves and 256 indices. Children per node: 8 spend their time in calls for each level, 64 and
# more in cumulative sums. The top is one array without parents, searched by bisection, which replaces several levels.
FAN_OUT = 16
TOP_WIDTH = 4096


class FasterTree(Protocol):
    """What faster code can do in the arrays of a `SumTree`; results are equal to the bit to those of NumPy."""

    def set(self, indices: npt.NDArray[np.int64], values: npt.NDArray[np.float64], *, only_positive: bool) -> bool:
        """Write leaves and all sums above them; False where an index or a value is wrong, and nothing is written.

        With `only_positive`, leaves that are 0 stay so.
        """

    def find(self, prefix_sums: npt.NDArray[np.float64], parts: int) -> npt.NDArray[np.int64] | None:
        """Do what `SumTree.find` does; None where all leaves are 0."""


MakeFasterTree = Callable[[list[npt.NDArray[np.float64]], int], FasterTree]
"""From the levels of a tree, leaves first, and the number of leaves."""


class SumTree:
    """Non-negative leaves under levels of partial sums; each level is one float64 array.

    A parent is always computed anew from all its children, never adjusted by a difference. Rounding errors thus cannot
    pile up, and the tree is a function of its leaves alone: rebuilt from them, it is the same bit for bit.
    NumPy does the work unless something faster is handed in.
    """

    def __init__(self, size: int, faster_tree: MakeFasterTree | None = None) -> None:
        if size < 1:
            raise ValueError(f"a sum tree needs at least 1 leaf, got {size}")
        # From the leaves up. Each level below the top is padded with zeros to whole blocks, one [FAN_OUT] for a parent.
        shapes: list[tuple[int, ...]] = []
        width = size
        while width > TOP_WIDTH:
            width = -(-width // FAN_OUT)
            shapes.append((width, FAN_OUT))
        arrays: list[npt.NDArray[np.float64]] = zeros_together(*((shape, np.float64) for shape in [*shapes, (width,)]))
        *self._blocks, self._top = arrays
        self.levels = [*(blocks.reshape(-1) for blocks in self._blocks), self._top]
        """All levels one after the other as one-dimensional views, leaves first; write with `set`."""
        self.leaves = self.levels[0][:size]
        """All leaf values: a view to read from, write with `set`."""
        self._faster = None if faster_tree is None else faster_tree(self.levels, size)

    def __len__(self) -> int:
        return len(self.leaves)

    @property
    def total(self) -> float:
        """The sum of all leaves."""
        return float(self._top.cumsum()[-1])

    @property
    def nbytes(self) -> int:
        """Memory held by all levels, in bytes."""
        return sum(level.nbytes for level in self.levels)

    def get(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the values of these leaves."""
        return self.leaves.take(indices)

    def set(self, indices: npt.NDArray[np.int64], values: npt.ArrayLike, *, only_positive: bool = False) -> None:
        """Write leaves; where an index occurs twice, its last value wins, as in any numpy assignment.

        With `only_positive`, leaves that are 0 stay so.
        """
        values = np.asarray(values, dtype=np.float64)
        if indices.size == 0:
            return
        if self._faster is not None and self._faster.set(indices, values, only_positive=only_positive):
            return
        self._check(indices, values)
        if only_positive:
            is_positive = self.get(indices) > 0
            indices, values = indices[is_positive], values[is_positive]
        self.leaves[indices] = values
        for children, parents in zip(self._blocks, self.levels[1:], strict=True):
            # Siblings lead to the same parent twice; summing twice is cheaper than finding the duplicates.
            indices = indices // FAN_OUT
            parents[indices] = np.add.reduce(children.take(indices, axis=0), axis=-1)

    def _check(self, indices: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> None:
        smallest, largest = smallest_and_largest(indices)
        if smallest < 0 or largest >= len(self):
            raise ValueError(f"leaf indices must lie in [0, {len(self)}), got {smallest} to {largest}")
        lowest, highest = smallest_and_largest(values)
        # Written so that NaN, for which every comparison is false, is refused as well.
        if not (lowest >= 0 and highest < math.inf):
            raise ValueError(f"leaf values must be finite and not negative, got {lowest} to {highest}")

    def find(self, prefix_sums: npt.NDArray[np.float64], parts: int = 0) -> npt.NDArray[np.int64]:
        """Return for each u the leaf i with sum(leaves[:i]) <= u < sum(leaves[:i+1]); its value is never 0.

        A u outside [0, total) counts as the nearest one inside. With `parts`, u counts in units of total / parts.
        """
        find = self._find if self._faster is None else self._faster.find
        found = find(prefix_sums, parts)
        if found is None:
            raise ValueError("nothing can be found in a sum tree whose leaves are all 0")
        return found

    def _find(self, prefix_sums: npt.NDArray[np.float64], parts: int) -> npt.NDArray[np.int64] | None:
        cumulative = self._top.cumsum()
        if not cumulative[-1] > 0:
            return None
        if parts > 0:
            prefix_sums = prefix_sums * (cumulative[-1] / parts)
        # `remaining` is what is left of u inside the chosen node. A node's value and the running sum of its children
        # may differ by a rounding error, so that u lies beyond them all. Held just below the last running sum, it falls
        # to the last child that added anything; and a child whose running sum exceeds its neighbour's is never 0.
        remaining = np.minimum(np.maximum(prefix_sums, 0.0), np.nextafter(cumulative[-1], 0.0))
        nodes: npt.NDArray[np.int64] = cumulative.searchsorted(remaining, side="right")
        remaining -= np.where(nodes > 0, cumulative[nodes - 1], 0.0)
        queries = np.arange(len(nodes))
        for children in reversed(self._blocks):
            running = children.take(nodes, axis=0).cumsum(axis=1)
            remaining = np.minimum(remaining, np.nextafter(running[:, -1], 0.0))
            chosen = (running > remaining[:, None]).argmax(axis=1)
            remaining -= np.where(chosen > 0, running[queries, chosen - 1], 0.0)
            nodes = nodes * FAN_OUT + chosen
        return nodes
