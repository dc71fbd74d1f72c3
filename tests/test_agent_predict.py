"""Asking an agent: every form of observation and action, masks, utilities, and Stable-Baselines3 as a client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from gym_envs import Kitchen
from revalued import Agent, DecQN, REValueD, UserError
from revalued.envs import LeverGame, MaskedLevers
from test_agent import agent


class Echo(gymnasium.Env[Any, Any]):
    """Has the spaces it is given, and shows random observations."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        return self.observation_space.sample(), 0.0, False, False, {}


NUMBERS = spaces.Box(-1, 1, (2, 2), np.float32)


@pytest.mark.parametrize(
    "action_space",
    [
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete([2, 4], start=[5, 0]),
        spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])),
        spaces.MultiBinary(3),
        spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, 5.0]), dtype=np.float64),
        spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(0, 1, (1,))}),
    ],
    ids=str,
)
def test_actions_have_the_environments_own_form(action_space: spaces.Space[Any]) -> None:
    one = agent(lambda: Echo(NUMBERS, action_space))
    assert (one.observation_space, one.action_space) == (NUMBERS, action_space)
    batch = np.stack([NUMBERS.sample() for _ in range(4)])
    for deterministic in (True, False):
        action, state = one.predict(batch[0], deterministic=deterministic)
        assert action_space.contains(action)
        assert state is None
        actions, _ = one.predict(batch, deterministic=deterministic)
        assert len(actions) == 4
        assert all(action_space.contains(each) for each in actions)


@pytest.mark.parametrize(
    "space",
    [
        NUMBERS,
        spaces.Discrete(4, start=2),
        spaces.MultiDiscrete([3, 2]),
        spaces.MultiBinary(3),
        spaces.Dict({"x": NUMBERS, "y": spaces.Tuple([spaces.Discrete(2), spaces.MultiBinary(1)])}),
        spaces.Tuple([spaces.Discrete(2), NUMBERS]),
    ],
    ids=str,
)
def test_a_batch_is_its_observations(space: spaces.Space[Any]) -> None:
    one = agent(lambda: Echo(space, spaces.MultiDiscrete([3, 2])))
    singles = [space.sample() for _ in range(3)]
    room: Any = gymnasium.vector.utils.create_empty_array(space, 3)
    batch = gymnasium.vector.utils.concatenate(space, singles, room)
    together, apart = one.utilities(batch), [one.utilities(single) for single in singles]
    assert together.mean.shape == (3, 2, 3)
    np.testing.assert_allclose(together.all, np.stack([each.all for each in apart], axis=1), rtol=1e-5, atol=1e-6)
    assert one.predict(batch)[0].tolist() == [one.predict(single)[0].tolist() for single in singles]


def test_utilities_are_the_ensembles(tmp_path: Path) -> None:
    one = agent(lambda: LeverGame((2, 4, 3)), critics=3)
    observation = np.array([0, 1, 0, 0, 1], np.float32)
    found = one.utilities(observation)
    raw = one._acting().policy.utilities(observation[None])[:, 0].numpy()
    for dimension, size in enumerate((2, 4, 3)):
        assert np.isnan(found.all[:, dimension, size:]).all()
        for choice in range(size):
            critics = [raw[k, dimension, choice] for k in range(3)]
            assert found.all[:, dimension, choice].tolist() == critics
            mean = sum(critics) / 3
            assert found.mean[dimension, choice] == pytest.approx(mean, rel=1e-5)
            variance = sum((value - mean) ** 2 for value in critics) / 3
            assert found.spread[dimension, choice] == pytest.approx(variance**0.5, rel=1e-4)
    assert one.predict(observation)[0].tolist() == np.nanargmax(found.mean, axis=-1).tolist()
    assert DecQN("toy-levers", hidden_size=8).utilities(observation).spread[0, 0] == 0
    atomic = Agent("toy-levers", "dqn", hidden_size=8)
    assert atomic.utilities(observation).mean.shape == (1, 2 * 3 * 5)
    assert atomic.action_space.contains(atomic.predict(observation)[0])


def test_prediction_that_is_not_deterministic_explores_as_in_training() -> None:
    """With ε = 1/2 a greedy choice stays in half of the cases, and in one of 30 of the others."""
    observation = np.array([0, 1, 0, 0, 1], np.float32)
    one = agent("toy-levers", "decqn", epsilon_min=0.5, epsilon_decay=0.9).learn(50)
    greedy, _ = one.predict(observation)
    drawn, _ = one.predict(np.stack([observation] * 4000), deterministic=False)
    kept = (drawn == greedy).all(axis=1).mean()
    expected = 0.5 + 0.5 / 30
    assert kept == pytest.approx(expected, abs=4 * (expected * (1 - expected) / 4000) ** 0.5)
    fresh = agent("toy-levers", "decqn", epsilon_min=0.0)
    drawn, _ = fresh.predict(np.stack([observation] * 4000), deterministic=False)
    assert len(np.unique(drawn, axis=0)) == 30, "before the first interaction, ε is 1"


