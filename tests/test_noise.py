"""Stochastic variants: Gaussian, a function of the episode's seed, and never in a reported return."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from revalued.envs import LeverGame, TaskSpec, make_env
from revalued.envs.noise import Noisy
from revalued.errors import UserError
from revalued.run.start import evaluate, resume, start
from run_helpers import assert_same_run, call, evolve, quick_config, rows, state_of, stop_after

ACTION = np.zeros(3, np.int64)


def play(env: Noisy | LeverGame, seed: int, steps: int = 10) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    observation, _ = env.reset(seed=seed)
    observations, rewards = [observation], []
    for _ in range(steps):
        observation, reward, *_ = env.step(ACTION)
        observations.append(observation)
        rewards.append(reward)
    return np.array(observations), np.array(rewards)


def test_noise_has_the_mean_and_the_spread_that_were_asked_for() -> None:
    exact = LeverGame(episode_steps=2000)
    noisy = Noisy(LeverGame(episode_steps=2000), reward_noise=0.1, state_noise=0.3)
    truth, rewards = play(exact, 7, 2000)
    seen, told = play(noisy, 7, 2000)
    assert seen.dtype == np.float32
    state_noise, reward_noise = (seen - truth).ravel(), told - rewards
    # 4 standard deviations: of a mean σ/sqrt(n), of a standard deviation σ/sqrt(2n)
    for noise, sigma in ((state_noise, 0.3), (reward_noise, 0.1)):
        assert abs(noise.mean()) < 4 * sigma / np.sqrt(len(noise))
        assert abs(noise.std() - sigma) < 4 * sigma / np.sqrt(2 * len(noise))
    # a Gaussian has 4.55% of its mass beyond two standard deviations; 10,005 draws know that to within 0.85%
    assert abs((np.abs(state_noise) > 0.6).mean() - 0.0455) < 0.0085
    # white: neighbours know nothing of each other
    assert abs(np.corrcoef(reward_noise[:-1], reward_noise[1:])[0, 1]) < 4 / np.sqrt(2000)


def test_an_episode_stays_a_function_of_its_seed() -> None:
    env = Noisy(LeverGame(), 0.1, 0.1)
    first = play(env, 3)
    other = play(env, 4)
    again, fresh = play(env, 3), play(Noisy(LeverGame(), 0.1, 0.1), 3)
    for repeated in (again, fresh):
        assert repeated[0].tobytes() == first[0].tobytes()
        assert repeated[1].tobytes() == first[1].tobytes()
    assert (other[0] != first[0]).all()


def test_either_noise_comes_alone() -> None:
    truth, rewards = play(LeverGame(), 5)
    seen, told = play(Noisy(LeverGame(), 0.1, 0.0), 5)
    assert seen.tobytes() == truth.tobytes()
    assert (told != rewards).all()
    seen, told = play(Noisy(LeverGame(), 0.0, 0.1), 5)
    assert (seen != truth).all()
    assert told.tobytes() == rewards.tobytes()


def test_the_true_reward_is_told_beside_the_noisy_one() -> None:
    exact, noisy = LeverGame(), Noisy(LeverGame(), 0.5, 0.0)
    exact.reset(seed=1)
    noisy.reset(seed=1)
    for _ in range(10):
        assert noisy.step(ACTION)[4]["revalued.true_reward"] == exact.step(ACTION)[1]


def test_noise_never_changes_what_happens() -> None:
    """The simulation gets the same actions and goes the same way; only what is seen of it differs."""
    exact, noisy = make_env(TaskSpec("walker-walk")), make_env(TaskSpec("walker-walk", state_noise=0.1))
    rng = np.random.default_rng(0)
    truth, seen = exact.reset(seed=2)[0], noisy.reset(seed=2)[0]
    for _ in range(50):
        assert 0.01 < np.abs(seen - truth).max() < 1.0
        action = rng.integers(3, size=6)
        truth, reward, *_ = exact.step(action)
        seen, same_reward, *_ = noisy.step(action)
        assert same_reward == reward


def test_without_noise_there_is_no_wrapper() -> None:
    assert not isinstance(make_env(TaskSpec("toy-levers")), Noisy)
    assert isinstance(make_env(TaskSpec("toy-levers", reward_noise=0.1)), Noisy)


@pytest.mark.parametrize("noise", [{"reward_noise": 0.1}, {"state_noise": 0.1}])
def test_noisy_runs_are_reproducible_and_resume_to_the_bit(noise: dict[str, Any], tmp_path: Path) -> None:
    config = quick_config("toy-levers", **noise)
    start(config, tmp_path / "whole")
    start(config, tmp_path / "resumed", should_stop=stop_after(37))
    resume(tmp_path / "resumed", workers=2)
    assert_same_run(tmp_path / "whole", tmp_path / "resumed")
    start(quick_config("toy-levers"), tmp_path / "exact")
    assert state_of(tmp_path / "exact")["replay.returns"] != state_of(tmp_path / "whole")["replay.returns"] or (
        state_of(tmp_path / "exact")["replay.observations"] != state_of(tmp_path / "whole")["replay.observations"]
    )


def test_reported_returns_are_without_noise(tmp_path: Path) -> None:
    """A return of the lever game is a sum of thirds; one with noise on it is not."""
    path, _ = start(quick_config("toy-levers", reward_noise=5.0), tmp_path / "run")
    returns = [float(row["return"]) for row in rows(path, "eval.csv")]
    returns += [episode.total_reward for episode in evaluate(path, 3, seed=0)]
    assert len(returns) == 6
    for total in returns:
        assert 3 * total == pytest.approx(round(3 * total), abs=1e-9)


def test_flags_reach_the_run(tmp_path: Path) -> None:
    words = ["--reward-noise", "0.1", "--state-noise", "0.2", "--env-steps", "50", "--quiet", "--out", "run"]
    finished = call("train", "toy-levers", *words, cwd=tmp_path)
    assert (finished.returncode, finished.stderr) == (0, "")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["reward_noise"], config["state_noise"]) == (0.1, 0.2)


@pytest.mark.parametrize("name", ["reward_noise", "state_noise"])
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
def test_impossible_noise_is_refused(name: str, value: float, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"{name} = .* is not possible: it must be at least 0"):
        start(evolve(quick_config("toy-levers"), **{name: value}), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
