"""The toy environments keep the promises that other tests build on."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from revalued.envs import CountingEnv, LeverGame


@pytest.mark.parametrize("make", [LeverGame, CountingEnv])
def test_gymnasium_finds_nothing_to_complain_about(make: type[LeverGame | CountingEnv]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # A render mode can only be tried on registered environments, and there is none to try.
        check_env(make(), skip_render_check=True)


def test_the_lever_game_pays_its_optimal_return_to_whoever_reads_the_colour() -> None:
    game = LeverGame(sizes=(2, 3, 5), num_colours=4, episode_steps=6)
    observation, _ = game.reset(seed=3)
    total, ends = 0.0, []
    for _ in range(6):
        colour = int(np.argmax(observation[:4]))
        # The rule of the docstring, in numbers: colour 3 asks for positions 3 mod 2, 4 mod 3, 5 mod 5.
        levers = np.array([colour % 2, (colour + 1) % 3, (colour + 2) % 5])
        observation, reward, terminated, truncated, _ = game.step(levers)
        total += reward
        ends.append((terminated, truncated))
    assert total == game.optimal_return == 6.0
    assert ends == [(False, False)] * 5 + [(True, False)]


def test_the_lever_game_pays_the_fraction_of_levers_that_are_right() -> None:
    game = LeverGame(sizes=(2, 3, 5), num_colours=1)
    game.reset(seed=0)  # the only colour is 0: positions 0, 1, 2 are right
    assert game.step(np.array([0, 1, 2]))[1] == 1.0
    assert game.step(np.array([0, 1, 4]))[1] == pytest.approx(2 / 3)
    assert game.step(np.array([1, 0, 2]))[1] == pytest.approx(1 / 3)
    assert game.step(np.array([1, 0, 0]))[1] == 0.0


def test_the_lever_game_shows_how_much_of_the_episode_is_left() -> None:
    game = LeverGame(episode_steps=4)
    observation, _ = game.reset(seed=0)
    left = [float(observation[-1])]
    left += [float(game.step(np.zeros(3, np.int64))[0][-1]) for _ in range(4)]
    assert left == [1.0, 0.75, 0.5, 0.25, 0.0]


def test_lever_colours_follow_from_the_seed_and_all_occur() -> None:
    def colours(seed: int) -> list[int]:
        game = LeverGame(episode_steps=40)
        observations = [game.reset(seed=seed)[0]]
        observations += [game.step(np.zeros(3, np.int64))[0] for _ in range(40)]
        return [int(np.argmax(observation[:4])) for observation in observations]

    assert colours(7) == colours(7) != colours(8)
    assert set(colours(7)) == {0, 1, 2, 3}


def test_counting_observations_say_episode_step_and_action() -> None:
    env = CountingEnv(sizes=(2, 3), min_steps=3, max_steps=3, ending="terminate")
    fingerprint = CountingEnv.fingerprint(11)
    observation, _ = env.reset(seed=11)
    assert observation.tolist() == [fingerprint, 0, -1, -1]
    observation, reward, terminated, truncated, _ = env.step(np.array([1, 2]))
    assert observation.tolist() == [fingerprint, 1, 1, 2]
    assert (reward, terminated, truncated) == (1.0, False, False)
    env.step(np.array([0, 0]))
    observation, reward, terminated, truncated, _ = env.step(np.array([1, 0]))
    assert observation.tolist() == [fingerprint, 3, 1, 0]
    assert (reward, terminated, truncated) == (3.0, True, False)


def _length_and_ending(env: CountingEnv, seed: int) -> tuple[int, str]:
    env.reset(seed=seed)
    for step in range(1, 1000):
        _, _, terminated, truncated, _ = env.step(np.zeros(2, np.int64))
        assert not (terminated and truncated)
        if terminated or truncated:
            return step, "terminate" if terminated else "truncate"
    raise AssertionError("no end")


def test_counting_episodes_vary_in_length_and_ending_by_seed_alone() -> None:
    env = CountingEnv(min_steps=3, max_steps=6)
    episodes = [_length_and_ending(env, seed) for seed in range(60)]
    assert {length for length, _ in episodes} == {3, 4, 5, 6}
    assert {ending for _, ending in episodes} == {"terminate", "truncate"}
    assert [_length_and_ending(CountingEnv(min_steps=3, max_steps=6), seed) for seed in range(60)] == episodes


def test_the_counting_ending_can_be_chosen() -> None:
    assert {_length_and_ending(CountingEnv(ending="terminate"), seed)[1] for seed in range(9)} == {"terminate"}
    assert {_length_and_ending(CountingEnv(ending="truncate"), seed)[1] for seed in range(9)} == {"truncate"}


@pytest.mark.parametrize("env", [LeverGame(episode_steps=1), CountingEnv(min_steps=1, max_steps=1)])
def test_a_step_after_the_end_is_an_error(env: LeverGame | CountingEnv) -> None:
    env.reset(seed=0)
    action = np.zeros(len(env.action_space.nvec), np.int64)  # type: ignore[attr-defined]
    env.step(action)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(action)


@pytest.mark.parametrize("action", [[0, 3], [-1, 0], [0], [2, 0]])
def test_counting_refuses_an_action_outside_its_space(action: list[int]) -> None:
    env = CountingEnv(sizes=(2, 3))
    env.reset(seed=0)
    with pytest.raises(ValueError, match="none of"):
        env.step(np.array(action))
