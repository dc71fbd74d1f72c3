"""Every random stream draws the same numbers for ever: the literals were taken before the streams had one home."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import revalued
from revalued import REValueD
from revalued.envs import CountingEnv, LeverGame
from revalued.envs.noise import Noisy
from revalued.experiments import tabular, theorems
from revalued.report.statistics import bootstrap
from revalued.seeding import (
    Stream,
    critic_of_episode,
    drawn_critics,
    episode_seed,
    episode_stream,
    evaluate_seeds,
    evaluation_seed,
    exploration_rng,
    noise_rng,
    restore_rng,
    rng_state,
    stream_rng,
    stream_seed,
)


def draws(rng: np.random.Generator) -> list[int]:
    return rng.integers(2**32, size=2).tolist()  # type: ignore[no-any-return]


def test_the_numbers_of_the_streams_never_change() -> None:
    assert {stream.name: stream.value for stream in Stream} == {
        "INITIALISATION": 1,
        "EXPLORATION": 2,
        "REPLAY": 3,
        "PREDICT": 2361804312,
        "TRAINING": 3574762127,
        "EVALUATION": 321103221,
        "EVALUATE": 2391018120,
        "NOISE": 4255749673,
        "CRITIC": 3387095025,
        "TARGET_CRITICS": 1868944673,
    }
    assert [episode_stream(incarnation) for incarnation in (0, 1)] == [Stream.TRAINING, 3836488231]


def test_streams_of_a_run() -> None:
    assert stream_seed(7, Stream.INITIALISATION) == 3317731564112288844
    assert draws(stream_rng(7, Stream.EXPLORATION)) == [1208267292, 1193873271]
    assert draws(stream_rng(7, Stream.REPLAY)) == [3126384070, 4187737225]
    assert draws(exploration_rng(7, actor=2, incarnation=1)) == [2809433989, 2627919673]
    assert [drawn_critics(7, updates, 2, 10).tolist() for updates in (0, 1, 1000)] == [[2, 7], [2, 4], [0, 4]]
    assert draws(exploration_rng(7, actor=0, incarnation=0)) == [1626464815, 1830893808]


def test_seeds_of_episodes() -> None:
    training = [episode_seed(7, Stream.TRAINING, lane, episode) for lane in (0, 3) for episode in (0, 4)]
    assert training == [2519965306, 491827229, 2268071879, 1303680714]
    replaced = [episode_seed(7, episode_stream(incarnation), 3, 4) for incarnation in range(3)]
    assert replaced == [1303680714, 3043862828, 410378363]
    tests = [evaluation_seed(7, updates, episode) for updates in (0, 1000) for episode in (0, 2)]
    assert tests == [794012740, 2194424428, 1284208246, 2472913974]
    assert list(evaluate_seeds(7, 3)) == [2523011498, 2315399314, 4144921569]
    assert [critic_of_episode(seed, 10) for seed in range(8)] == [8, 5, 3, 4, 6, 0, 8, 1]


def test_seeds_differ_between_lanes_episodes_streams_and_runs() -> None:
    streams = (Stream.TRAINING, Stream.EVALUATION, Stream.EVALUATE, episode_stream(1))
    keys = itertools.product((0, 1, 2**40), streams, range(8), range(50))
    seeds = [episode_seed(*key) for key in keys]
    assert len(set(seeds)) == len(seeds) == 3 * 4 * 8 * 50
    assert all(0 <= seed < 2**32 for seed in seeds)
    assert episode_seed(0, Stream.TRAINING, 0, 0) == seeds[0]


def test_an_agents_predictions() -> None:
    agent = REValueD("toy-levers", seed=7, critics=1, hidden_size=8, threads=1)
    assert draws(agent._rng) == [2030952125, 614892711]


def test_noise_and_toys() -> None:
    assert draws(noise_rng(7)) == [3631826281, 259383785]
    noisy = Noisy(LeverGame(), reward_noise=0.1, state_noise=0.0)
    assert draws(noisy._rng) != draws(Noisy(LeverGame(), reward_noise=0.1, state_noise=0.0)._rng)  # without a seed
    noisy.reset(seed=7)
    assert draws(noisy._rng) == [3631826281, 259383785]
    counting = CountingEnv(max_steps=1000)
    counting.reset(seed=7)
    assert (counting._episode_steps, counting._terminates) == (946, True)
    counting.reset(seed=2**32 - 1)
    assert (counting._episode_steps, counting._terminates) == (193, False)
    levers = LeverGame()
    levers.reset(seed=7)
    assert levers._colours.tolist() == [3, 2, 2, 3, 2, 3, 3, 0, 0, 1, 1]


def test_experiments_and_statistics() -> None:
    assert draws(stream_rng(7)) == [4058335883, 2684764585] == draws(np.random.default_rng(7))
    assert draws(stream_rng(theorems.SEED, 2, 1, 6, 3)) == [3489083124, 2976592319]
    assert draws(stream_rng(theorems.SEED, 1, 3)) == [526318316, 3824436836]
    assert draws(stream_rng(7, 3, 4)) == [3209355045, 565954965]
    learner = tabular.VARIANTS["decqn"]
    assert tabular.simulate(learner, dimensions=3, choices=4, trials=2, updates=5, seed=7).sum() == 13
    interval = bootstrap([[1.0, 2.0, 4.0, 8.0]], lambda drawn: drawn[0].mean(axis=1), seed=7, resamples=50)
    assert interval == pytest.approx((1.80625, 6.3875), abs=1e-12)


def test_a_generator_goes_on_where_it_was() -> None:
    rng = stream_rng(7)
    draws(rng)
    state, following = rng_state(rng), draws(rng)
    other = stream_rng(8)
    restore_rng(other, state)
    assert draws(other) == following


def test_no_other_file_makes_a_generator() -> None:
    makers = re.compile(r"\b(default_rng|SeedSequence|PCG64|RandomState)\(|np\.random\.seed|^import random", re.M)
    package = Path(revalued.__file__).parent
    found = {path.relative_to(package) for path in package.rglob("*.py") if makers.search(path.read_text())}
    other_libraries = {Path("compare", "learners", "branching.py")}  # Tianshou explores by the global generator
    assert found - other_libraries == {Path("seeding.py")}
