"""A run that was interrupted and resumed equals one that was not: to the bit, wherever it was interrupted."""

from __future__ import annotations

from pathlib import Path

import pytest

from revalued.config import TrainConfig
from revalued.errors import UserError
from revalued.run.folder import RunFolder
from revalued.run.prepare import prepare
from revalued.run.start import resume, start
from run_helpers import assert_same_run, evolve, newest, quick_config, rows, stop_after, train

BASE = quick_config("toy-counting")
NUM_ENVS = BASE.schedule.num_envs
WARMUP_CYCLES = BASE.schedule.warmup_env_steps // NUM_ENVS
EVALUATION_CYCLES = WARMUP_CYCLES + BASE.schedule.eval_every

VARIANTS: dict[str, TrainConfig] = {
    "revalued": BASE,
    "bdq": quick_config(algo="bdq"),
    "decqn-c51": quick_config(algo="decqn-c51"),
    "dqn": quick_config(algo="dqn"),
    "uniform replay": evolve(BASE, prioritised=False),
    "per-dimension": evolve(BASE, exploration="per-dimension", epsilon_decay=0.995),
    "small replay": evolve(BASE, replay_capacity=100),
    "one lane": evolve(BASE, num_envs=1, env_steps=200),
    "three lanes": evolve(BASE, num_envs=3),
}
SLOW_VARIANTS: dict[str, TrainConfig] = {
    "decqn-sum-ensemble": quick_config(algo="decqn-sum-ensemble"),
    "bdq-ensemble": quick_config(algo="bdq-ensemble"),
    "c51 ensemble": quick_config(algo="decqn-c51", critics=3),
    "three critics": evolve(BASE, critics=3, double_q=True),
    "ten lanes": evolve(BASE, num_envs=10),
    "1-step": evolve(BASE, n_step=1),
    "several test episodes": evolve(BASE, eval_episodes=3),
}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(BASE, tmp_path_factory.mktemp("resume") / "uninterrupted")


def interrupt(config: TrainConfig, path: Path, cycles: int) -> None:
    _, outcome = start(config, path, should_stop=stop_after(cycles))
    assert not outcome.finished
    assert outcome.summary["env_steps"] == cycles * config.schedule.num_envs == newest(path).meta["env_steps"]


@pytest.mark.parametrize(
    "cycles",
    [
        pytest.param(0, id="before the first step"),
        pytest.param(1, id="at once"),
        pytest.param(3, id="before any transition is complete"),
        pytest.param(WARMUP_CYCLES // 2, id="in warm-up"),
        pytest.param(WARMUP_CYCLES, id="at the end of warm-up"),
        pytest.param(WARMUP_CYCLES + 1, id="after the first update"),
        pytest.param(EVALUATION_CYCLES - 1, id="before an evaluation"),
        pytest.param(EVALUATION_CYCLES, id="at an evaluation"),
        pytest.param(EVALUATION_CYCLES + 1, id="after an evaluation"),
        pytest.param(69, id="one cycle before the end"),
    ],
)
def test_interrupted_anywhere(uninterrupted: Path, tmp_path: Path, cycles: int) -> None:
    interrupt(BASE, tmp_path / "run", cycles)
    assert resume(tmp_path / "run").finished
    assert_same_run(uninterrupted, tmp_path / "run")


@pytest.mark.parametrize("name", [*VARIANTS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW_VARIANTS)])
def test_every_kind_of_run(name: str, tmp_path: Path) -> None:
    config = {**VARIANTS, **SLOW_VARIANTS}[name]
    expected = train(config, tmp_path / "uninterrupted")
    cycles = config.schedule.env_steps // config.schedule.num_envs * 3 // 4
    interrupt(config, tmp_path / "run", cycles)
    assert resume(tmp_path / "run").finished
    assert_same_run(expected, tmp_path / "run")


def test_the_small_replay_has_wrapped_around(tmp_path: Path) -> None:
    path = train(VARIANTS["small replay"], tmp_path / "run")
    arrays = newest(path).arrays
    assert arrays["replay.heads"].min() > 2 * int(arrays["replay.positions"])


def test_interrupted_many_times(uninterrupted: Path, tmp_path: Path) -> None:
    interrupt(BASE, tmp_path / "run", 17)
    for cycles in (15, 1, 0, 23):
        assert not resume(tmp_path / "run", should_stop=stop_after(cycles)).finished
    assert resume(tmp_path / "run").finished
    assert_same_run(uninterrupted, tmp_path / "run")


