"""Action and observation spaces: every supported kind there and back, every other refused by name."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from revalued.envs.faults import EnvFault
from revalued.envs.spaces.actions import action_codec
from revalued.envs.spaces.observations import observation_codec
from revalued.errors import UserError

NESTED = spaces.Dict(
    {
        "tool": spaces.Discrete(3, start=5),
        "arms": spaces.Tuple((spaces.Box(-1.0, 1.0, (2,)), spaces.MultiBinary(2))),
        "legs": spaces.MultiDiscrete(np.array([[2, 3], [4, 5]]), start=np.array([[0, 1], [2, 3]])),
    }
)


@pytest.mark.parametrize(
    ("space", "sizes", "choices", "action"),
    [
        (spaces.Discrete(4), (4,), [3], np.int64(3)),
        (spaces.Discrete(4, start=-2), (4,), [0], np.int64(-2)),
        (spaces.MultiDiscrete([2, 3, 5]), (2, 3, 5), [1, 0, 4], np.array([1, 0, 4])),
        (spaces.MultiDiscrete([2, 3], start=[10, -1]), (2, 3), [1, 2], np.array([11, 1])),
        (spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])), (2, 3, 4, 5), [1, 2, 3, 4], np.array([[1, 2], [3, 4]])),
        (spaces.MultiBinary(3), (2, 2, 2), [1, 0, 1], np.array([1, 0, 1], np.int8)),
        (spaces.MultiBinary([2, 2]), (2,) * 4, [1, 0, 0, 1], np.array([[1, 0], [0, 1]], np.int8)),
        (spaces.Box(-1.0, 1.0, (2,)), (3, 3), [0, 1], np.array([-1, 0], np.float32)),
        (
            spaces.Box(np.array([[0, -2]]), np.array([[1.0, 2.0]]), dtype=np.float64),
            (3, 3),
            [1, 2],
            np.array([[0.5, 2.0]]),
        ),
        # whole numbers: no more bins than there are numbers, and no value twice
        (spaces.Box(np.array([0, 0]), np.array([1, 9]), dtype=np.int32), (2, 3), [1, 2], np.array([1, 9], np.int32)),
        # a dimension without width has one choice
        (
            spaces.Box(np.array([1, 0], np.float32), np.array([1, 4], np.float32)),
            (1, 3),
            [0, 1],
            np.array([1, 2], np.float32),
        ),
    ],
)
def test_choices_become_actions_of_the_space(
    space: spaces.Space[Any], sizes: tuple[int, ...], choices: list[int], action: Any
) -> None:
    codec = action_codec(space, bins=3)
    assert codec.sizes == sizes
    decoded = codec.decode(np.array(choices))
    assert np.array_equal(decoded, action)
    assert np.asarray(decoded).dtype == np.asarray(action).dtype
    assert space.contains(decoded)


def test_nested_actions_come_in_the_documented_order() -> None:
    codec = action_codec(NESTED, bins=3)
    # sorted keys: arms (two bins of three, two bits), legs row by row, tool
    assert codec.sizes == (3, 3, 2, 2, 2, 3, 4, 5, 3)
    action = codec.decode(np.array([0, 2, 1, 0, 1, 2, 3, 4, 2]))
    assert list(action) == ["arms", "legs", "tool"]
    assert [part.tolist() for part in action["arms"]] == [[-1.0, 1.0], [1, 0]]
    assert action["legs"].tolist() == [[1, 3], [5, 7]]
    assert action["tool"] == 7
    assert NESTED.contains(action)


def test_a_dictionary_that_gymnasium_does_not_sort_keeps_its_own_order() -> None:
    b, a = spaces.Discrete(2), spaces.Discrete(3)
    assert action_codec(spaces.Dict({"b": b, "a": a}), 3).sizes == (3, 2)
    assert action_codec(spaces.Dict(OrderedDict(b=b, a=a)), 3).sizes == (2, 3)
    assert action_codec(spaces.Dict(b=b, a=a), 3).sizes == (2, 3)


def test_every_combination_is_an_action_and_none_comes_twice() -> None:
    space = spaces.Tuple((spaces.Discrete(3, start=1), spaces.MultiDiscrete([2, 2]), spaces.Box(0, 1, (1,), np.uint8)))
    codec = action_codec(space, bins=5)
    assert codec.sizes == (3, 2, 2, 2)
    actions = [codec.decode(np.array(choices)) for choices in np.ndindex(*codec.sizes)]
    assert all(space.contains(action) for action in actions)
    assert len({repr(action) for action in actions}) == 3 * 2 * 2 * 2


@pytest.mark.parametrize("bins", [2, 3, 30])
def test_bins_are_evenly_spaced_and_reach_both_ends(bins: int) -> None:
    codec = action_codec(spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, 1.1]), dtype=np.float64), bins)
    values = np.array([codec.decode(np.array([choice, choice])) for choice in range(bins)])
    assert values[0].tolist() == [-1.0, 0.0]
    assert values[-1].tolist() == [1.0, 1.1]
    assert np.allclose(np.diff(values, axis=0), np.array([2.0, 1.1]) / (bins - 1))


def test_a_box_as_wide_as_its_type_is_cut_without_overflow() -> None:
    limit = np.finfo(np.float64).max
    codec = action_codec(spaces.Box(-limit, limit, (1,), np.float64), 3)
    assert [codec.decode(np.array([choice]))[0] for choice in range(3)] == [-limit, 0.0, limit]


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Box(-np.inf, 1.0, (2,)), r"actions without bounds cannot be cut into bins: .*Box\(-inf, 1.0"),
        (spaces.Tuple((spaces.Discrete(2), spaces.Box(0.0, np.inf, (1,)))), r"action space at \[1\] is Box"),
        (spaces.Dict(a=spaces.Dict(b=spaces.Text(3))), r"the action space at \['a'\]\['b'\] is Text"),
        (spaces.Sequence(spaces.Discrete(2)), "the action space is Sequence"),
        (spaces.Tuple(()), "no dimension to choose in"),
    ],
)
def test_other_action_spaces_are_refused_by_name(space: spaces.Space[Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        action_codec(space, 3)
    assert "\n" not in str(caught.value)


def test_one_bin_leaves_no_choice() -> None:
    with pytest.raises(UserError, match="bins must be at least 2"):
        action_codec(spaces.Box(-1.0, 1.0, (1,)), 1)


@pytest.mark.parametrize(
    ("space", "observation", "flat"),
    [
        (spaces.Box(0, 255, (2, 2), np.uint8), np.array([[1, 2], [3, 255]], np.uint8), [1, 2, 3, 255]),
        (spaces.Box(-1.0, 1.0, (), np.float64), np.float64(0.5), [0.5]),
        (spaces.Box(-5, 5, (3,), np.int64), [1, -2, 3], [1, -2, 3]),
        (spaces.Discrete(3), 1, [0, 1, 0]),
        (spaces.Discrete(3, start=5), np.int64(7), [0, 0, 1]),
        (spaces.MultiDiscrete([2, 3], start=[0, 4]), np.array([1, 4]), [0, 1, 1, 0, 0]),
        (spaces.MultiBinary(3), np.array([1, 0, 1], np.int8), [1, 0, 1]),
        (
            spaces.Tuple((spaces.Discrete(2), spaces.Box(0.0, 9.0, (2,)))),
            (1, np.array([7, 8], np.float32)),
            [0, 1, 7, 8],
        ),
        (
            spaces.Dict(
                {"z": spaces.Discrete(2), "a": spaces.Tuple((spaces.Box(0.0, 9.0, (1,)), spaces.MultiBinary(1)))}
            ),
            {"z": 0, "a": (np.array([4.0]), np.array([1]))},
            [4, 1, 1, 0],
        ),
    ],
)
def test_observations_become_flat_numbers(space: spaces.Space[Any], observation: Any, flat: list[float]) -> None:
    codec = observation_codec(space)
    assert codec.flatten(observation).tolist() == flat
    assert codec.flatten(observation).dtype == np.float32
    assert spaces.Box(codec.low, codec.high).contains(codec.flatten(observation))
    assert codec.low.shape == codec.high.shape == (len(flat),)


def test_bounds_are_those_of_the_space_and_never_infinite() -> None:
    codec = observation_codec(spaces.Box(np.array([-np.inf, -2.0]), np.array([np.inf, 3.0]), dtype=np.float64))
    limit = np.finfo(np.float32).max
    assert codec.low.tolist() == [-limit, -2.0]
    assert codec.high.tolist() == [limit, 3.0]


def test_a_flat_observation_is_a_copy() -> None:
    original = np.zeros(3, np.float32)
    flat = observation_codec(spaces.Box(-1.0, 1.0, (3,))).flatten(original)
    original[:] = 1
    assert flat.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("space", "observation", "message"),
    [
        (spaces.Box(0.0, 1.0, (2,)), np.zeros(3), r"has shape \(3,\) instead of \(2,\)"),
        (spaces.Box(0.0, 1.0, (2,)), np.zeros((2, 1)), r"has shape \(2, 1\) instead of \(2,\)"),
        (spaces.Box(0.0, 1.0, (1,)), ["north"], "instead of numbers"),
        (spaces.Discrete(3), 3, "is 3, which is not in its space"),
        (spaces.Discrete(3, start=1), 0, "is 0, which is not in its space"),
        (spaces.Discrete(3), 0.5, "is 0.5, which is not in its space"),
        (spaces.MultiDiscrete([2, 2]), np.array([0, 2]), r"is \[0, 2\], which is not in its space"),
        (spaces.Dict(a=spaces.Discrete(2)), {"b": 1}, r"should be a dictionary with \['a'\], it is \{'b': 1\}"),
        (spaces.Dict(a=spaces.Discrete(2)), {"a": 0, "b": 1}, r"should be a dictionary with \['a'\]"),
        (spaces.Tuple((spaces.Discrete(2),)), (0, 1), "should be a tuple of 1"),
        (spaces.Dict(a=spaces.Box(0.0, 1.0, (2,))), {"a": np.zeros(1)}, r"observation\['a'\] has shape \(1,\)"),
    ],
)
def test_an_observation_outside_of_its_space_is_a_fault(
    space: spaces.Space[Any], observation: Any, message: str
) -> None:
    with pytest.raises(EnvFault, match=message):
        observation_codec(space).flatten(observation)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Text(5), "the observation space is Text"),
        (spaces.Dict(a=spaces.Graph(spaces.Discrete(2), None)), r"the observation space at \['a'\] is Graph"),
        (spaces.Tuple(()), "has no numbers in it"),
    ],
)
def test_other_observation_spaces_are_refused_by_name(space: spaces.Space[Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        observation_codec(space)
