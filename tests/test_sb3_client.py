"""Stable-Baselines3 as a client of our registered environments."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import revalued  # noqa: F401 - registers the ids

stable_baselines3 = pytest.importorskip("stable_baselines3")


@pytest.mark.parametrize(("name", "episode_steps"), [("cartpole-balance", 1000), ("toy-levers", 10)])
@pytest.mark.filterwarnings("ignore::UserWarning:stable_baselines3")
def test_ppo_trains_and_is_evaluated(name: str, episode_steps: int) -> None:
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor

    env = Monitor(gymnasium.make(f"revalued/{name}-v0", bins=3))
    model = stable_baselines3.PPO("MlpPolicy", env, n_steps=64, batch_size=32, n_epochs=1, seed=0, device="cpu")
    before = [parameter.detach().clone() for parameter in model.policy.parameters()]
    model.learn(128)
    after = list(model.policy.parameters())
    assert any(not np.array_equal(old.numpy(), new.detach().numpy()) for old, new in zip(before, after, strict=True))
    returns, lengths = evaluate_policy(model, env, n_eval_episodes=2, return_episode_rewards=True)
    assert lengths == [episode_steps, episode_steps]
    assert all(0 <= total <= episode_steps for total in np.atleast_1d(returns))