def test_masks() -> None:
    one = agent(lambda: MaskedLevers((2, 3)), "decqn")
    env = one.make_env()
    observation, info = env.reset(seed=0)
    for mask in ([0, 1, 0, 0, 1], [[0, 1], [0, 0, 1]], info["action_mask"]):
        assert one.predict(observation, action_masks=mask)[0].shape == (2,)
    only = [False, True, False, False, True]
    batch, masks = np.stack([observation] * 50), np.array([only] * 50)
    for deterministic in (True, False):
        actions, _ = one.predict(batch, deterministic=deterministic, action_masks=masks)
        assert (actions == [1, 2]).all()
    for wrong, message in (
        ([True] * 4, r"flat vector of length 5, but its shape is \(4,\)"),
        ([[True], [True] * 3], "one vector per dimension"),
        ([True, True, False, False, False], "no legal choice in dimension 1"),
        ([2, 1, 1, 1, 1], "nothing but True and False"),
        (7, "must be one vector per dimension"),
    ):
        with pytest.raises(UserError, match=message):
            one.predict(observation, action_masks=wrong)
    with pytest.raises(UserError, match="2 action masks for 50 observations"):
        one.predict(batch, action_masks=masks[:2])
    with pytest.raises(UserError, match="one mask for each of 50"):
        one.predict(batch, action_masks=3)


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (np.zeros(4, np.float32), r"shape \(4,\) instead of \(5,\), or \(B, 5\) for a batch"),
        (np.zeros((2, 3, 5)), "for a batch"),
        (np.zeros((0, 5)), "for a batch"),
        (0.5, "for a batch"),
        (np.array([0, 1, np.nan, 0, 1]), "entry 2 of the observation is nan"),
        (np.array([[0, 1, 0, 0, 1], [0, 1, 0, np.inf, 1]]), "entry 3 of the observation number 1 is inf"),
        (["a", "b", "c", "d", "e"], "instead of numbers"),
        ([[0.0, 1.0], [0.0]], "no array of shape"),
        (None, "instead of numbers"),
        ({"x": 1}, "instead of numbers"),
        (np.zeros(5, np.complex64), "holds complex64 instead of numbers"),
    ],
)
def test_observations_that_are_none(observation: Any, message: str) -> None:
    one = agent("toy-levers")
    for ask in (one.predict, one.utilities):
        with pytest.raises(UserError, match=message):
            ask(observation)


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        ({"order": 1}, "dictionary with the entries"),
        ({"order": 1, "clock": [[0.0]], "more": 1}, "dictionary with the entries"),
        ({"order": [1, 2], "clock": [[0.0]]}, "batches of different sizes"),
        ({"order": 4, "clock": [[0.0]]}, "not in its space"),
        ({"order": 1, "clock": [0.0, 1.0]}, r"\['clock'\] has shape"),
        ([1, [[0.0]]], "dictionary with the entries"),
    ],
)
def test_nested_observations_that_are_none(observation: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        agent(Kitchen).predict(observation)


def test_tensors_are_observations_too() -> None:
    one = agent("toy-levers")
    plain = np.array([0, 1, 0, 0, 1], np.float32)
    assert one.predict(torch.tensor(plain))[0].tolist() == one.predict(plain.tolist())[0].tolist()


@pytest.mark.parametrize(
    ("task", "env_id"),
    [
        ("gym:CartPole-v1", "CartPole-v1"),
        ("gym:Pendulum-v1", "Pendulum-v1"),
        ("toy-levers", "revalued/toy-levers-v0"),
        ("gym:revalued/toy-levers-v0", "revalued/toy-levers-v0"),
    ],
)
def test_stable_baselines3_evaluates_it(task: str, env_id: str) -> None:
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv

    one = agent(task)
    returns, lengths = evaluate_policy(one, Monitor(gymnasium.make(env_id)), 2, return_episode_rewards=True)
    assert len(np.atleast_1d(returns)) == len(np.atleast_1d(lengths)) == 2
    both = DummyVecEnv([lambda: Monitor(one.make_env()), lambda: Monitor(one.make_env())])
    mean, _ = evaluate_policy(one, both, 2, deterministic=False)
    assert np.isfinite(mean)


@pytest.mark.slow
def test_what_it_learnt_is_what_stable_baselines3_sees() -> None:
    """A trained agent scores the same there as in its own test episodes: no action is lost in translation."""
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor

    one = REValueD(LeverGame, critics=2, hidden_size=64, batch_size=64, warmup_env_steps=200, learning_rate=3e-3,
                   epsilon_decay=0.998, threads=1, device="cpu", eval_every=10_000)  # fmt: skip
    one.learn(2_500)
    own = np.mean([episode.total_reward for episode in one.evaluate(5)])
    mean, _ = evaluate_policy(one, Monitor(LeverGame()), 5)
    assert own > 7
    assert isinstance(mean, float)
    assert mean > 7
