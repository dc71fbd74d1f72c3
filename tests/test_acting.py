"""Exploration and greedy choices: frequencies against computed expectations, with fixed seeds and stated tolerances."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from revalued.acting.exploration import epsilon_at, explore
from revalued.acting.policy import Policy
from revalued.actions import FactorisedActions
from revalued.config import Exploration, ExplorationConfig
from revalued.native.choice import native_critics
from revalued.networks import NetworkShape, initialise

LANES = 20_000
CONFIG = ExplorationConfig()


def policy_with(utilities: Tensor, sizes: tuple[int, ...], support: Tensor | None = None) -> Policy:
    """Return a policy whose critics predict these numbers [K, N, A] (logits [K, N, A, Z]) whatever they observe."""
    head = "utilities" if support is None else "categorical"
    atoms = 1 if support is None else len(support)
    shape = NetworkShape(1, 2, FactorisedActions(sizes), len(utilities), head, atoms)  # type: ignore[arg-type]
    parameters = initialise(shape, torch.Generator().manual_seed(0), torch.device("cpu"))
    parameters["head.weight"].zero_()
    parameters["head.bias"].copy_(utilities.reshape(len(utilities), 1, -1))
    return Policy(shape, parameters, support, native_critics("auto", shape, parameters))


def observations(lanes: int = LANES) -> NDArray[np.float32]:
    return np.linspace(-1, 1, lanes, dtype=np.float32)[:, None]


def test_epsilon_decays_to_its_minimum() -> None:
    config = ExplorationConfig()
    assert epsilon_at(config, 0) == 1.0
    assert epsilon_at(config, 1) == 0.99995
    # 10,000 · ln 0.99995 = −0.5000125, e^−0.5000125 = 0.6065231
    assert epsilon_at(config, 10_000) == pytest.approx(0.6065231, abs=1e-7)
    # ln 0.05 / ln 0.99995 = 59,913.15
    assert epsilon_at(config, 59_913) == pytest.approx(0.0500004, abs=1e-7)
    assert epsilon_at(config, 59_914) == 0.05
    assert epsilon_at(config, 10**9) == 0.05
    assert epsilon_at(ExplorationConfig(epsilon_min=0.2, epsilon_decay=0.5), 2) == 0.25
    assert epsilon_at(ExplorationConfig(epsilon_min=0.2, epsilon_decay=0.5), 3) == 0.2
    assert epsilon_at(ExplorationConfig(epsilon_min=0.0, epsilon_decay=1.0), 10**9) == 1.0


def deviations(exploration: Exploration) -> NDArray[np.bool_]:
    """Return [L, N], where actions of dimensions with 3, 2 and 4 choices differ from the greedy one at ε = 0.3."""
    greedy = [2, 0, 3]
    utilities = torch.nn.functional.one_hot(torch.tensor(greedy), 4).float()[None]
    config = ExplorationConfig(exploration)
    policy = policy_with(utilities, (3, 2, 4))
    actions = explore(policy, observations(), config, 0.3, np.random.default_rng(0)).actions
    assert (actions < [3, 2, 4]).all()
    differs: NDArray[np.bool_] = actions != np.array(greedy)
    return differs


# In the tests below the standard deviation of a frequency is at most √(0.25/20,000) = 0.0035; three and a half of them
# make the tolerance.
def test_joint_exploration_makes_the_whole_action_random() -> None:
    deviates = deviations("joint")
    # ε · (1 − 1/n): 0.3 · 2/3, 0.3 · 1/2, 0.3 · 3/4
    np.testing.assert_allclose(deviates.mean(axis=0), [0.2, 0.15, 0.225], atol=0.0125)
    # a random action is the greedy one in 1 of 24 cases: 0.3 · 23/24
    assert deviates.any(axis=1).mean() == pytest.approx(0.2875, abs=0.0125)
    # all dimensions together: 0.3 · 2/3 · 1/2 · 3/4
    assert deviates.all(axis=1).mean() == pytest.approx(0.075, abs=0.0125)


def test_per_dimension_exploration_draws_each_dimension_by_itself() -> None:
    deviates = deviations("per-dimension")
    np.testing.assert_allclose(deviates.mean(axis=0), [0.2, 0.15, 0.225], atol=0.0125)
    # 1 − 0.8 · 0.85 · 0.775 and 0.2 · 0.15 · 0.225
    assert deviates.any(axis=1).mean() == pytest.approx(0.473, abs=0.0125)
    assert deviates.all(axis=1).mean() == pytest.approx(0.00675, abs=0.0025)


@pytest.mark.parametrize("exploration", ["joint", "per-dimension"])
def test_random_actions_are_uniform_and_never_padding(exploration: Exploration) -> None:
    utilities = torch.zeros(1, 3, 4).masked_fill(torch.from_numpy(~FactorisedActions((3, 2, 4)).exists), 1e9)
    policy = policy_with(utilities, (3, 2, 4))
    config = ExplorationConfig(exploration)
    actions = explore(policy, observations(), config, 1.0, np.random.default_rng(1)).actions
    index = np.ravel_multi_index(tuple(actions.T), (3, 2, 4))
    # all 24 combinations; the standard deviation of each is √(1/24 · 23/24 / 20,000) = 0.0014
    np.testing.assert_allclose(np.bincount(index, minlength=24) / LANES, 1 / 24, atol=0.006)


def test_every_lane_draws_its_own_critic_for_the_whole_action() -> None:
    # critic k prefers choice k of the first dimension and 3 − k of the second
    utilities = torch.stack([torch.eye(4), torch.eye(4).flip(0)], dim=1)
    policy = policy_with(utilities, (4, 4))
    actions = explore(policy, observations(), CONFIG, 0.0, np.random.default_rng(0)).actions
    assert (actions.sum(axis=1) == 3).all()
    np.testing.assert_allclose(np.bincount(actions[:, 0], minlength=4) / LANES, 0.25, atol=0.0125)
    # from one lane to the next the draws are independent: equal in one of four cases
    assert (actions[1:, 0] == actions[:-1, 0]).mean() == pytest.approx(0.25, abs=0.0125)
    # and they change from step to step
    rng = np.random.default_rng(0)
    steps = [explore(policy, observations(1), CONFIG, 0.0, rng).actions[0, 0] for _ in range(50)]
    assert set(steps) == {0, 1, 2, 3}


def test_the_greedy_action_follows_the_ensembles_mean() -> None:
    # two of three critics prefer choice 0, but the mean is (2, 3, 1)/3; in the second dimension it is (0, 1, 3)/3
    utilities = torch.tensor([[[1.0, 0, 0], [0, 1, 0]], [[1, 0, 0], [0, 0, 1]], [[0, 3, 1], [0, 0, 2]]])
    policy = policy_with(utilities, (3, 3))
    assert policy.greedy(observations(4)).tolist() == [[1, 2]] * 4
    critics = np.array([0, 1, 2, 0])
    assert policy.greedy_of_critics(observations(4), critics).tolist() == [[0, 1], [0, 2], [1, 2], [0, 1]]


def test_padding_is_never_greedy() -> None:
    padding = torch.from_numpy(~FactorisedActions((1, 3, 2)).exists)
    utilities = torch.tensor([[[-5.0, 0, 0], [1, 0, 2], [-2, -1, 0]]]).repeat(2, 1, 1).masked_fill(padding, 1e9)
    policy = policy_with(utilities, (1, 3, 2))
    assert policy.greedy(observations(2)).tolist() == [[0, 2, 1]] * 2
    assert explore(policy, observations(2), CONFIG, 0.0, np.random.default_rng(0)).actions.tolist() == [[0, 2, 1]] * 2


def test_a_categorical_policy_compares_expected_values() -> None:
    # atoms 0, 1, 10; choice 0 is mostly 1, choice 1 is mostly 0 but sometimes 10, padding would be 10 for sure
    chances = torch.tensor([[[0.05, 0.9, 0.05], [0.7, 0.1, 0.2], [0.01, 0.01, 0.98]]]).repeat(2, 1, 1)[None]
    support = torch.tensor([0.0, 1.0, 10.0])
    policy = policy_with(chances.log(), (2, 3), support)
    # 0.9 + 0.5 = 1.4; 0.1 + 2 = 2.1; 0.01 + 9.8 = 9.81
    found = policy.utilities(observations(1))[0, 0]
    torch.testing.assert_close(found, torch.tensor([[1.4, 2.1, 9.81]] * 2))
    assert policy.greedy(observations(1)).tolist() == [[1, 2]]


def test_a_categorical_ensemble_averages_expected_values() -> None:
    # expected values 0.9 and 0.5 in one critic, 0.2 and 0.5 in the other: means 0.55 and 0.5
    chances = torch.tensor([[[[0.1, 0.9], [0.5, 0.5]]], [[[0.8, 0.2], [0.5, 0.5]]]])
    policy = policy_with(chances.log(), (2,), torch.tensor([0.0, 1.0]))
    assert policy.greedy(observations(1)).tolist() == [[0]]
    assert policy.greedy_of_critics(observations(2), np.array([0, 1])).tolist() == [[0], [1]]


@pytest.mark.parametrize("exploration", ["joint", "per-dimension"])
@pytest.mark.parametrize("critics", [1, 3])
def test_the_amount_of_randomness_drawn_does_not_depend_on_what_comes_of_it(
    exploration: Exploration, critics: int
) -> None:
    after = []
    for epsilon, filling in itertools.product((0.0, 0.4, 1.0), (0.0, 1.0)):
        utilities = torch.full((critics, 2, 3), filling)
        utilities[..., 1] = 0.5
        config = ExplorationConfig(exploration)
        rng = np.random.default_rng(0)
        for _ in range(3):
            explore(policy_with(utilities, (3, 3)), observations(5), config, epsilon, rng)
        after.append(str(rng.bit_generator.state))
    assert len(set(after)) == 1


def test_the_greedy_part_does_not_change_with_epsilon() -> None:
    # with the same random numbers, a lane that does not explore takes the same critic's choice at any ε
    policy = policy_with(torch.eye(3)[:, None], (3,))
    taken = [
        explore(policy, observations(), CONFIG, epsilon, np.random.default_rng(0)).actions[:, 0]
        for epsilon in (0.0, 0.1, 0.6)
    ]
    # ε · 2/3 of the lanes differ from ε = 0; those that differ at 0.1 take the same random action at 0.6
    assert (taken[1] != taken[0]).mean() == pytest.approx(0.0667, abs=0.0125)
    assert (taken[2] != taken[0]).mean() == pytest.approx(0.4, abs=0.0125)
    differs = taken[1] != taken[0]
    assert (taken[2][differs] == taken[1][differs]).all()
