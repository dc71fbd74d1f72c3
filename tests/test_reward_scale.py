"""Scaled rewards: what is learnt is what an environment with such rewards would teach, and returns stay its own."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

from revalued import DecQN
from revalued.algorithms.presets import starting_config
from revalued.envs import LeverGame, TaskInfo
from revalued.errors import UserError
from revalued.replay import Replay
from revalued.run.load import load_run
from revalued.settings import Settings, configure
from revalued.training.build import agent_shape
from revalued.validation import validate
from run_helpers import newest

SMALL: Settings = {"hidden_size": 16, "warmup_env_steps": 50, "log_every": 10, "eval_every": 20, "threads": 1}
SCALE = 4.0
"""A power of two: what is multiplied by it is rounded as before."""


def levers() -> gymnasium.Env[np.ndarray, np.ndarray]:
    return LeverGame()


def scaled_levers() -> gymnasium.Env[np.ndarray, np.ndarray]:
    return gymnasium.wrappers.TransformReward(LeverGame(), lambda reward: SCALE * float(reward))


def test_the_replay_keeps_scaled_rewards() -> None:
    replay = Replay(
        capacity=40, num_lanes=1, observation_size=1, num_dimensions=1, n_step=2, discount=0.5, max_choices=2,
        reward_scale=10.0,
    )  # fmt: skip
    replay.begin(np.zeros((1, 1)))
    for reward in (1.0, 3.0, -2.0):
        replay.append([[0]], [reward], [False], [False], [[0.0]], [[0.0]])
    batch = replay.sample(64, np.random.default_rng(0))
    # 10 (1 + 3 / 2) and 10 (3 - 2 / 2)
    assert set(batch.returns.tolist()) == {25.0, 20.0}


def test_it_learns_the_bits_of_an_environment_with_such_rewards(tmp_path: Path) -> None:
    settings: Settings = {**SMALL, "normalise_observations": True}
    scaled: Settings = {**settings, "reward_scale": SCALE}
    by_setting = DecQN(levers, folder=tmp_path / "setting", **scaled).learn(400)
    by_env = DecQN(scaled_levers, folder=tmp_path / "env", **settings).learn(400)
    ours, theirs = newest(tmp_path / "setting").tensors, newest(tmp_path / "env").tensors
    weights = [name for name in ours if name.startswith("online.")]
    assert weights
    assert all(torch.equal(ours[name], theirs[name]) for name in weights)
    mine, yours = (load_run(tmp_path / name, env=levers).folder for name in ("setting", "env"))
    for row, other in zip(mine.eval_table.rows(), yours.eval_table.rows(), strict=True):
        assert SCALE * float(row["return"]) == pytest.approx(float(other["return"]))
    for row, other in zip(mine.metric_table.rows(), yours.metric_table.rows(), strict=True):
        assert row["mean_q"] == other["mean_q"]
        assert SCALE * float(row["train_return"]) == pytest.approx(float(other["train_return"]))
    observation = np.zeros(5, np.float32)
    np.testing.assert_array_equal(by_setting.utilities(observation).mean, by_env.utilities(observation).mean)


def test_atoms_reach_as_far_as_scaled_returns_do() -> None:
    task = TaskInfo(observation_size=3, sizes=(3, 3), reward_range=(0.0, 1.0), max_episode_steps=1000)
    config = configure("walker-walk", "decqn-c51", {"reward_scale": 0.1})
    assert agent_shape(config, task).support == (0.0, 10.0)
    given = configure("walker-walk", "decqn-c51", {"reward_scale": 0.1, "value_max": 7.0})
    assert agent_shape(given, task).support == (0.0, 7.0)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_a_scale_that_cannot_be_is_refused(scale: float) -> None:
    with pytest.raises(UserError, match=r"reward_scale = .* is not possible: it must be above 0"):
        validate(configure("walker-walk", "decqn", {"reward_scale": scale}))


def test_rewards_are_as_they_are_by_default() -> None:
    assert starting_config("walker-walk", "lean").learner.reward_scale == 1.0
