"""A sum tree: draw an index with probability proportional to its value, in few and wide steps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from revalued.replay.checks import smallest_and_largest
from revalued.replay.memory import zeros_together

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
        shapes: list[tuple[int, ...]] = []
        width = size
        while width > top_width:
            width = -(-width // fan_out)
            shapes.append((width, fan_out))
        arrays: list[npt.NDArray[np.float64]] = zeros_together(*((shape, np.float64) for shape in [*shapes, (width,)]))
        *self._blocks, self._top = arrays
        # All levels one after the other as one-dimensional views, leaves first.
        self._levels = [*(blocks.reshape(-1) for blocks in self._blocks), self._top]
        self._leaves = self._levels[0][:size]
        self._fan_out = fan_out
        self._top_running = np.zeros(width + 1)  # [i] is the sum of all nodes before i, while something is looked up
        self._descent = _Descent(0, fan_out)

    def __len__(self) -> int:
        return self._size

    @property
    def leaves(self) -> npt.NDArray[np.float64]:
        """All leaf values: a view to read from, write with `set`."""
        return self._leaves

    @property
    def total(self) -> float:
        """The sum of all leaves."""
        return float(np.add.reduce(self._top))

    @property
    def nbytes(self) -> int:
        """Memory held by all levels, in bytes."""
        return self._top.nbytes + sum(blocks.nbytes for blocks in self._blocks)

    def get(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the values of these leaves."""
        return self._leaves.take(indices)

    def set(self, indices: npt.NDArray[np.int64], values: npt.ArrayLike) -> None:
        """Write leaves; where an index occurs twice, its last value wins, as in any numpy assignment."""
        values = np.asarray(values, dtype=np.float64)
        if indices.size == 0:
            return
        smallest, largest = smallest_and_largest(indices)
        if smallest < 0 or largest >= self._size:
            raise ValueError(f"leaf indices must lie in [0, {self._size}), got {smallest} to {largest}")
        lowest, highest = smallest_and_largest(values)
        # Written so that NaN, for which every comparison is false, is refused as well.
        if not (lowest >= 0 and highest < math.inf):
            raise ValueError(f"leaf values must be finite and not negative, got {lowest} to {highest}")
        self._leaves[indices] = values
        for children, parents in zip(self._blocks, self._levels[1:], strict=True):
            # Siblings lead to the same parent twice; summing twice is cheaper than finding the duplicates.
            indices = indices // self._fan_out
            parents[indices] = np.add.reduce(children.take(indices, axis=0), axis=-1)

    def set_range(self, start: int, values: npt.NDArray[np.float64]) -> None:
        """Do what `set` does for the neighbouring leaves from `start` on, much faster; nothing is checked."""
        stop = start + len(values)
        self._leaves[start:stop] = values
        for children, parents in zip(self._blocks, self._levels[1:], strict=True):
            start, stop = start // self._fan_out, -(-stop // self._fan_out)
            parents[start:stop] = np.add.reduce(children[start:stop], axis=1)

    def find(self, prefix_sums: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return for each u the leaf i with sum(leaves[:i]) <= u < sum(leaves[:i+1]); its value is never 0.

        A u outside [0, total) counts as the nearest one inside.
        """
        ends = self._top.cumsum(out=self._top_running[1:])
        last_end = ends.item(-1)
        if not last_end > 0:
            raise ValueError("nothing can be found in a sum tree whose leaves are all 0")
        # `remaining` is what is left of u inside the chosen node. A node's value and the running sum of its children
        # may differ by a rounding error, so that u lies beyond them all. Held just below the last running sum, it falls
        # to the last child that added anything; and a child whose running sum exceeds its neighbour's is never 0.
        remaining = np.minimum(np.maximum(prefix_sums, 0.0), math.nextafter(last_end, 0.0))
        nodes: npt.NDArray[np.int64] = ends.searchsorted(remaining, side="right")
        if self._descent.num_queries != len(nodes):
            self._descent = _Descent(len(nodes), self._fan_out)
        descent = self._descent
        running: Any = self._top_running
        chosen: Any = nodes
        for children in reversed(self._blocks):
            remaining -= running[chosen]
            child = descent.choose(children.take(nodes, axis=0), remaining)
            running, chosen = descent.running, (child, descent.queries)
            nodes = nodes * self._fan_out + child
        return nodes


class _Descent:
    """From nodes to one child of each, for a fixed number of queries Q; keeps its memory, since new memory is slow."""

    def __init__(self, num_queries: int, fan_out: int) -> None:
        self.num_queries = num_queries
        self.queries = np.arange(num_queries)
        self.running = np.zeros((fan_out + 1, num_queries))  # [j] is the sum of the first j children
        self._ends = self.running[1:]
        self._neighbours = list(zip(self._ends, self._ends[1:], strict=False))
        self._is_passed = np.zeros((fan_out, num_queries), np.bool_)
        self._count_type = np.min_scalar_type(fan_out)

    def choose(
        self, children: npt.NDArray[np.float64], remaining: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Return the child [Q], out of [Q, fan_out], in which what remains of each u falls.

        Changes `remaining` where it lies beyond the last child.
        """
        self._ends[...] = children.T
        # One wide addition per child: `cumsum` goes query by query and takes three times as long.
        for before, end in self._neighbours:
            np.add(before, end, out=end)
        np.less_equal(self._ends, remaining, out=self._is_passed)
        if np.count_nonzero(self._is_passed[-1]):
            np.minimum(remaining, np.nextafter(self._ends[-1], 0.0), out=remaining)
            np.less_equal(self._ends, remaining, out=self._is_passed)
        child: npt.NDArray[np.unsignedinteger[Any]] = np.add.reduce(self._is_passed, axis=0, dtype=self._count_type)
        return child
