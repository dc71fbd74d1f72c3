"""What is recorded along an episode, against numbers worked out by hand and loops that are slow and obvious."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from export_helpers import random_masks, random_policy
from revalued.acting.normalisation import ObservationNormaliser
from revalued.acting.policy import Policy
from revalued.actions import FactorisedActions
from revalued.envs import LeverGame, MaskedLevers
from revalued.envs.repeat import Repeated
from revalued.report.inspection.episode import judge, record_episode
from revalued.training.evaluation import greedy_episodes

ZERO = np.zeros((1, 7), np.float32)


class Opinionated(Policy):
    """Says what it is told to say."""

    def __init__(self, actions: FactorisedActions, said: list[object]) -> None:
        policy = random_policy(actions, critics=len(said))
        super().__init__(policy.shape, policy.parameters, policy.support, policy.critics)
        self._said = torch.tensor(said)

    def utilities(self, observations: NDArray[np.float32]) -> Tensor:
        return self._said


def test_means_deviations_values_and_agreement_by_hand() -> None:
    # two critics, one state, dimensions with 2 and 3 choices; 99 is padding
    said: list[object] = [[[[1.0, 3.0, 99.0], [0.0, 4.0, 2.0]]], [[[5.0, 1.0, 99.0], [0.0, 2.0, 8.0]]]]
    judgement = judge(Opinionated(FactorisedActions((2, 3)), said), ZERO, np.array([[0, 2]]))
    np.testing.assert_allclose(judgement.utilities, [[[3.0, 2.0, np.nan], [0.0, 3.0, 5.0]]])
    np.testing.assert_allclose(judgement.spread, [[[2.0, 1.0, np.nan], [0.0, 1.0, 3.0]]])
    # the action taken is (0, 2): critic 0 values it (1 + 2) / 2, critic 1 (5 + 8) / 2
    np.testing.assert_allclose(judgement.q_values, [[1.5, 6.5]])
    # critic 0 would choose (1, 1), critic 1 (0, 2)
    np.testing.assert_allclose(judgement.agreement, [[0.5, 0.5]])


def test_a_sum_decomposition_adds_up() -> None:
    said: list[object] = [[[[1.0, 3.0], [0.0, 4.0]]]]
    judgement = judge(Opinionated(FactorisedActions((2, 2)), said), ZERO, np.array([[1, 1]]), decomposition="sum")
    np.testing.assert_allclose(judgement.q_values, [[7.0]])
    np.testing.assert_allclose(judgement.spread, np.zeros((1, 2, 2)))


def test_a_combination_s_value_is_told_per_sub_action() -> None:
    sizes = (2, 3, 2)
    policy = random_policy(FactorisedActions.atomic(sizes), critics=3)
    rng = np.random.default_rng(0)
    observations = rng.standard_normal((5, 7)).astype(np.float32)
    masks = random_masks(sizes, 5, rng)
    actions = policy.greedy(observations, masks)
    judgement = judge(policy, observations, actions, masks)
    mean = policy.utilities(observations).mean(dim=0).numpy()[:, 0]
    legal = policy.shape.actions.legal(masks)[:, 0]
    for row, dimension, choice in itertools.product(range(5), range(3), range(3)):
        found = [
            mean[row, number]
            for number, combination in enumerate(itertools.product(*map(range, sizes)))
            if combination[dimension] == choice and legal[row, number]
        ]
        expected = max(found) if found else np.nan
        np.testing.assert_allclose(judgement.utilities[row, dimension, choice], expected, rtol=1e-6)
    taken = policy.shape.actions.to_environment(actions)
    assert np.array_equal(np.nanargmax(judgement.utilities, axis=2), taken)
    assert judgement.agreement.shape == (5, 3)


@pytest.mark.parametrize("head", ["utilities", "dueling", "categorical"])
def test_blocks_change_nothing(head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = (2, 4)
    policy = random_policy(FactorisedActions(sizes), critics=3, head=head)
    rng = np.random.default_rng(0)
    observations, masks = rng.standard_normal((50, 7)).astype(np.float32), random_masks(sizes, 50, rng)
    actions = policy.greedy(observations, masks)
    whole = judge(policy, observations, actions, masks)
    monkeypatch.setattr("revalued.report.inspection.episode._MAX_ENTRIES", 300)
    parts = judge(policy, observations, actions, masks)
    for name in ("utilities", "spread", "q_values", "agreement"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-4, atol=1e-6)
    assert np.array_equal(np.nanargmax(whole.utilities, axis=2), actions)
    assert np.array_equal(~np.isnan(whole.utilities), policy.shape.actions.legal(masks))


def test_normalised_observations_and_repeated_actions_are_those_of_evaluation() -> None:
    env = Repeated(LeverGame((2, 3, 4), num_colours=3, episode_steps=9), 2)
    shape = env.observation_space.shape
    assert shape is not None
    policy = random_policy(FactorisedActions((2, 3, 4)), critics=3, observation_size=shape[0])
    raw = record_episode(env, policy, seed=5)
    policy.normaliser = ObservationNormaliser(shape[0])
    policy.normaliser.observe(np.random.default_rng(0).normal(3.0, 0.1, (50, shape[0])).astype(np.float32))
    record = record_episode(env, policy, seed=5)
    assert record.actions.tolist() == policy.greedy(record.observations).tolist()
    assert record.actions.tolist() != raw.actions.tolist()
    (outcome,) = greedy_episodes(env, policy, [5])
    assert record.outcome == outcome
    assert (outcome.length, len(record.actions)) == (9, 5)


def test_an_episode_is_the_one_that_evaluation_plays() -> None:
    env = LeverGame((2, 3, 4), num_colours=3)
    assert env.observation_space.shape is not None
    policy = random_policy(FactorisedActions((2, 3, 4)), critics=3, observation_size=env.observation_space.shape[0])
    seen: list[float] = []
    record = record_episode(env, policy, seed=5, watch=seen.append)
    (outcome,) = greedy_episodes(env, policy, [5])
    assert record.outcome == outcome
    assert record.masks is None
    assert len(record.actions) == len(record.rewards) == len(record.observations) == outcome.length
    assert record.rewards.sum() == pytest.approx(outcome.total_reward)
    assert len(seen) == outcome.length + 1
    observation, _ = env.reset(seed=5)
    for step, action in enumerate(record.actions):
        assert np.array_equal(record.observations[step], observation)
        observation, reward, *_ = env.step(action)
        assert record.rewards[step] == pytest.approx(reward)


def test_masks_are_kept_with_their_steps() -> None:
    sizes = (2, 3, 5)
    env = MaskedLevers(sizes, strict=True)
    policy = random_policy(FactorisedActions(sizes), observation_size=11)
    record = record_episode(env, policy, seed=1)
    assert record.masks is not None
    assert np.array_equal(record.masks, record.observations[:, :10].astype(bool))  # the observation shows the mask
    assert np.isnan(record.judgement.utilities[:, 2][~record.masks[:, 5:]]).all()
