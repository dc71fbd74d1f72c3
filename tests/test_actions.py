"""The factorised action space: padding, uniform choices, and the enumeration that plain DQN needs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from revalued.actions import MAX_ATOMIC_ACTIONS, FactorisedActions
from revalued.errors import UserError


def test_unequal_dimensions_are_padded_to_the_largest() -> None:
    space = FactorisedActions((3, 1, 4))
    assert (space.num_dimensions, space.max_choices, space.is_padded) == (3, 4, True)
    assert space.exists.tolist() == [
        [True, True, True, False],
        [True, False, False, False],
        [True, True, True, True],
    ]


def test_equal_dimensions_have_no_padding() -> None:
    space = FactorisedActions((3, 3))
    assert not space.is_padded
    assert space.exists.tolist() == [[True, True, True], [True, True, True]]


@pytest.mark.parametrize("sizes", [(), (0,), (3, 0, 2), (3, -1)])
def test_a_space_without_choices_is_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="at least one dimension with at least one choice"):
        FactorisedActions(sizes)


def test_uniform_cuts_the_unit_interval_into_equal_parts() -> None:
    space = FactorisedActions((2, 3, 5))
    draws = np.array([[0.0, 0.0, 0.0], [0.49, 0.33, 0.19], [0.5, 0.34, 0.21], [0.99, 0.99, 0.81]])
    assert space.uniform(draws).tolist() == [[0, 0, 0], [0, 0, 0], [1, 1, 1], [1, 2, 4]]


def test_the_largest_draw_stays_inside_every_size() -> None:
    sizes = tuple(range(1, 2000))
    largest = np.full(len(sizes), np.nextafter(1.0, 0.0))
    assert FactorisedActions(sizes).uniform(largest).tolist() == [size - 1 for size in sizes]


def test_uniform_choices_come_equally_often_and_padding_never() -> None:
    space = FactorisedActions((2, 3, 5))
    choices = space.uniform(np.random.default_rng(0).random((60_000, 3)))
    for dimension, size in enumerate(space.sizes):
        frequencies = np.bincount(choices[:, dimension], minlength=space.max_choices) / len(choices)
        # The largest standard deviation is √(0.5 · 0.5 / 60,000) = 0.002.
        np.testing.assert_allclose(frequencies[:size], 1 / size, atol=0.01)
        assert frequencies[size:].tolist() == [0.0] * (space.max_choices - size)


def test_factorised_actions_are_the_environments_own() -> None:
    actions = np.array([[0, 2], [1, 0]])
    assert FactorisedActions((2, 3)).to_environment(actions).tolist() == actions.tolist()


def test_atomic_actions_are_all_combinations_each_once() -> None:
    space = FactorisedActions.atomic((2, 3, 4))
    assert (space.sizes, space.num_dimensions, space.is_padded) == ((24,), 1, False)
    actions = space.to_environment(np.arange(24)[:, None])
    assert actions.dtype == np.int64
    assert [tuple(row) for row in actions.tolist()] == list(itertools.product(range(2), range(3), range(4)))


def test_atomic_translation_keeps_leading_axes() -> None:
    space = FactorisedActions.atomic((2, 3))
    # 5 = 1·3 + 2, 0 = 0·3 + 0, 4 = 1·3 + 1, 2 = 0·3 + 2
    assert space.to_environment(np.array([[[5], [0]], [[4], [2]]])).tolist() == [[[1, 2], [0, 0]], [[1, 1], [0, 2]]]


def test_too_many_atomic_actions_are_refused() -> None:
    assert FactorisedActions.atomic((10,) * 6).max_choices == MAX_ATOMIC_ACTIONS
    # 3^38, the dog with three bins
    with pytest.raises(UserError, match=r"1,350,851,717,672,992,089 joint actions \(38 dimensions\).*revalued"):
        FactorisedActions.atomic((3,) * 38)