def test_resumed_with_another_number_of_workers(uninterrupted: Path, tmp_path: Path) -> None:
    interrupt(BASE, tmp_path / "run", 30)
    assert not resume(tmp_path / "run", should_stop=stop_after(23), workers=2).finished
    assert resume(tmp_path / "run", workers=0).finished
    assert_same_run(uninterrupted, tmp_path / "run")


def test_on_a_real_simulator(tmp_path: Path) -> None:
    config = quick_config("walker-walk", env_steps=150, warmup_env_steps=50, eval_every=30)
    expected = train(config, tmp_path / "uninterrupted")
    interrupt(config, tmp_path / "run", 21)
    assert resume(tmp_path / "run").finished
    assert_same_run(expected, tmp_path / "run")


def test_frequent_checkpoints_change_nothing(uninterrupted: Path, tmp_path: Path) -> None:
    path = train(evolve(BASE, checkpoint_every=7), tmp_path / "run")
    assert_same_run(uninterrupted, path)


@pytest.mark.parametrize("checkpoint_every", [5_000, 10], ids=["checkpoint at the end", "and before"])
def test_a_finished_run_can_be_prolonged(tmp_path: Path, checkpoint_every: int) -> None:
    config = evolve(BASE, checkpoint_every=checkpoint_every)
    updates_in_first_part = 2 * BASE.schedule.eval_every  # ends at an evaluation, so that no extra one is held
    shorter = evolve(config, env_steps=BASE.schedule.warmup_env_steps + 5 * updates_in_first_part)
    path = train(shorter, tmp_path / "run")
    with pytest.raises(UserError, match="--env-steps"):
        resume(path)
    assert resume(path, env_steps=BASE.schedule.env_steps).finished
    assert RunFolder.open(path).config().schedule.env_steps == BASE.schedule.env_steps
    assert_same_run(train(config, tmp_path / "uninterrupted"), path)


@pytest.mark.parametrize("checkpoint_every", [5_000, 10])
def test_prolonging_keeps_the_evaluation_at_the_first_end(tmp_path: Path, checkpoint_every: int) -> None:
    """The last evaluation of the first part is no multiple of `eval_every`; it stays in the table and in `best`."""
    config = evolve(BASE, env_steps=250, checkpoint_every=checkpoint_every)
    path = train(config, tmp_path / "run")
    before = rows(path, "eval.csv")
    assert [int(row["updates"]) for row in before] == [20, 30]
    assert newest(path).meta["record"]["last"] == [float(before[-1]["return"]), 30]
    resume(path, env_steps=350)
    after = rows(path, "eval.csv")
    assert after[:2] == before
    assert [int(row["updates"]) for row in after[2:]] == [40, 50]


def test_a_run_without_any_checkpoint_starts_over(uninterrupted: Path, tmp_path: Path) -> None:
    """Killed before the first checkpoint, there is nothing to go on from, and nothing is lost by starting over."""
    RunFolder.create(tmp_path / "run", prepare(BASE).config)
    folder = RunFolder.open(tmp_path / "run")
    folder.eval_table.add({"updates": 20, "env_steps": 245, "return": 1.0, "length": 3.0})
    assert resume(tmp_path / "run").finished
    assert_same_run(uninterrupted, tmp_path / "run")


def test_rows_written_after_the_checkpoint_are_written_once(uninterrupted: Path, tmp_path: Path) -> None:
    """Killed after an evaluation but before the next checkpoint: the row is there, and will be made again."""
    path = tmp_path / "run"
    interrupt(BASE, path, EVALUATION_CYCLES - 1)
    folder = RunFolder.open(path)
    folder.eval_table.add({"updates": 20, "env_steps": 245, "return": -1.0, "length": 3.0})
    folder.metric_table.add({"updates": 30, "env_steps": 295, "loss": -1.0})
    with folder.metric_table.path.open("a") as file:
        file.write("31,3")  # half a row, as a kill leaves it
    assert resume(path).finished
    assert_same_run(uninterrupted, path)


def test_resuming_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no config\.json"):
        resume(tmp_path)
    with pytest.raises(UserError, match=r"no config\.json"):
        resume(tmp_path / "nowhere")
