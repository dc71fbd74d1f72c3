"""The replay's C code against its NumPy code: equal to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from learner_twin import NEEDS_NATIVE
from revalued.replay import Replay
from revalued.replay.sum_tree import SumTree

pytestmark = NEEDS_NATIVE


def in_numpy(size: int, **options: int) -> SumTree:
    tree = SumTree(size, **options)
    tree._native = None
    return tree


@pytest.mark.parametrize("top_width", [1, 5, 4096])
@pytest.mark.parametrize("fan_out", [2, 7, 8, 13, 16, 64, 128])
@pytest.mark.parametrize("size", [1, 2, 17, 1000, 20_000])
def test_trees_are_equal_to_the_bit_after_random_operations(size: int, fan_out: int, top_width: int) -> None:
    rng = np.random.default_rng(size * fan_out * top_width)
    options = {"fan_out": fan_out, "top_width": top_width}
    ours, numpys = SumTree(size, **options), in_numpy(size, **options)
    assert ours._native is not None
    for _ in range(20):
        indices = rng.integers(size, size=rng.integers(1, 40))
        values = rng.exponential(size=len(indices)) ** 4 * (rng.random(len(indices)) < 0.7)
        start = int(rng.integers(size))
        for tree in (ours, numpys):
            tree.set(indices, values)
            tree.set_range(start, values[: size - start])
            tree.renew(indices[::-1], values + 1e-6)
        for mine, theirs in zip(ours._levels, numpys._levels, strict=True):
            assert mine.tobytes() == theirs.tobytes()
        assert ours.total == numpys.total
        if ours.total > 0:
            # also what lies outside, and exactly where one leaf ends and the next begins
            ends = ours.leaves.cumsum()[rng.integers(size, size=10)]
            sums = np.concatenate([rng.random(50) * ours.total, ends, [-1.0, 0.0, ours.total, 2 * ours.total]])
            assert ours.find(sums).tolist() == numpys.find(sums).tolist()
            places = np.concatenate([rng.random(50) * 7, np.arange(8), [-1.0, 9.0]])
            assert ours.find(places, 7).tolist() == numpys.find(places, 7).tolist()
            assert ours.find(places, 7).tolist() == ours.find(places * (ours.total / 7)).tolist()


def test_a_wide_fan_is_left_to_numpy() -> None:
    """It would add up in another order."""
    assert SumTree(1000, fan_out=129, top_width=1)._native is None


@pytest.mark.parametrize(
    ("indices", "values"),
    [([0, 10], [1, 1]), ([0, -1], [1, 1]), ([0, 1], [1, -1]), ([0, 1], [1, np.nan]), ([1, 0], [np.inf, 1])],
)
@pytest.mark.parametrize("name", ["set", "renew"])
def test_what_is_wrong_is_refused_as_a_whole(name: str, indices: list[int], values: list[float]) -> None:
    for tree in (SumTree(10), in_numpy(10)):
        tree.set(np.arange(10), np.full(10, 2.0))
        with pytest.raises(ValueError, match="must"):
            getattr(tree, name)(np.array(indices), np.array(values, np.float64))
        assert tree.leaves.tolist() == [2.0] * 10
    with pytest.raises(ValueError, match="values for"):
        SumTree(10).renew(np.arange(3), np.ones(2))


def test_arrays_may_be_write_protected() -> None:
    rows, leaves = np.arange(3), np.ones(3)
    rows.flags.writeable = leaves.flags.writeable = False
    tree = SumTree(10)
    tree.set(rows, leaves)
    tree.renew(rows, leaves)
    tree.set_range(5, leaves)
    assert tree.leaves.tolist() == [1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0]


def test_only_positive_leaves_are_renewed() -> None:
    for tree in (SumTree(40, top_width=2), in_numpy(40, top_width=2)):
        tree.set(np.arange(0, 40, 2), np.full(20, 2.0))
        tree.renew(np.array([0, 1, 2, 39, 2]), np.array([5.0, 6.0, 7.0, 8.0, 9.0]))
        assert tree.leaves.tolist() == [5.0, 0.0, 9.0, *[0.0, 2.0] * 18, 0.0]
        assert tree.total == 5 + 9 + 2 * 18


def test_nothing_is_found_among_zeros() -> None:
    with pytest.raises(ValueError, match="all 0"):
        SumTree(100).find(np.array([0.0]))


def filled() -> Replay:
    rng = np.random.default_rng(0)
    replay = Replay(
        capacity=60, num_lanes=2, observation_size=3, num_dimensions=4, n_step=3, discount=0.9, max_choices=3
    )
    replay.begin(rng.normal(size=(2, 3)).astype(np.float32))
    for step in range(100):
        observations = rng.normal(size=(2, 3)).astype(np.float32)
        ends = np.array([step % 13 == 12, step % 9 == 8])
        actions = rng.integers(3, size=(2, 4))
        replay.append(actions, rng.normal(size=2), ends, ~ends & (step % 17 == 16), observations, observations)
    return replay


def test_batches_are_equal_to_the_bit() -> None:
    ours, numpys = filled(), filled()
    numpys._priorities._tree._native = None
    one, other = np.random.default_rng(1), np.random.default_rng(1)
    for _ in range(10):
        mine, theirs = ours.sample(32, one), numpys.sample(32, other)
        for name in ("rows", "observations", "actions", "returns", "discounts", "next_observations", "weights"):
            assert getattr(mine, name).dtype == getattr(theirs, name).dtype
            assert getattr(mine, name).tobytes() == getattr(theirs, name).tobytes(), name
        priorities = one.exponential(size=32)
        other.exponential(size=32)
        ours.update_priorities(mine.rows, priorities)
        numpys.update_priorities(theirs.rows, priorities)
