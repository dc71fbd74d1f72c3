"""Action masks: read with care, and obeyed by every choice."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from revalued.acting.exploration import explore
from revalued.acting.policy import Policy
from revalued.actions import FactorisedActions
from revalued.config import Exploration, ExplorationConfig
from revalued.envs import EnvFault, read_mask
from revalued.native.choice import native_critics
from revalued.networks import NetworkShape, initialise

SIZES = (2, 3, 5)


@pytest.mark.parametrize(
    "offered",
    [
        [True, False, True, True, False],
        np.array([1, 0, 1, 1, 0], np.int8),
        [[True, False], [True, True, False]],
        (np.array([1, 0]), np.array([1, 1, 0])),
        np.array([[1, 0], [1, 1, 0]], object),
    ],
)
def test_flat_masks_and_one_vector_per_dimension_mean_the_same(offered: Any) -> None:
    assert read_mask({"action_mask": offered}, (2, 3)).tolist() == [True, False, True, True, False]


def test_dimensions_with_a_single_choice_are_not_taken_for_a_flat_mask() -> None:
    assert read_mask({"action_mask": [[1], [1]]}, (1, 1)).tolist() == [True, True]
    assert read_mask({"action_mask": [1, 1]}, (1, 1)).tolist() == [True, True]


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ({}, "there is no action_mask in info"),
        ({"action_mask": [1, 0, 1]}, r"of lengths \[2, 3\], or one flat vector of length 5, but its shape is \(3,\)"),
        ({"action_mask": [[1, 0], [1, 1]]}, r"but its shape is \[\(2,\), \(2,\)\]"),
        ({"action_mask": np.ones((2, 3))}, r"but its shape is \[\(3,\), \(3,\)\]"),
        ({"action_mask": 1}, "but it is 1"),
        ({"action_mask": []}, r"but it is \[\]"),
        ({"action_mask": [2, 0, 1, 1, 1]}, "nothing but True and False"),
        ({"action_mask": [0.5, 0, 1, 1, 1]}, "nothing but True and False"),
        ({"action_mask": [1, 1, 0, 0, 0]}, "leaves no legal choice in dimension 1"),
        ({"action_mask": [[0, 0], [1, 0, 0]]}, "leaves no legal choice in dimension 0"),
    ],
)
def test_other_masks_are_faults(info: dict[str, Any], message: str) -> None:
    with pytest.raises(EnvFault, match=message):
        read_mask(info, (2, 3))


def test_masks_are_spread_over_the_padded_choices() -> None:
    masks = np.array([[1, 0, 0, 1, 1], [0, 1, 1, 0, 0]], bool)
    assert FactorisedActions((2, 3)).legal(masks).tolist() == [
        [[True, False, False], [False, True, True]],
        [[False, True, False], [True, False, False]],
    ]


def test_a_combination_is_legal_if_all_its_sub_actions_are() -> None:
    rng = np.random.default_rng(0)
    space = FactorisedActions.atomic(SIZES)
    assert space.environment_sizes == FactorisedActions(SIZES).environment_sizes == SIZES
    masks = rng.random((6, sum(SIZES))) < 0.5
    legal = space.legal(masks)
    assert legal.shape == (6, 1, 30)
    for row, combination in itertools.product(range(6), range(30)):
        sub_actions = space.to_environment(np.array([[combination]]))[0]
        flat = [offset + choice for offset, choice in zip((0, 2, 5), sub_actions, strict=True)]
        assert legal[row, 0, combination] == masks[row, flat].all()


@pytest.mark.parametrize("atomic", [False, True])
def test_random_choices_are_uniform_over_the_legal_ones(atomic: bool) -> None:
    space = FactorisedActions.atomic((2, 3)) if atomic else FactorisedActions((2, 3))
    mask = np.array([[0, 1, 1, 0, 1]], bool)
    num_draws = 40_000
    draws = np.random.default_rng(0).random((num_draws, space.num_dimensions))
    legal = np.broadcast_to(space.legal(mask), (num_draws, *space.legal(mask).shape[1:]))
    actions = space.to_environment(space.uniform(draws, legal))
    assert set(map(tuple, actions.tolist())) == {(1, 0), (1, 2)}
    # 4 standard deviations of a fraction of 40,000 draws: 4 · sqrt(0.25 / 40,000) = 0.01
    assert abs((actions[:, 1] == 2).mean() - 0.5) < 0.01
    largest = np.full((1, space.num_dimensions), np.nextafter(1, 0))
    assert space.to_environment(space.uniform(largest, space.legal(mask))).tolist() == [[1, 2]]


def policy_for(space: FactorisedActions, seed: int = 0, critics: int = 3) -> Policy:
    shape = NetworkShape(4, 8, space, critics, "utilities")
    parameters = initialise(shape, torch.Generator().manual_seed(seed), torch.device("cpu"))
    return Policy(shape, parameters, None, native_critics("auto", shape, parameters))


def random_masks(num: int, seed: int) -> NDArray[np.bool_]:
    rng = np.random.default_rng(seed)
    masks = rng.random((num, sum(SIZES))) < 0.4
    for start, size in ((0, 2), (2, 3), (5, 5)):
        masks[np.arange(num), start + rng.integers(size, size=num)] = True
    return masks


def assert_legal(actions: NDArray[np.int64], masks: NDArray[np.bool_]) -> None:
    assert masks[np.arange(len(masks))[:, None], np.array([0, 2, 5]) + actions].all()


@pytest.mark.parametrize("exploration", ["joint", "per-dimension"])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("atomic", [False, True])
def test_no_choice_is_ever_illegal(exploration: Exploration, epsilon: float, atomic: bool) -> None:
    space = FactorisedActions.atomic(SIZES) if atomic else FactorisedActions(SIZES)
    policy = policy_for(space)
    config = ExplorationConfig(exploration)
    rng = np.random.default_rng(3)
    masks = random_masks(2000, seed=1)
    observations = rng.standard_normal((2000, 4), np.float32)
    assert_legal(space.to_environment(explore(policy, observations, config, epsilon, rng, masks).actions), masks)
    assert_legal(space.to_environment(policy.greedy(observations, masks)), masks)


def test_greedy_is_the_best_of_the_legal_choices() -> None:
    policy = policy_for(FactorisedActions(SIZES))
    observations = np.random.default_rng(0).standard_normal((50, 4), np.float32)
    masks = random_masks(50, seed=2)
    utilities = policy.utilities(observations).mean(dim=0).numpy()
    for row, action in enumerate(policy.greedy(observations, masks)):
        for dimension, (start, size) in enumerate(((0, 2), (2, 3), (5, 5))):
            own = [utilities[row, dimension, j] if masks[row, start + j] else -np.inf for j in range(size)]
            assert action[dimension] == np.argmax(own)


def test_masks_that_allow_everything_change_nothing() -> None:
    policy = policy_for(FactorisedActions(SIZES))
    observations = np.random.default_rng(0).standard_normal((500, 4), np.float32)
    config = ExplorationConfig()
    everything = np.ones((500, sum(SIZES)), bool)
    with_masks = explore(policy, observations, config, 0.5, np.random.default_rng(1), everything).actions
    assert with_masks.tolist() == explore(policy, observations, config, 0.5, np.random.default_rng(1)).actions.tolist()
