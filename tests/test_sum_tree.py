"""The sum tree against a plain list and a running sum, under many random operations."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from revalued.replay.sum_tree import SumTree

# A single leaf, no blocks at all, whole and ragged blocks under a top of at most 4,096, and up to four levels.
SIZES = [1, 7, 4096, 4097, 10_000, 65_536, 65_537, 1_048_577]


def test_the_sizes_cover_trees_of_one_to_four_levels() -> None:
    assert [len(SumTree(size).levels) for size in SIZES] == [1, 1, 1, 2, 2, 2, 3, 4]


def naive_find(leaves: list[float], prefix_sum: float) -> int:
    """Return the first leaf whose running sum exceeds the prefix sum, else the last positive one."""
    running = 0.0
    for index, leaf in enumerate(leaves):
        running += leaf
        if running > prefix_sum:
            return index
    return max(index for index, leaf in enumerate(leaves) if leaf > 0)


def naive_descent(tree: SumTree, prefix_sum: float) -> int:
    """Walk down the levels with one running sum after the other, as `find` promises to do for many at once."""
    node, remaining = 0, max(prefix_sum, 0.0)
    for level in [tree._top[None], *reversed(tree._blocks)]:
        ends = list(itertools.accumulate(level[node].tolist()))
        remaining = min(remaining, math.nextafter(ends[-1], 0.0))
        child = next(index for index, end in enumerate(ends) if end > remaining)
        remaining -= ends[child - 1] if child > 0 else 0.0
        node = node * len(ends) + child
    return node


@pytest.mark.parametrize("size", SIZES[:-1])
def test_agrees_with_a_naive_twin(size: int) -> None:
    rng = np.random.default_rng(size)
    tree = SumTree(size)
    twin = [0.0] * size
    assert len(tree) == size
    for _ in range(min(400, 2 + 200_000 // size)):
        count = int(rng.integers(1, 12))
        indices = rng.integers(0, size, count)
        # Whole numbers, many of them 0, add up without rounding, so the twin must be met exactly.
        values = rng.integers(0, 5, count) * rng.integers(0, 2, count).astype(np.float64)
        tree.set(indices, values)
        for index, value in zip(indices.tolist(), values.tolist(), strict=True):
            twin[index] = value
        assert tree.total == sum(twin)
        assert tree.leaves.tolist() == twin
        asked = rng.integers(0, size, 5)
        assert tree.get(asked).tolist() == [twin[index] for index in asked.tolist()]
        if tree.total > 0:
            prefix_sums = np.concatenate([rng.random(6) * tree.total, np.arange(min(tree.total, 4)), [tree.total]])
            assert tree.find(prefix_sums).tolist() == [naive_find(twin, u) for u in prefix_sums.tolist()]


def test_the_last_of_duplicate_indices_wins() -> None:
    tree = SumTree(10_000)
    tree.set(np.array([3, 4, 3, 3]), [1.0, 2.0, 5.0, 7.0])
    assert tree.get(np.array([3, 4])).tolist() == [7.0, 2.0]
    assert tree.total == 9.0


@pytest.mark.parametrize("size", SIZES)
def test_rebuilt_from_its_leaves_it_is_the_same_bit_for_bit(size: int) -> None:
    rng = np.random.default_rng(size)
    tree = SumTree(size)
    for _ in range(2000):
        count = int(rng.integers(1, 40))
        # Twelve orders of magnitude: sums adjusted by differences would have drifted away long before the end.
        tree.set(rng.integers(0, size, count), 10.0 ** rng.uniform(-6, 6, count) * (rng.random(count) < 0.8))
    rebuilt = SumTree(size)
    rebuilt.set(np.arange(size), tree.leaves)
    assert [level.tobytes() for level in tree.levels] == [level.tobytes() for level in rebuilt.levels]
    assert tree.total == pytest.approx(math.fsum(tree.leaves.tolist()), rel=1e-13)
    tree.set(np.arange(size), np.zeros(size))
    assert tree.total == 0.0


@pytest.mark.parametrize("size", SIZES)
def test_find_rounds_as_a_walk_down_the_levels_does(size: int) -> None:
    """Close to the border of a leaf it is rounding that decides, and a run is to go on as it did, to the bit."""
    rng = np.random.default_rng(size)
    tree = SumTree(size)
    for spread in (0, 1, 12):
        tree.set(np.arange(size), 10.0 ** rng.uniform(-spread, spread, size) * (rng.random(size) < 0.7))
        tree.set(rng.integers(0, size, 1), [0.1])
        borders = tree.leaves.cumsum()[rng.integers(0, size, 20)]
        near = [np.nextafter(borders, side) for side in (-np.inf, np.inf)]
        for count in (1, 30, 7):  # the memory kept for one number of queries is of no use for another
            asked = rng.choice(np.concatenate([borders, *near, rng.random(20) * tree.total, [tree.total, -1.0]]), count)
            assert tree.find(asked).tolist() == [naive_descent(tree, u) for u in asked.tolist()]


@pytest.mark.parametrize("size", SIZES)
def test_find_never_returns_a_leaf_of_value_zero(size: int) -> None:
    rng = np.random.default_rng(size)
    for spread in (0, 1, 12, 300):
        for _ in range(min(25, 1 + 50_000 // size)):
            leaves = 10.0 ** rng.uniform(-spread, spread, size) * (rng.random(size) < 0.3)
            leaves[rng.integers(size)] = 0.1
            tree = SumTree(size)
            tree.set(np.arange(size), leaves)
            running = leaves.cumsum()
            boundaries = running if size < 2000 else running[rng.integers(size, size=2000)]
            total = tree.total
            edges = [total, np.nextafter(total, 0), np.nextafter(total, np.inf), 2 * total, 0.0, -0.0, -1.0]
            prefix_sums = np.concatenate(
                [
                    edges,
                    boundaries,
                    np.nextafter(boundaries, 0),
                    np.nextafter(boundaries, np.inf),
                    rng.random(50) * total,
                ]
            )
            found = tree.find(prefix_sums)
            assert (leaves[found] > 0).all()
            # Up to rounding, u lies between the running sums before and after the leaf.
            inside = np.clip(prefix_sums, 0, total)
            slack = 1e-12 * total
            assert (running[found] - leaves[found] <= inside + slack).all()
            assert (inside <= running[found] + slack).all()


def test_the_upper_edge_falls_to_the_last_positive_leaf() -> None:
    tree = SumTree(70_000)
    tree.set(np.arange(8), [0.0, 0.1, 0.0, 0.1, 0.1, 0.0, 0.7, 0.0])
    assert tree.find(np.array([0.0, 0.15, 0.25, tree.total, 5.0])).tolist() == [1, 3, 4, 6, 6]


def test_many_equal_leaves_are_each_found_in_their_own_share() -> None:
    size = 50_000  # several levels at the default width
    tree = SumTree(size)
    assert len(tree._blocks) >= 1
    tree.set(np.arange(size), np.ones(size))
    queries = np.arange(0, size, 7)
    np.testing.assert_array_equal(tree.find(np.add(queries, 0.5, dtype=np.float64)), queries)
    np.testing.assert_array_equal(tree.find(queries.astype(np.float64)), queries)


def test_memory_counts_every_level() -> None:
    # 65,537 leaves in 4,097 blocks of 16, these in 257 blocks, and those are the top
    assert SumTree(65_537).nbytes == 8 * (4097 * 16 + 257 * 16 + 257)


def test_setting_nothing_changes_nothing() -> None:
    tree = SumTree(4)
    tree.set(np.zeros(0, np.int64), np.zeros(0))
    assert tree.total == 0.0


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_impossible_values_are_refused(value: float) -> None:
    tree = SumTree(4)
    with pytest.raises(ValueError, match="finite and not negative"):
        tree.set(np.array([0, 1]), [1.0, value])
    assert tree.total == 0.0


@pytest.mark.parametrize("index", [-1, 4])
def test_impossible_indices_are_refused(index: int) -> None:
    with pytest.raises(ValueError, match=r"\[0, 4\)"):
        SumTree(4).set(np.array([index]), [1.0])


def test_an_empty_tree_has_nothing_to_find() -> None:
    with pytest.raises(ValueError, match="all 0"):
        SumTree(4).find(np.array([0.0]))


@pytest.mark.parametrize("size", [0, -1])
def test_impossible_sizes_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match="at least 1 leaf"):
        SumTree(size)
