"""The replay's C code against its NumPy code: equal to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from learner_twin import NEEDS_NATIVE
from revalued.native import rows, sum_tree
from revalued.native.rows import NativeRows, native_rows
from revalued.native.sum_tree import NativeTree, native_tree
from revalued.replay import Replay
from revalued.replay.sum_tree import SumTree

pytestmark = NEEDS_NATIVE


# A single leaf, no blocks, whole and ragged blocks under a top of 4,096, and up to four levels.
@pytest.mark.parametrize("size", [1, 2, 17, 4096, 4097, 20_000, 65_536, 65_537, 1_048_577])
def test_trees_are_equal_to_the_bit_after_random_operations(size: int) -> None:
    rng = np.random.default_rng(size)
    ours, numpys = SumTree(size, NativeTree), SumTree(size)
    for _ in range(40):
        indices = rng.integers(size, size=rng.integers(1, 400))
        values = rng.exponential(size=len(indices)) ** 4 * (rng.random(len(indices)) < 0.7)
        for tree in (ours, numpys):
            tree.set(indices, values)
            tree.set(indices[::-1], values + 1e-6, only_positive=True)
        for mine, theirs in zip(ours.levels, numpys.levels, strict=True):
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


@pytest.mark.parametrize("fan_out", [8, 17, 32])
def test_levels_of_another_fan_out_are_refused(fan_out: int) -> None:
    with pytest.raises(ValueError, match="16 children per node"):
        NativeTree([np.zeros(fan_out * 100), np.zeros(100)], fan_out * 100)


@pytest.mark.parametrize(
    ("indices", "values"),
    [([0, 10], [1, 1]), ([0, -1], [1, 1]), ([0, 1], [1, -1]), ([0, 1], [1, np.nan]), ([1, 0], [np.inf, 1])],
)
@pytest.mark.parametrize("only_positive", [False, True])
def test_what_is_wrong_is_refused_as_a_whole(only_positive: bool, indices: list[int], values: list[float]) -> None:
    for tree in (SumTree(10, NativeTree), SumTree(10)):
        tree.set(np.arange(10), np.full(10, 2.0))
        with pytest.raises(ValueError, match="must"):
            tree.set(np.array(indices), np.array(values, np.float64), only_positive=only_positive)
        assert tree.leaves.tolist() == [2.0] * 10
    with pytest.raises(ValueError, match="values for"):
        SumTree(10, NativeTree).set(np.arange(3), np.ones(2), only_positive=True)


def test_arrays_may_be_write_protected() -> None:
    rows, leaves = np.arange(3), np.ones(3)
    rows.flags.writeable = leaves.flags.writeable = False
    tree = SumTree(10, NativeTree)
    tree.set(rows, leaves)
    tree.set(rows, leaves, only_positive=True)
    assert tree.leaves.tolist() == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]


def test_only_positive_leaves_are_renewed() -> None:
    for tree in (SumTree(10_000, NativeTree), SumTree(10_000)):
        tree.set(np.arange(0, 10_000, 2), np.full(5000, 2.0))
        tree.set(np.array([0, 1, 2, 9999, 2]), np.array([5.0, 6.0, 7.0, 8.0, 9.0]), only_positive=True)
        assert tree.leaves.tolist() == [5.0, 0.0, 9.0, *[0.0, 2.0] * 4998, 0.0]
        assert tree.total == 5 + 9 + 2 * 4998


def test_a_replay_is_given_what_is_there_in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    assert native_tree() is NativeTree
    assert native_rows() is NativeRows
    for module in (sum_tree, rows):
        monkeypatch.setattr(module, "why_missing", lambda: "there is no compiler")
    assert native_tree() is None
    assert native_rows() is None


def test_nothing_is_found_among_zeros() -> None:
    with pytest.raises(ValueError, match="all 0"):
        SumTree(100, NativeTree).find(np.array([0.0]))


SETTINGS: dict[str, Any] = {
    "capacity": 60,
    "num_lanes": 3,
    "observation_size": 4,
    "num_dimensions": 2,
    "n_step": 3,
    "discount": 0.99,
    "max_choices": 3,
}


def twins(**changes: Any) -> tuple[Replay, Replay]:
    """Return a replay that C works for, and one of the same settings that it does not."""
    settings = {**SETTINGS, **changes}
    return Replay(**settings, faster_tree=NativeTree, faster_rows=NativeRows), Replay(**settings)


def assert_equal(ours: Replay, numpys: Replay) -> None:
    assert len(ours) == len(numpys)
    theirs = numpys.state()
    for name, array in ours.state().items():
        assert array.dtype == theirs[name].dtype
        assert array.tobytes() == theirs[name].tobytes(), name


class Feed:
    """Hands the same random steps to two replays, and has them draw the same batches."""

    def __init__(self, ours: Replay, numpys: Replay, *, max_choices: int, mask_size: int, seed: int) -> None:
        self.ours, self.numpys = ours, numpys
        self.max_choices, self.mask_size = max_choices, mask_size
        self.rng = np.random.default_rng(seed)

    def masks(self, num_lanes: int) -> npt.NDArray[np.bool_] | None:
        return self.rng.random((num_lanes, self.mask_size)) < 0.5 if self.mask_size else None

    def begin(self, lanes: list[int] | None = None) -> None:
        num_lanes = 3 if lanes is None else len(lanes)
        observations, masks = self.rng.normal(size=(num_lanes, 4)), self.masks(num_lanes)
        for replay in (self.ours, self.numpys):
            replay.begin(observations, lanes, masks)

    def append(self, ended: npt.NDArray[np.bool_], lanes: list[int] | None = None) -> None:
        """Add a step that ends in the lanes [2, L] terminated and truncated."""
        rng, num_lanes = self.rng, ended.shape[1]
        following, resets = rng.normal(size=(2, num_lanes, 4)).astype(np.float32)
        rewards = rng.choice([-0.0, 0.0, 1.0, rng.normal()], num_lanes)
        actions = rng.integers(0, self.max_choices, (num_lanes, 2))
        next_masks, reset_masks = self.masks(num_lanes), self.masks(num_lanes)
        for replay in (self.ours, self.numpys):
            replay.append(actions, rewards, ended[0], ended[1], following, resets, lanes, next_masks, reset_masks)

    def sample(self) -> None:
        if len(self.ours) == 0:
            return
        seed, size = int(self.rng.integers(2**32)), int(self.rng.integers(1, 12))
        mine, theirs = (replay.sample(size, np.random.default_rng(seed)) for replay in (self.ours, self.numpys))
        for name, array in mine._asdict().items():
            if array is not None:
                assert array.dtype == getattr(theirs, name).dtype
                assert array.tobytes() == getattr(theirs, name).tobytes(), name
        priorities = self.rng.exponential(size=size) * 3 * (self.rng.random(size) < 0.9)
        for replay in (self.ours, self.numpys):
            replay.update_priorities(mine.rows, priorities)


@pytest.mark.parametrize("n_step", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("prioritised", "mask_size", "max_choices"),
    [(True, 0, 3), (True, 11, 256), (False, 0, 257), (True, 0, 2**16), (True, 0, 2**16 + 1)],
)
@pytest.mark.parametrize("ends", ["never", "together", "apart"])
def test_replays_are_equal_to_the_bit_all_around_the_ring(
    n_step: int, prioritised: bool, mask_size: int, max_choices: int, ends: str
) -> None:
    ours, numpys = twins(n_step=n_step, prioritised=prioritised, mask_size=mask_size, max_choices=max_choices)
    feed = Feed(ours, numpys, max_choices=max_choices, mask_size=mask_size, seed=n_step)
    feed.begin()
    if ends == "apart":
        feed.begin([2])
    for step in range(150):  # 20 slots per lane: several times around the ring
        ended = np.zeros((2, 3), np.bool_)
        if ends == "together" and step % 17 == 16:
            ended[1] = True
        if ends == "apart" and feed.rng.random() < 0.1:
            ended = feed.rng.random((2, 3)) < 0.5
        feed.append(ended)
        if ends == "apart":
            feed.append(np.zeros((2, 2), np.bool_), [2, 0])
        feed.sample()
        if step == 70:
            feed.begin()
        assert_equal(ours, numpys)


def test_c_takes_the_usual_steps_and_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, numpys = twins()
    faster, taken = ours._faster, []
    assert isinstance(faster, NativeRows)
    append = faster.append

    def watched(*arguments: Any) -> int | None:
        overwritten = append(*arguments)
        taken.append(overwritten is not None)
        return overwritten

    monkeypatch.setattr(faster, "append", watched)
    feed = Feed(ours, numpys, max_choices=3, mask_size=0, seed=0)
    nothing, in_lane_1 = np.zeros((2, 3), np.bool_), np.array([False, True, False])
    feed.begin()
    for ended in (*[nothing] * 4, np.array([in_lane_1, ~in_lane_1]), *[nothing] * 3):
        feed.append(ended)
    assert taken == [False, False, True, True, False, False, False, True]  # a window of 3 - 1 waiting steps fills first
    assert_equal(ours, numpys)


@pytest.mark.parametrize("lanes", [None, [0, 2]])
def test_arrays_of_other_kinds_and_orders_are_stored_alike(lanes: list[int] | None) -> None:
    ours, numpys = twins(n_step=1)
    rng = np.random.default_rng(0)
    num_lanes = 3 if lanes is None else len(lanes)
    for replay in (ours, numpys):
        replay.begin(np.zeros((3, 4)))
    for kind in (np.int32, np.uint8, np.float64):
        actions = np.asfortranarray(rng.integers(0, 3, (num_lanes, 2)).astype(kind))
        rewards = rng.normal(size=2 * num_lanes).astype(np.float32)[::2]
        observations = rng.normal(size=(4, num_lanes)).T
        ends = [0] * num_lanes
        for replay in (ours, numpys):
            replay.append(actions, rewards, ends, ends, observations, observations, lanes)
        assert_equal(ours, numpys)


@pytest.mark.parametrize("wrong", [-1, 3, 2**40])
def test_a_wrong_action_is_refused_and_nothing_is_stored(wrong: int) -> None:
    ends, observations = [False] * 3, np.ones((3, 4))
    for replay in twins(n_step=1):
        replay.begin(np.zeros((3, 4)))
        replay.append([[0, 1]] * 3, [1.0] * 3, ends, ends, observations, observations)
        before = {name: array.copy() for name, array in replay.state().items()}
        with pytest.raises(ValueError, match=r"actions must lie in \[0, 3\)"):
            replay.append([[0, 1], [0, 1], [0, wrong]], [1.0] * 3, ends, ends, observations, observations)
        assert all(array.tobytes() == before[name].tobytes() for name, array in replay.state().items())
