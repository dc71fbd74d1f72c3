"""Normalised observations: the sums by hand, the same bits for any collection, part of the policy wherever it goes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from cluster_helpers import session
from learner_twin import batch_for, learner_for
from revalued import REValueD, load
from revalued.acting.normalisation import LARGEST, ObservationNormaliser
from revalued.algorithms.presets import preset
from revalued.errors import UserError
from revalued.run.load import load_run
from revalued.run.start import resume, start
from run_helpers import assert_same_run, evolve, newest, quick_config, stop_after, train

CONFIG = quick_config("toy-counting", normalise_observations=True)


def test_mean_and_deviation_by_hand() -> None:
    normaliser = ObservationNormaliser(2)
    np.testing.assert_array_equal(normaliser(np.array([[3.0, -4.0]], np.float32)), [[3.0, -4.0]])
    normaliser.observe(np.array([[1.0, 5.0], [3.0, 5.0]], np.float32))
    normaliser.observe(np.array([[8.0, 5.0]], np.float32))
    # mean 4, variance (9 + 1 + 16) / 3; the second never changes
    found = normaliser(np.array([[4.0, 5.0], [8.0, 5.0]], np.float32))
    np.testing.assert_allclose(found, [[0.0, 0.0], [4 / np.sqrt(26 / 3), 0.0]], rtol=1e-6)
    assert found.dtype == np.float32


def test_any_grouping_gives_the_mean_and_deviation_of_all() -> None:
    rows = (np.random.default_rng(0).normal(size=(500, 3)) * [0.01, 1, 900] + [5, 0, -7]).astype(np.float32)
    normaliser = ObservationNormaliser(3)
    for part in np.split(rows, [1, 6, 200, 205]):
        normaliser.observe(part)
    np.testing.assert_allclose(normaliser.shift, rows.mean(axis=0, dtype=np.float64), rtol=1e-6)
    np.testing.assert_allclose(1 / normaliser.scale, rows.std(axis=0, dtype=np.float64), rtol=1e-4)


def test_rare_observations_are_cut_off() -> None:
    normaliser = ObservationNormaliser(1)
    normaliser.observe(np.array([[-1.0], [1.0]], np.float32))
    found = normaliser(np.array([[1e6], [-1e6], [0.5]], np.float32))
    np.testing.assert_allclose(found[:, 0], [LARGEST, -LARGEST, 0.5], rtol=1e-6)


def test_the_learner_sees_normalised_observations_and_the_batch_stays_raw() -> None:
    plain = learner_for(preset("decqn"))
    normal = learner_for(preset("decqn"), normalise_observations=True)
    batch = batch_for(plain, seed=3)
    assert normal.normaliser is not None
    normal.normaliser.observe(5 * batch.observations + 2)
    by_hand = batch._replace(
        observations=normal.normaliser(batch.observations), next_observations=normal.normaliser(batch.next_observations)
    )
    before = batch.observations.copy()
    priorities, _ = normal.update(batch)
    expected, _ = plain.update(by_hand)
    np.testing.assert_array_equal(priorities, expected)
    assert all(torch.equal(tensor, normal.online[name]) for name, tensor in plain.online.items())
    np.testing.assert_array_equal(batch.observations, before)
    seen = by_hand.observations[:4]
    np.testing.assert_array_equal(normal.policy().greedy(batch.observations[:4]), plain.policy().greedy(seen))


def test_it_counts_what_lanes_saw_and_changes_what_is_learnt(tmp_path: Path) -> None:
    whole = newest(train(CONFIG, tmp_path / "normal"))
    # 350 interactions and the first observation of each of the 5 lanes
    assert whole.tensors["observations.count"].item() == 355
    raw = newest(train(evolve(CONFIG, normalise_observations=False), tmp_path / "raw"))
    assert not any(name.startswith("observations.") for name in raw.tensors)
    assert not torch.equal(raw.tensors["online.input"], whole.tensors["online.input"])


def test_workers_and_interruptions_leave_the_bits_alone(tmp_path: Path) -> None:
    expected = train(CONFIG, tmp_path / "one")
    assert_same_run_but_workers(expected, train(evolve(CONFIG, workers=2), tmp_path / "workers"))
    path, _ = start(CONFIG, tmp_path / "stopped", should_stop=stop_after(47))
    assert resume(path).finished
    assert_same_run(expected, path)


def assert_same_run_but_workers(one: Path, other: Path) -> None:
    first, second = newest(one).tensors, newest(other).tensors
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_saved_policy_normalises_as_the_run_did(tmp_path: Path) -> None:
    agent = REValueD("toy-levers", normalise_observations=True, critics=2, hidden_size=16, warmup_env_steps=50)
    agent.learn(200)
    observations = np.random.default_rng(0).uniform(0, 1, (20, 5)).astype(np.float32)
    expected = agent.utilities(observations).all
    for replay in (True, False):
        again = load(agent.save(tmp_path / f"saved {replay}", replay=replay))
        np.testing.assert_array_equal(again.utilities(observations).all, expected)
    policy = load_run(tmp_path / "saved False").policy
    assert policy.normaliser is not None
    raw = policy.critics.all_outputs(observations).reshape(expected.shape)
    assert not np.array_equal(raw, expected), "without the normaliser, utilities are others"


def test_a_checkpoint_without_its_sums_is_refused(tmp_path: Path) -> None:
    path = train(evolve(CONFIG, normalise_observations=False), tmp_path / "run")
    config = (path / "config.json").read_text()
    (path / "config.json").write_text(
        config.replace('"normalise_observations": false', '"normalise_observations": true')
    )
    with pytest.raises(UserError, match=r"observations\.count does not fit this network"):
        load_run(path)


def test_actors_normalise_as_the_learner_says(tmp_path: Path) -> None:
    config = evolve(CONFIG, actors=2, num_envs=2, block_steps=4, in_order=True)
    run = session(config, tmp_path / "run")
    assert run.run().finished
    # every observation that an actor acted on after its first: one for each interaction
    sums = newest(run.path).tensors
    assert sums["observations.count"].item() == run.trainer.env_steps
    np.testing.assert_array_equal(run.link.weights["observations.mean"].shape, (4,))
    assert 0 < run.link.weights["observations.count"][0] < run.trainer.env_steps
