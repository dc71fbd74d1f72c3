"""The masked levers and the tabular FMDP keep their promises."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from gymnasium import error

from revalued.envs import MaskedLevers, TabularFMDP
from revalued.run.start import evaluate, start
from run_helpers import quick_config


def test_the_best_return_is_what_the_highest_free_positions_pay() -> None:
    env = MaskedLevers((2, 3), episode_steps=6, strict=True)
    for seed in range(20):
        observation, info = env.reset(seed=seed)
        promised, total, terminated = env.best_return, 0.0, False
        while not terminated:
            mask = info["action_mask"]
            assert mask.tolist() == (observation[:-1] == 1).tolist()
            action = np.array([np.flatnonzero(mask[:2]).max(), np.flatnonzero(mask[2:]).max()])
            observation, reward, terminated, truncated, info = env.step(action)
            total += reward
            assert not truncated
        assert total == pytest.approx(promised)
        assert observation[-1] == 0


def test_no_choice_of_actions_pays_more_than_the_best_return() -> None:
    env = MaskedLevers((2, 2), episode_steps=2)
    for seed in range(5):
        totals = []
        for plan in itertools.product(itertools.product(range(2), repeat=2), repeat=2):
            env.reset(seed=seed)
            totals.append(sum(env.step(np.array(action))[1] for action in plan))
        assert max(totals) == pytest.approx(env.best_return)


def test_a_blocked_position_is_fined_or_forbidden() -> None:
    for strict in (False, True):
        env = MaskedLevers((4,), strict=strict)
        _, info = env.reset(seed=0)
        assert not info["action_mask"].all()
        blocked = np.array([np.argmin(info["action_mask"])])
        if strict:
            with pytest.raises(ValueError, match="illegal in step 1"):
                env.step(blocked)
        else:
            assert env.step(blocked)[1] == -1.0


def test_only_the_rewarded_combination_is_rewarded() -> None:
    env = TabularFMDP(num_dimensions=3, num_choices=4)
    rewards = []
    for action in itertools.product(range(4), repeat=3):
        observation, _ = env.reset()
        assert observation.tolist() == [1.0]
        _, reward, terminated, truncated, _ = env.step(np.array(action))
        assert terminated
        assert not truncated
        rewards.append(reward)
    assert rewards == [env.optimal_return] + [-1.0] * 63
    assert np.mean(rewards) == 2 / 4**3 - 1
    with pytest.raises(error.ResetNeeded):
        env.step(np.zeros(3, np.int64))


def test_the_tabular_fmdp_is_solved(tmp_path: Path) -> None:
    make = partial(TabularFMDP, num_dimensions=2, num_choices=3)
    config = quick_config("custom:fmdp", "decqn", env_steps=3000, learning_rate=3e-3, epsilon_decay=0.999, n_step=1)
    path, outcome = start(config, tmp_path / "run", env=make)
    assert outcome.summary["final_return"] == 1.0
    assert next(evaluate(path, 1, 0, env=make)).length == 1
