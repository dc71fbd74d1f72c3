"""Which transitions a replay draws and how it weighs them: computed expectations, fixed seeds, stated tolerances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from revalued.replay import Replay
from revalued.replay.priorities import PRIORITY_FLOOR


def one_lane(num_steps: int, *, capacity: int = 32, **settings: Any) -> Replay:
    """Return a 1-step replay of one lane after some steps; observation, action and reward all name the step."""
    replay = Replay(
        capacity=capacity,
        num_lanes=1,
        observation_size=1,
        num_dimensions=1,
        n_step=1,
        discount=0.5,
        max_choices=100,
        **settings,
    )
    replay.begin([[0.0]])
    run(replay, 0, num_steps)
    return replay


def run(replay: Replay, first_step: int, num_steps: int) -> None:
    for step in range(first_step, first_step + num_steps):
        replay.append([[step % 100]], [float(step)], [False], [False], [[step + 1.0]], [[-1.0]])


def draw_frequencies(replay: Replay, num_rows: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return how often each row came in 50,000 draws."""
    rng = np.random.default_rng(0)
    rows = np.concatenate([replay.sample(50, rng).rows for _ in range(1000)])
    return np.bincount(rows, minlength=num_rows) / len(rows)


def test_a_batch_has_the_promised_shapes_and_types() -> None:
    replay = Replay(
        capacity=100, num_lanes=2, observation_size=5, num_dimensions=3, n_step=1, discount=0.99, max_choices=4
    )
    replay.begin(np.zeros((2, 5)))
    replay.append(np.full((2, 3), 3), np.ones(2), np.zeros(2), np.zeros(2), np.ones((2, 5)), np.zeros((2, 5)))
    batch = replay.sample(7, np.random.default_rng(0))
    assert batch.next_masks is None
    arrays = {name: value for name, value in batch._asdict().items() if value is not None}
    assert {name: (value.dtype.name, value.shape) for name, value in arrays.items()} == {
        "rows": ("int64", (7,)),
        "observations": ("float32", (7, 5)),
        "actions": ("int64", (7, 3)),
        "returns": ("float32", (7,)),
        "discounts": ("float32", (7,)),
        "next_observations": ("float32", (7, 5)),
        "weights": ("float32", (7,)),
    }
    assert (batch.actions == 3).all()


def test_draws_follow_the_priorities() -> None:
    replay = one_lane(10)
    priorities = np.arange(1.0, 11.0)
    replay.update_priorities(np.arange(10), priorities)
    expected = np.zeros(32)
    expected[:10] = priorities**0.6 / (priorities**0.6).sum()
    # The largest binomial standard deviation is 0.0016; exponent 1 in place of 0.6 would be off by 0.02.
    np.testing.assert_allclose(draw_frequencies(replay, 32), expected, atol=0.005)


def test_uniform_replay_draws_evenly_whatever_the_priorities() -> None:
    replay = one_lane(10, prioritised=False)
    replay.update_priorities(np.arange(10), np.arange(10.0) * 1000)
    expected = np.repeat([0.1, 0.0], [10, 22])
    np.testing.assert_allclose(draw_frequencies(replay, 32), expected, atol=0.005)
    assert (replay.sample(64, np.random.default_rng(0)).weights == 1).all()
    run(replay, 10, 5)
    assert replay.state()["leaves"].tolist() == [1.0] * 15 + [0.0]


def test_each_of_the_equal_shares_gives_one_draw() -> None:
    replay = one_lane(3, priority_exponent=1.0)
    replay.update_priorities(np.arange(3), [1.0, 2.0, 5.0])
    for seed in range(100):
        assert replay.sample(8, np.random.default_rng(seed)).rows.tolist() == [0, 1, 1, 2, 2, 2, 2, 2]


