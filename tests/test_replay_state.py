"""Saving and restoring a replay, its memory, and what it refuses."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from revalued.replay import Replay
from revalued.replay.memory import zeros_together

State = dict[str, npt.NDArray[Any]]
NUM_LANES, OBSERVATION_SIZE, NUM_DIMENSIONS = 3, 4, 2
SETTINGS: dict[str, Any] = {
    "capacity": 60,
    "num_lanes": NUM_LANES,
    "observation_size": OBSERVATION_SIZE,
    "num_dimensions": NUM_DIMENSIONS,
    "n_step": 3,
    "discount": 0.99,
    "max_choices": 3,
}


def new_replay(**changes: Any) -> Replay:
    return Replay(**{**SETTINGS, **changes})


def begin(replay: Replay, rng: np.random.Generator) -> None:
    replay.begin(rng.normal(size=(NUM_LANES, OBSERVATION_SIZE)))


def run(replay: Replay, rng: np.random.Generator, num_steps: int) -> list[bytes]:
    """Append random steps, sample and update priorities; return the bytes of all batches."""
    seen = []
    for _ in range(num_steps):
        following, resets = rng.normal(size=(2, NUM_LANES, OBSERVATION_SIZE))
        actions = rng.integers(0, 3, (NUM_LANES, NUM_DIMENSIONS))
        terminated, truncated = rng.random((2, NUM_LANES)) < 0.1
        replay.append(actions, rng.normal(size=NUM_LANES), terminated, truncated, following, resets)
        if len(replay):
            batch = replay.sample(8, rng)
            replay.update_priorities(batch.rows, rng.exponential(size=8) * 3)
            seen.append(b"".join(value.tobytes() for value in batch._asdict().values() if value is not None))
    return seen


def through_files(state: State) -> State:
    """Write every array as .npy without pickle, and read it back."""
    restored = {}
    for name, array in state.items():
        file = io.BytesIO()
        np.save(file, array, allow_pickle=False)
        file.seek(0)
        restored[name] = np.load(file, allow_pickle=False)
    return restored


def as_bytes(state: State) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in state.items()}


@pytest.mark.parametrize(("n_step", "prioritised"), [(1, True), (3, True), (5, True), (3, False)])
@pytest.mark.parametrize("num_steps", [0, 2, 7, 18, 19, 137])  # nothing, only pending, half full, about full, wrapped
@pytest.mark.parametrize("used", [False, True])
def test_a_restored_replay_continues_bit_for_bit(n_step: int, prioritised: bool, num_steps: int, used: bool) -> None:
    replay = new_replay(n_step=n_step, prioritised=prioritised)
    begin(replay, np.random.default_rng(1))
    run(replay, np.random.default_rng(2), num_steps)
    restored = new_replay(n_step=n_step, prioritised=prioritised)
    if used:  # nothing of an earlier life may shine through
        begin(restored, np.random.default_rng(8))
        run(restored, np.random.default_rng(9), 50)
    restored.load_state(through_files(replay.state()))
    assert len(restored) == len(replay)
    assert as_bytes(restored.state()) == as_bytes(replay.state())
    later = run(replay, np.random.default_rng(3), 40)
    assert run(restored, np.random.default_rng(3), 40) == later
    assert len(later) > 30
    assert as_bytes(restored.state()) == as_bytes(replay.state())


def test_a_state_is_made_of_views_of_what_was_written() -> None:
    replay = new_replay(capacity=300)
    assert len(replay.state()["observations"]) == 0
    rng = np.random.default_rng(0)
    begin(replay, rng)
    for _ in range(5):
        replay.append(
            np.zeros((3, 2)), np.zeros(3), np.zeros(3), np.zeros(3), rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
        )
    state = replay.state()
    for name in ("observations", "actions", "returns", "discounts", "next_rows", "leaves"):
        assert len(state[name]) == 6 * NUM_LANES  # the first observation and five more of each lane
        assert np.shares_memory(state[name], replay.state()[name])
    run(replay, rng, 200)
    assert len(replay.state()["observations"]) == 300


@pytest.mark.parametrize("num_steps", [5, 100])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"capacity": 90}, "positions 20, this replay has 30"),
        ({"capacity": 45}, "positions 20, this replay has 15"),
        ({"discount": 0.9}, "discount 0.99, this replay has 0.9"),
        ({"max_choices": 4}, "max_choices 3, this replay has 4"),
        ({"priority_exponent": 0.5}, "priority_exponent 0.6, this replay has 0.5"),
        ({"prioritised": False}, "priority_exponent 0.6, this replay has 0.0"),
        ({"num_lanes": 2, "capacity": 40}, r"heads .*int64 \(3,\), needed is int64 \(2,\)"),
        ({"n_step": 4}, r"pending_returns .*\(3, 3\), needed is float64 \(4, 3\)"),
        ({"observation_size": 5}, r"observations .*, 4\), needed is float32 \(.*, 5\)"),
        ({"num_dimensions": 1}, r"actions .*, 2\), needed is uint8 \(.*, 1\)"),
    ],
)
def test_a_state_of_other_settings_is_refused(changes: dict[str, Any], message: str, num_steps: int) -> None:
    replay = new_replay()
    begin(replay, np.random.default_rng(0))
    run(replay, np.random.default_rng(0), num_steps)
    other = new_replay(**changes)
    before = as_bytes(other.state())
    with pytest.raises(ValueError, match=message):
        other.load_state(replay.state())
    assert as_bytes(other.state()) == before


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("returns", None, "lacks returns"),
        ("returns", lambda array: array[:-1], "returns in the replay state"),
        ("next_rows", lambda array: array.astype(np.int64), "next_rows in the replay state is int64"),
        ("max_priority", lambda array: array[None], "max_priority in the replay state"),
        ("leaves", lambda array: array * np.nan, "leaves in the replay state must lie in"),
        ("leaves", lambda array: array + 1e9, "leaves in the replay state must lie in"),
        ("next_rows", lambda array: array + 10_000, "next_rows in the replay state must lie in"),
        ("next_rows", lambda array: array - 10_000, "next_rows in the replay state must lie in"),
        ("actions", lambda array: array + 200, "actions in the replay state must lie in"),
        ("observations", lambda array: array * np.nan, "observations in the replay state must lie in"),
        ("returns", lambda array: array + np.inf, "returns in the replay state must lie in"),
        ("discounts", lambda array: array + 2, "discounts in the replay state must lie in"),
        ("heads", lambda array: array - 10_000, "heads in the replay state must lie in"),
        ("heads", lambda array: array + 2**62, "heads in the replay state must lie in"),
        ("num_pending", lambda array: array + 100, "num_pending in the replay state must lie in"),
        ("pending_returns", lambda array: array * np.nan, "pending_returns in the replay state must lie in"),
        ("max_priority", lambda array: array * np.inf, "max_priority in the replay state must lie in"),
        ("discount", lambda array: np.array("x"), "was saved with discount x"),
    ],
)
def test_a_damaged_state_is_refused(name: str, change: Any, message: str) -> None:
    replay = new_replay()
    begin(replay, np.random.default_rng(0))
    run(replay, np.random.default_rng(0), 30)
    state = replay.state()
    if change is None:
        del state[name]
    else:
        state[name] = change(state[name])
    other = new_replay()
    with pytest.raises(ValueError, match=message):
        other.load_state(state)
    assert len(other) == 0


def test_half_a_million_dog_transitions_fit_into_550_megabytes() -> None:
    settings: dict[str, Any] = {"num_lanes": 5, "n_step": 3, "discount": 0.99, "max_choices": 3}
    replay = Replay(capacity=500_000, observation_size=223, num_dimensions=38, **settings)
    observation_bytes, action_bytes = 500_000 * 223 * 4, 500_000 * 38
    assert observation_bytes + action_bytes < replay.nbytes < 550e6


@pytest.mark.parametrize(
    ("max_choices", "dtype"), [(256, "uint8"), (257, "uint16"), (65_536, "uint16"), (65_537, "int32")]
)
def test_actions_take_the_smallest_type_that_holds_them(max_choices: int, dtype: str) -> None:
    replay = new_replay(max_choices=max_choices, n_step=1)
    begin(replay, np.random.default_rng(0))
    largest = np.full((3, 2), max_choices - 1)
    replay.append(largest, np.zeros(3), np.zeros(3), np.zeros(3), np.zeros((3, 4)), np.zeros((3, 4)))
    assert replay.state()["actions"].dtype.name == dtype
    assert (replay.sample(3, np.random.default_rng(0)).actions == max_choices - 1).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"capacity": 18}, "need a capacity of 19, got 18"),
        ({"capacity": 0}, "need a capacity of 19, got 0"),
        ({"n_step": 0}, "n_step must be at least 1"),
        ({"num_lanes": 0}, "num_lanes must be at least 1"),
        ({"discount": 1.1}, r"discount must lie in \[0, 1\]"),
        ({"discount": -0.1}, r"discount must lie in \[0, 1\]"),
        ({"discount": np.nan}, r"discount must lie in \[0, 1\]"),
        ({"priority_exponent": 2.0}, "priority_exponent must lie"),
        ({"importance_exponent": -1.0}, "importance_exponent must lie"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    new_replay(capacity=19)
    with pytest.raises(ValueError, match=message):
        new_replay(**changes)


@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (0, np.full((3, 2), 3), r"actions must lie in \[0, 3\)"),
        (0, np.full((3, 2), -1), r"actions must lie in \[0, 3\)"),
        (0, np.zeros((3, 1)), r"actions must have shape \(3, 2\)"),
        (1, np.zeros(()), r"rewards must have shape \(3,\)"),
        (2, np.zeros(1), "terminated must have shape"),
        (3, np.zeros((3, 1)), "truncated must have shape"),
        (4, np.zeros(4), "next_observations must have shape"),
        (5, np.zeros((1, 4)), "reset_observations must have shape"),
        (6, [0, 0, 1], "lanes must be distinct"),
        (6, [0, 1, 3], "lanes must be distinct"),
        (6, [0, 1, -1], "lanes must be distinct"),
    ],
)
def test_impossible_steps_are_refused_and_change_nothing(position: int, value: Any, message: str) -> None:
    replay = new_replay()
    step: list[Any] = [
        np.zeros((3, 2)),
        np.zeros(3),
        np.zeros(3),
        np.zeros(3),
        np.zeros((3, 4)),
        np.zeros((3, 4)),
        None,
    ]
    with pytest.raises(ValueError, match="call begin before append"):
        replay.append(*step)
    begin(replay, np.random.default_rng(0))
    before = as_bytes(replay.state())
    step[position] = value
    with pytest.raises(ValueError, match=message):
        replay.append(*step)
    assert as_bytes(replay.state()) == before


def test_begin_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match=r"observations must have shape \(3, 4\)"):
        new_replay().begin(np.zeros((1, 4)))


def test_arrays_of_one_block_do_not_touch() -> None:
    kinds = [((5, 3), np.float32), ((7,), np.uint8), ((2, 2), np.float64), ((1,), np.int32)]
    arrays = zeros_together(*kinds)
    assert [(array.shape, array.dtype) for array in arrays] == [(shape, np.dtype(kind)) for shape, kind in kinds]
    assert not any(array.any() for array in arrays)
    for number, array in enumerate(arrays, start=1):
        assert array.flags.aligned
        array[...] = number
    assert [set(array.ravel().tolist()) for array in arrays] == [{1}, {2}, {3}, {4}]
