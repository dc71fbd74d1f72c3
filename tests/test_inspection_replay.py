"""TD errors from a checkpoint's replay are those that the learner would compute."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from revalued.report.inspection.replay_errors import replay_errors, td_errors
from revalued.run.load import load_run
from revalued.training.build import agent_shape, make_learner, make_replay
from run_helpers import newest, quick_config, train


@pytest.mark.parametrize(
    ("task", "algo"),
    [
        ("toy-counting", "revalued"),
        ("toy-masked", "bdq-ensemble"),
        ("toy-masked", "decqn-c51"),
        ("toy-masked", "dqn"),
        ("toy-levers", "decqn-sum"),
    ],
)
def test_errors_are_the_learner_s_priorities(task: str, algo: str, tmp_path: Path) -> None:
    config = quick_config(task, algo)
    path = train(config, tmp_path / "run")
    run, checkpoint = load_run(path, replay=True), newest(path)
    shape = agent_shape(config, run.task.info)
    learner, replay = make_learner(config, shape, torch.device("cpu")), make_replay(config, shape)
    learner.load_tensors(checkpoint.tensors, checkpoint.meta["updates"])
    replay.load_state(run.replay)
    batch = replay.sample(config.learner.batch_size, np.random.default_rng(0))
    priorities, _ = learner.update(batch)
    np.testing.assert_allclose(td_errors(run, batch.rows), priorities, rtol=1e-4, atol=1e-5)


def test_samples_and_stored_priorities(tmp_path: Path) -> None:
    run = load_run(train(quick_config("toy-levers"), tmp_path / "run"), replay=True)
    errors = replay_errors(run, sample=100)
    assert errors is not None
    leaves = run.replay["leaves"]
    assert errors.num_stored == np.count_nonzero(leaves)
    assert errors.uniform.shape == (100,)
    assert errors.prioritised is not None
    assert errors.priorities is not None
    # leaf = priority^0.6
    stored = np.sort(leaves[leaves > 0])
    assert np.isin(np.round(errors.priorities**0.6, 9), np.round(stored, 9)).all()
    # everything is drawn once where there is no more
    everything = replay_errors(run, sample=10_000)
    assert everything is not None
    assert everything.priorities is not None
    np.testing.assert_allclose(np.sort(everything.priorities**0.6), stored)
    again = replay_errors(run, sample=100)
    assert again is not None
    assert np.array_equal(again.uniform, errors.uniform)


def test_a_uniform_replay_has_no_priorities(tmp_path: Path) -> None:
    run = load_run(train(quick_config("toy-levers", prioritised=False), tmp_path / "run"), replay=True)
    errors = replay_errors(run)
    assert errors is not None
    assert errors.prioritised is None
    assert errors.priorities is None


def test_nothing_to_draw_from(tmp_path: Path) -> None:
    path = train(quick_config("toy-levers"), tmp_path / "run")
    assert replay_errors(load_run(path)) is None
    run = load_run(path, replay=True)
    assert replay_errors(replace(run, target=None)) is None
    empty = {**run.replay, "leaves": np.zeros_like(run.replay["leaves"])}
    assert replay_errors(replace(run, replay=empty)) is None
