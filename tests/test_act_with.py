"""Who chooses greedy actions in training: a critic per step, a critic per episode, or the ensemble's mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from revalued import REValueD
from revalued.acting.exploration import EpisodeCritics, explore
from revalued.acting.policy import Policy
from revalued.config import ActWith, ExplorationConfig
from revalued.envs import CountingEnv
from revalued.errors import UserError
from revalued.run.start import resume, start
from revalued.seeding import Stream, critic_of_episode, episode_seed, episode_stream
from revalued.validation import validate
from run_helpers import assert_same_run, evolve, quick_config, state_of, stop_after, train
from test_acting import observations, policy_with
from test_cluster_blocks import make_actor, plan_of, read, weights_of

CONFIG = quick_config("toy-counting", critics=4, act_with="critic-per-episode", epsilon_decay=0.99)


def exploration(act_with: ActWith) -> ExplorationConfig:
    return ExplorationConfig(act_with=act_with)


# Critic k prefers choice k, the fourth by so much that it is the mean's choice.
UTILITIES = torch.diag(torch.tensor([1.0, 1.0, 1.0, 9.0]))[:, None]


def test_every_way_to_choose_greedily() -> None:
    policy = policy_with(UTILITIES, (4,))
    named = np.array([2, 0, 3, 1, 2])

    def chosen(act_with: ActWith, critics: Any = None) -> list[int]:
        rng = np.random.default_rng(3)
        return explore(policy, observations(5), exploration(act_with), 0.0, rng, critics=critics).actions[:, 0].tolist()  # type: ignore[no-any-return]

    assert chosen("ensemble-mean") == [3] * 5
    assert chosen("critic-per-episode", named) == named.tolist()
    drawn = (np.random.default_rng(3).random(15)[:5] * 4).astype(int).tolist()
    assert chosen("critic-per-step") == drawn != named.tolist()


@pytest.mark.parametrize("act_with", ["critic-per-step", "critic-per-episode", "ensemble-mean"])
def test_the_same_lanes_explore_whoever_is_greedy(act_with: ActWith) -> None:
    policy = policy_with(torch.zeros(3, 2, 5), (5, 5))
    states = []
    ways: tuple[ActWith, ...] = ("critic-per-step", act_with)
    for way in ways:
        rng = np.random.default_rng(0)
        critics = np.zeros(1000, np.int64) if way == "critic-per-episode" else None
        actions = explore(policy, observations(1000), exploration(way), 0.5, rng, critics=critics).actions
        states.append((actions.tolist(), rng.random()))
    assert states[0] == states[1]  # all critics agree, so only explored actions differ from zero


def test_the_mean_respects_masks_and_padding() -> None:
    policy = policy_with(torch.tensor([[[1.0, 2, 9], [0, 5, 1]], [[1.0, 4, 9], [0, 5, 1]]]), (2, 3))
    masks = np.array([[True, True, True, True, True], [True, False, True, False, True]])
    rng = np.random.default_rng(0)
    config = exploration("ensemble-mean")
    assert explore(policy, observations(2), config, 0.0, rng, masks).actions.tolist() == [[1, 1], [0, 2]]
    assert (
        explore(policy, observations(1), config, 0.0, rng).actions.tolist()
        == [[1, 1]]
        == policy.greedy(observations(1)).tolist()
    )


def test_an_episodes_critic_follows_from_its_seed() -> None:
    lanes = range(3, 6)
    critics = EpisodeCritics(exploration("critic-per-episode"), 7, Stream.TRAINING, lanes)
    for episodes in ([0, 0, 0], [5, 0, 2], [5, 1, 2]):
        seeds = [episode_seed(7, Stream.TRAINING, lane, episode) for lane, episode in zip(lanes, episodes, strict=True)]
        found = critics(np.array(episodes), 10)
        assert found is not None
        assert found.tolist() == [critic_of_episode(seed, 10) for seed in seeds]
    assert EpisodeCritics(exploration("critic-per-step"), 7, Stream.TRAINING, lanes)(np.zeros(3, np.int64), 10) is None
    # uniform: the standard deviation of each frequency is √(0.25 · 0.75 / 4,000) = 0.007
    drawn = [critic_of_episode(seed, 4) for seed in range(4_000)]
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 4_000, 0.25, atol=0.025)


def test_a_run_keeps_its_critics_through_episodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Observations of the counting environment tell their episode's seed, and the critic follows from that."""
    config = evolve(CONFIG, epsilon_min=0.0, epsilon_decay=1e-9, env_steps=250)
    seeds = [episode_seed(0, Stream.TRAINING, lane, episode) for lane in range(5) for episode in range(40)]
    critic_by_fingerprint = {np.float32(CountingEnv.fingerprint(seed)): critic_of_episode(seed, 4) for seed in seeds}
    asked, original = [], Policy.greedy_of_critics

    def recorded(policy: Policy, seen: Any, critics: Any, legal: Any = None) -> Any:
        asked.append((seen[:, 0].copy(), critics.copy()))
        return original(policy, seen, critics, legal)

    monkeypatch.setattr(Policy, "greedy_of_critics", recorded)
    train(config, tmp_path / "run")
    assert len(asked) >= 45  # the first steps are all random
    for fingerprints, critics in asked:
        assert critics.tolist() == [critic_by_fingerprint[fingerprint] for fingerprint in fingerprints]
    assert len({tuple(critics) for _, critics in asked}) > 5


@pytest.mark.parametrize("incarnation", [0, 1])
def test_an_actor_keeps_its_critics_through_episodes(incarnation: int) -> None:
    config = evolve(CONFIG, epsilon_min=0.0, epsilon_decay=1e-9, num_envs=2, critics=3)
    plan = plan_of(config)
    weights = {name: np.zeros_like(array) for name, array in weights_of(plan).items()}
    for critic in range(3):  # of the second dimension, critic k prefers choice k
        weights["online.head.bias"][critic, 0, 3 + critic] = 1.0
    actor = make_actor(plan, 1, incarnation)
    block = read(plan, actor.collect(weights, 0, 3, 100, 60), num_steps=60, incarnation=incarnation)
    episodes = np.zeros(2, int)
    for step in range(60):
        seeds = [episode_seed(0, episode_stream(incarnation), 2 + lane, int(episodes[lane])) for lane in range(2)]
        assert block.actions[step, :, 1].tolist() == [critic_of_episode(seed, 3) for seed in seeds]
        episodes += block.ended[step]
    assert episodes.min() > 3


@pytest.mark.parametrize("act_with", ["critic-per-episode", "ensemble-mean"])
def test_resumed_and_with_workers_equals_uninterrupted(act_with: ActWith, tmp_path: Path) -> None:
    config = evolve(CONFIG, act_with=act_with)
    expected = train(config, tmp_path / "expected")
    for number, cycles in enumerate((3, 33, 52)):
        path = tmp_path / f"run{number}"
        assert not start(config, path, should_stop=stop_after(cycles))[1].finished
        assert resume(path, workers=number).finished
        assert_same_run(expected, path)
    other = state_of(train(evolve(CONFIG, act_with="critic-per-step"), tmp_path / "other"))
    assert other["lanes.actions"] != state_of(expected)["lanes.actions"]


def test_one_critic_per_episode_of_one_is_refused() -> None:
    with pytest.raises(UserError, match="act_with = critic-per-episode is not possible: with one critic"):
        validate(evolve(CONFIG, critics=1))
    validate(evolve(CONFIG, critics=1, act_with="ensemble-mean"))
    with pytest.raises(UserError, match="act_with"):
        REValueD("toy-levers", act_with="nobody")  # type: ignore[arg-type]
