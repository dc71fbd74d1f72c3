"""A sum tree: draw an index with probability proportional to its value, in few and wide steps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# Measured with 500,000 leaves and 256 indices. Children per node: 8 spend their time in calls for each level, 64 and
# more in cumulative sums. The top is one array without parents, searched by bisection, which replaces several levels.
FAN_OUT = 16
TOP_WIDTH = 4096


class SumTree:
    """Non-negative leaves under levels of partial sums; each level is one float64 array.

    A parent is always computed anew from all its children, never adjusted by a difference. Rounding errors thus cannot
    pile up, and the tree is a function of its leaves alone: rebuilt from them, it is the same bit for bit.
    """

    def __init__(self, size: int, *, fan_out: int = FAN_OUT, top_width: int = TOP_WIDTH) -> None:
        if size < 1 or fan_out < 2 or top_width < 1:
            raise ValueError(
                f"a sum tree needs size >= 1, fan_out >= 2 and top_width >= 1, got {size}, {fan_out} and {top_width}"
            )
        self._size = size
        # From the leaves up. Each level below the top is padded with zeros to whole blocks, one [fan_out] for a parent.
        self._blocks: list[npt.NDArray[np.float64]] = []
        width = size
        while width > top_width:
            width = -(-width // fan_out)
            self._blocks.append(np.zeros((width, fan_out)))
        self._top = np.zeros(width)
        self._fan_out = fan_out

    def __len__(self) -> int:
        return self._size

    @property
    def leaves(self) -> npt.NDArray[np.float64]:
        """All leaf values: a view to read from, write with `set`."""
        return self._flat(0)[: self._size]

    @property
    def total(self) -> float:
        """The sum of all leaves."""
        return float(self._top.sum())

    @property
    def nbytes(self) -> int:
        """Memory held by all levels, in bytes."""
        return self._top.nbytes + sum(blocks.nbytes for blocks in self._blocks)

    def get(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the values of these leaves."""
        return self.leaves.take(indices)

    def set(self, indices: npt.NDArray[np.int64], values: npt.ArrayLike) -> None:
        """Write leaves; where an index occurs twice, its last value wins, as in any numpy assignment."""
        values = np.asarray(values, dtype=np.float64)
        if indices.size == 0:
            return
        if indices.min() < 0 or indices.max() >= self._size:
            raise ValueError(f"leaf indices must lie in [0, {self._size}), got {indices.min()} to {indices.max()}")
        # Written so that NaN, for which every comparison is false, is refused as well.
        if not (values.min() >= 0 and values.max() < np.inf):
            raise ValueError(f"leaf values must be finite and not negative, got {values.min()} to {values.max()}")
        self._flat(0)[indices] = values
        for level, children in enumerate(self._blocks):
            # Siblings lead to the same parent twice; summing twice is cheaper than finding the duplicates.
            indices = indices // self._fan_out
            self._flat(level + 1)[indices] = children.take(indices, axis=0).sum(axis=1)

    def find(self, prefix_sums: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return for each u the leaf i with sum(leaves[:i]) <= u < sum(leaves[:i+1]); its value is never 0.

        A u outside [0, total) counts as the nearest one inside.
        """
        cumulative = self._top.cumsum()
        if not cumulative[-1] > 0:
            raise ValueError("nothing can be found in a sum tree whose leaves are all 0")
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
            nodes = nodes * self._fan_out + chosen
        return nodes

    def _flat(self, level: int) -> npt.NDArray[np.float64]:
        """Return a level as a one-dimensional view; the level above the last blocks is the top."""
        return self._blocks[level].reshape(-1) if level < len(self._blocks) else self._top
