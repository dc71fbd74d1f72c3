"""Results do not depend on how many processes step the environments: to the bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from revalued.config import TrainConfig
from run_helpers import assert_same_run, evolve, newest, quick_config, rows, train

COUNTING = quick_config("toy-counting", num_envs=5)
# An evaluation on the real simulator is an episode of 1000 steps, so one must do.
WALKER = quick_config("walker-walk", env_steps=200, warmup_env_steps=100, eval_every=20)


@pytest.mark.parametrize("config", [COUNTING, WALKER], ids=lambda config: config.task)
def test_workers_never_change_results(config: TrainConfig, tmp_path: Path) -> None:
    alone = train(config, tmp_path / "0")
    for workers in (1, 2):
        assert_same_run(alone, train(evolve(config, workers=workers), tmp_path / str(workers)))


def test_the_comparison_sees_everything_that_could_differ(tmp_path: Path) -> None:
    """What the other tests call equal is all of the learner, the replay and the lanes, and none of it is trivial."""
    path = train(COUNTING, tmp_path / "run")
    checkpoint = newest(path)
    online = {name.removeprefix("online.") for name in checkpoint.tensors if name.startswith("online.")}
    groups = ("online", "target", "adam.first_moment", "adam.second_moment")
    assert checkpoint.tensors.keys() == {f"{group}.{name}" for group in groups for name in online}
    assert all(tensor.abs().sum() > 0 for tensor in checkpoint.tensors.values())
    assert checkpoint.arrays["replay.observations"].shape[0] >= 350
    assert len(np.unique(checkpoint.arrays["replay.leaves"])) > 50
    assert len(np.unique(checkpoint.arrays["lanes.lengths"])) > 1, "all lanes are at the same step of their episode"
    assert checkpoint.meta["rng"].keys() == {"exploration", "replay"}
    assert len(rows(path, "eval.csv")) == 3
    assert len(rows(path, "metrics.csv")) == 3


def test_seeds_give_different_runs(tmp_path: Path) -> None:
    one, other = (train(evolve(COUNTING, seed=seed), tmp_path / str(seed)) for seed in (0, 1))
    with pytest.raises(AssertionError):
        assert_same_run(one, other)
