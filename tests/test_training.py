"""The training loop: what happens when, and what it does about numbers that are not finite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from revalued.acting.exploration import epsilon_at
from revalued.config import TrainConfig
from revalued.envs import LaneError
from revalued.learner.engine import NonFiniteError
from revalued.learner.learner import Learner
from revalued.learner.metrics import Metrics
from revalued.replay import Batch
from revalued.run.folder import RunFolder
from revalued.run.start import resume, start
from revalued.training.averages import EpisodeLog, MetricWindow
from run_helpers import evolve, newest, quick_config, rows, stop_after, train

BASE = quick_config("toy-counting")


def numbers(path: Path, table: str, column: str) -> list[float]:
    return [float(row[column]) for row in rows(path, table)]


@pytest.mark.parametrize("num_envs", [1, 3, 5, 10])
def test_one_update_per_five_interactions(num_envs: int, tmp_path: Path) -> None:
    config = evolve(BASE, num_envs=num_envs, env_steps=300, warmup_env_steps=90, eval_every=14)
    path = train(config, tmp_path / "run")
    summary = RunFolder.open(path).summary()
    assert summary is not None
    assert summary["env_steps"] == 300
    assert summary["updates"] == (300 - 90) // 5
    assert numbers(path, "eval.csv", "updates") == [14, 28, 42]
    # Interactions are counted before the step that is under way, so the last update but this step is paid for.
    expected = [90 + 5 * updates for updates in (14, 28)]
    for env_steps, paid in zip(numbers(path, "eval.csv", "env_steps"), expected, strict=False):
        assert paid - max(num_envs, 5) <= env_steps <= paid


@pytest.mark.parametrize("num_envs", [1, 3, 5, 10])
def test_the_ratio_holds_at_every_moment(num_envs: int, tmp_path: Path) -> None:
    config = evolve(BASE, num_envs=num_envs, env_steps=10_000, warmup_env_steps=30)
    for cycles in (1, -(-30 // num_envs), -(-30 // num_envs) + 1, -(-60 // num_envs)):
        _, outcome = start(config, tmp_path / str(cycles), should_stop=stop_after(cycles))
        env_steps = outcome.summary["env_steps"]
        assert env_steps == cycles * num_envs
        assert outcome.summary["updates"] == max(0, (env_steps - 30) // 5)


def test_interactions_that_lanes_cannot_divide_are_rounded_up(tmp_path: Path) -> None:
    path = train(evolve(BASE, num_envs=3, env_steps=200), tmp_path / "run")
    assert newest(path).meta["env_steps"] == 201


def test_warm_up_ends_with_the_first_update(tmp_path: Path) -> None:
    config = evolve(BASE, env_steps=BASE.schedule.warmup_env_steps)
    _, outcome = start(config, tmp_path / "warm-up")
    assert outcome.summary["updates"] == 0
    _, outcome = start(evolve(config, env_steps=config.schedule.env_steps + 5), tmp_path / "one more")
    assert outcome.summary["updates"] == 1


def test_no_warm_up_at_all(tmp_path: Path) -> None:
    """Updates wait for the first complete transition, and are then made up for."""
    _, outcome = start(evolve(BASE, warmup_env_steps=0, env_steps=200), tmp_path / "run")
    assert outcome.summary["updates"] == 200 // 5


def test_an_evaluation_at_the_end_unless_there_has_just_been_one(tmp_path: Path) -> None:
    path = train(evolve(BASE, eval_every=25), tmp_path / "at the end")
    assert numbers(path, "eval.csv", "updates") == [25, 50]
    path = train(evolve(BASE, eval_every=20), tmp_path / "before the end")
    assert numbers(path, "eval.csv", "updates") == [20, 40, 50]


def test_evaluations_are_independent_of_each_other(tmp_path: Path) -> None:
    """The episode held after 40 updates is the same, whether or not one was held after 20."""
    often, seldom = (train(evolve(BASE, eval_every=eval_every), tmp_path / str(eval_every)) for eval_every in (20, 40))
    assert rows(often, "eval.csv")[1:] == rows(seldom, "eval.csv")
    # observing a run does not change it
    assert newest(often).meta["rng"] == newest(seldom).meta["rng"]
    for name, tensor in newest(often).tensors.items():
        assert torch.equal(tensor, newest(seldom).tensors[name])


def test_several_test_episodes_are_averaged(tmp_path: Path) -> None:
    path = train(evolve(BASE, eval_episodes=4, eval_every=50), tmp_path / "run")
    (row,) = rows(path, "eval.csv")
    # counting rewards 1 + 2 + ... + length: the mean return and the mean length fit together only by averaging
    assert float(row["length"]) * 4 == pytest.approx(round(float(row["length"]) * 4))
    assert float(row["return"]) * 4 == pytest.approx(round(float(row["return"]) * 4))


def test_metric_rows_and_their_windows(tmp_path: Path) -> None:
    every_update = train(evolve(BASE, log_every=1), tmp_path / "1")
    path = train(evolve(BASE, log_every=15), tmp_path / "15")
    assert numbers(path, "metrics.csv", "updates") == [15, 30, 45]
    for column in ("loss", "td_loss", "regulariser", "mean_q", "mean_target", "td_error", "gradient_norm"):
        single = np.array(numbers(every_update, "metrics.csv", column))
        assert len(single) == 50
        windows = single[:45].reshape(3, 15).mean(axis=1)
        np.testing.assert_allclose(numbers(path, "metrics.csv", column), windows, rtol=1e-9)
    for row in rows(path, "metrics.csv"):
        assert float(row["epsilon"]) == epsilon_at(BASE.exploration, int(row["env_steps"]))
    episodes = sum(numbers(path, "metrics.csv", "train_episodes"))
    summary = RunFolder.open(path).summary()
    assert summary is not None
    assert 0 < episodes <= summary["train_episodes"]


def test_metric_window_forgets_after_flush() -> None:
    window = MetricWindow()
    assert window.flush() == {}
    for loss in (1.0, 2.0, 6.0):
        window.add(Metrics(["loss"], torch.tensor([loss])))
    assert window.flush() == {"loss": 3.0}
    window.add(Metrics(["loss"], torch.tensor([5.0])))
    again = MetricWindow()
    again.load_state(window.state(), torch.device("cpu"))
    again.add(Metrics(["loss"], torch.tensor([6.0])))
    assert again.flush() == {"loss": 5.5}
    assert again.flush() == {}


def test_episode_log_counts_lanes_apart() -> None:
    log = EpisodeLog(2)
    log.add(np.array([1.0, 10.0]), np.array([False, False]))
    log.add(np.array([2.0, 20.0]), np.array([True, False]))
    log.add(np.array([4.0, 40.0]), np.array([False, True]))
    assert log.flush() == {"train_return": (3.0 + 70.0) / 2, "train_episodes": 2}
    assert log.flush() == {}
    log.forget_running([0])
    log.add(np.array([8.0, 0.0]), np.array([True, False]))
    assert log.flush() == {"train_return": 8.0, "train_episodes": 1}
    assert log.total_episodes == 3


def poison(monkeypatch: pytest.MonkeyPatch, after_updates: int) -> None:
    """Make the rewards of a batch infinite, as an overflow would."""
    update = Learner.update

    def poisoned(self: Learner, batch: Batch) -> Any:
        if self.updates >= after_updates:
            batch.returns[:] = np.nan
        return update(self, batch)

    monkeypatch.setattr(Learner, "update", poisoned)


def test_a_loss_that_is_not_finite_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = evolve(BASE, checkpoint_every=10)
    with monkeypatch.context() as patch:
        poison(patch, after_updates=25)
        with pytest.raises(NonFiniteError, match="not finite"):
            start(config, tmp_path / "run")
    checkpoint = newest(tmp_path / "run")
    assert checkpoint.meta["updates"] == 20
    assert all(torch.isfinite(tensor).all() for tensor in checkpoint.tensors.values())
    assert resume(tmp_path / "run").finished, "without the cause, the run goes on from its last good checkpoint"


def test_parameters_that_are_not_finite_are_never_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    update = Learner.update

    def ruinous(self: Learner, batch: Batch) -> Any:
        result = update(self, batch)
        if self.updates == 30:
            next(iter(self.tensors().values()))[0, 0] = torch.inf
        return result

    monkeypatch.setattr(Learner, "update", ruinous)
    with pytest.raises(NonFiniteError):
        start(evolve(BASE, checkpoint_every=10), tmp_path / "run")
    assert newest(tmp_path / "run").meta["updates"] == 20


@pytest.mark.parametrize("workers", [0, 1])
def test_an_environment_that_fails_ends_the_run(workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says where, and the checkpoints before it are kept."""
    from revalued.envs import Lanes

    step = Lanes.step_wait

    def failing(self: Lanes) -> Any:
        result = step(self)
        if result.observations[0, 1] == 2 and failing_after_checkpoint(tmp_path / "run"):
            raise LaneError("lane 0, episode 3, step 2: the reward is nan", lane=0)
        return result

    monkeypatch.setattr(Lanes, "step_wait", failing)
    with pytest.raises(LaneError, match="lane 0"):
        start(evolve(BASE, checkpoint_every=10, workers=workers), tmp_path / "run")
    assert newest(tmp_path / "run").meta["updates"] >= 10


def failing_after_checkpoint(path: Path) -> bool:
    return any((path / "checkpoint").glob("env-steps-*"))


def test_configurations_are_checked_before_anything_is_written(tmp_path: Path) -> None:
    bad: list[TrainConfig] = [
        evolve(BASE, critics=0),
        evolve(BASE, task="toy-contuing"),
        evolve(BASE, head="categorical"),
        evolve(BASE, replay_capacity=5),
        evolve(BASE, device="cudda"),
    ]
    for config in bad:
        with pytest.raises(Exception, match=r"not possible|unknown|categorical"):
            start(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("ratio", "expected"), [(0.05, 12), (0.2, 50), (0.3, 75), (1 / 3, 83), (1.0, 250), (2.5, 625), (8.0, 2000)]
)
def test_updates_follow_the_interactions_in_any_ratio(ratio: float, expected: int, tmp_path: Path) -> None:
    path = train(quick_config(updates_per_env_step=ratio, eval_every=10_000), tmp_path / "run")
    assert newest(path).meta["updates"] == expected