def test_importance_weights_by_hand() -> None:
    replay = one_lane(3, priority_exponent=0.5, importance_exponent=0.5)
    replay.update_priorities(np.arange(3), [1.0, 16.0, 256.0])  # leaves 1, 4, 16
    # (1/21)^-½, (4/21)^-½, (16/21)^-½ over the largest of them.
    batch = replay.sample(21, np.random.default_rng(0))
    assert dict(zip(batch.rows.tolist(), batch.weights.tolist(), strict=True)) == {0: 1.0, 1: 0.5, 2: 0.25}
    # The maximum is the batch's own: without the rarest one, the next is the measure.
    replay.update_priorities(np.array([0]), [0.0])
    batch = replay.sample(20, np.random.default_rng(0))
    assert dict(zip(batch.rows.tolist(), batch.weights.tolist(), strict=True)) == {1: 1.0, 2: 0.5}


def test_new_transitions_enter_at_the_largest_priority_seen() -> None:
    replay = one_lane(2, priority_exponent=0.5)
    assert replay.state()["leaves"].tolist() == [1.0, 1.0, 0.0]
    replay.update_priorities(np.array([0, 1]), [0.25, 9.0])
    run(replay, 2, 1)
    assert replay.state()["leaves"].tolist() == [0.5, 3.0, 3.0, 0.0]
    # Its owner is down to a lower one, but it was seen: the raw 9, not its root.
    replay.update_priorities(np.array([1]), [4.0])
    run(replay, 3, 1)
    assert replay.state()["leaves"].tolist() == [0.5, 2.0, 3.0, 3.0, 0.0]


def test_an_error_of_zero_does_not_bury_a_transition() -> None:
    replay = one_lane(2)
    replay.update_priorities(np.arange(2), [0.0, 0.0])
    assert len(replay) == 2
    np.testing.assert_allclose(replay.state()["leaves"][:2], PRIORITY_FLOOR**0.6)
    assert set(replay.sample(2, np.random.default_rng(0)).rows.tolist()) == {0, 1}


def test_the_last_of_duplicate_rows_wins() -> None:
    replay = one_lane(2, priority_exponent=1.0)
    replay.update_priorities(np.array([0, 1, 0]), [5.0, 2.0, 3.0])
    assert replay.state()["leaves"].tolist() == [3.0, 2.0, 0.0]


def test_rows_that_left_the_tree_are_not_brought_back() -> None:
    replay = one_lane(7, capacity=8)
    assert len(replay) == 7
    run(replay, 7, 2)  # the rows of steps 0 and 1: one holds step 8 now, the other the newest observation
    replay.update_priorities(np.array([1, 2]), [50.0, 0.5])
    leaves = replay.state()["leaves"]
    assert leaves[1] == 0.0
    assert leaves[2] == 0.5**0.6
    assert len(replay) == np.count_nonzero(leaves) == 7
    for seed in range(20):
        assert 1 not in replay.sample(16, np.random.default_rng(seed)).rows


def test_sampled_rows_are_copies() -> None:
    replay = one_lane(7, capacity=8)
    batch = replay.sample(7, np.random.default_rng(0))
    before = batch.observations.copy(), batch.next_observations.copy()
    run(replay, 7, 20)
    np.testing.assert_array_equal((batch.observations, batch.next_observations), before)


def test_the_same_generator_gives_the_same_batch() -> None:
    replay = one_lane(20)
    first, second = (replay.sample(16, np.random.default_rng(3)) for _ in range(2))
    assert first.rows.tolist() == second.rows.tolist()
    assert first.rows.tolist() != replay.sample(16, np.random.default_rng(4)).rows.tolist()


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_impossible_priorities_are_refused(bad: float) -> None:
    replay = one_lane(3)
    with pytest.raises(ValueError, match="priorities must be finite"):
        replay.update_priorities(np.arange(2), [1.0, bad])
    assert replay.state()["leaves"].tolist() == [1.0, 1.0, 1.0, 0.0]
    assert replay.state()["max_priority"] == 1.0


def test_there_must_be_something_to_sample() -> None:
    with pytest.raises(ValueError, match="empty"):
        one_lane(0).sample(1, np.random.default_rng(0))
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        one_lane(3).sample(0, np.random.default_rng(0))
