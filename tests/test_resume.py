"""A run that was interrupted and resumed equals one that was not: to the bit, wherever it was interrupted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from revalued.cli import main
from revalued.config import TrainConfig
from revalued.errors import UserError
from revalued.run.folder import RunFolder
from revalued.run.prepare import prepare
from revalued.run.start import resume, start
from revalued.training.callbacks import Callbacks, Event
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


@pytest.mark.parametrize("algo", ["revalued", "decqn-c51"])
def test_resumed_with_another_number_of_threads(algo: str, tmp_path: Path) -> None:
    config = quick_config("toy-levers", algo, batch_size=256)
    alone = train(config, tmp_path / "alone")
    interrupt(config, tmp_path / "run", 30)
    assert not resume(tmp_path / "run", should_stop=stop_after(23), threads=3).finished
    assert resume(tmp_path / "run", threads=2).finished
    assert_same_run(alone, tmp_path / "run")


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


def test_a_run_without_any_checkpoint_starts_over_only_if_asked(uninterrupted: Path, tmp_path: Path) -> None:
    """Killed before the first checkpoint, there is nothing to go on from; what it wrote is kept all the same."""
    path = tmp_path / "run"
    folder = RunFolder.create(path, prepare(BASE).config)
    folder.eval_table.add({"updates": 20, "env_steps": 245, "return": 1.0, "length": 3.0})
    before = folder.eval_table.path.read_bytes()
    with pytest.raises(UserError, match=r"no checkpoint to go on from, only 1 row in eval\.csv.*: --restart"):
        resume(path)
    assert folder.eval_table.path.read_bytes() == before
    assert folder.may_restart_unasked(), "5,000 updates would have to pass before the first checkpoint"
    assert resume(path, restart=True).finished
    assert_same_run(uninterrupted, path)
    assert (path / "eval.before-restart-1.csv").read_bytes() == before
    assert not (path / "metrics.before-restart-1.csv").exists(), "there was nothing in it"


@pytest.mark.parametrize("damage", ["deleted", "emptied", "unreadable"])
def test_a_finished_run_whose_checkpoints_are_gone_loses_nothing(
    damage: str, uninterrupted: Path, tmp_path: Path
) -> None:
    path = tmp_path / "run"
    shutil.copytree(uninterrupted, path)
    if damage == "unreadable":
        for file in path.glob("checkpoint/*/meta.json"):
            file.unlink()
    else:
        shutil.rmtree(path / "checkpoint")
        if damage == "emptied":
            (path / "checkpoint").mkdir()
    before = {name: (path / name).read_bytes() for name in ("eval.csv", "metrics.csv", "config.json", "summary.json")}
    with pytest.raises(UserError, match="no checkpoint"):
        resume(path, env_steps=400)
    assert {name: (path / name).read_bytes() for name in before} == before
    assert not RunFolder.open(path).may_restart_unasked()
    assert resume(path, restart=True).finished
    assert_same_run(uninterrupted, path)
    for name in ("eval.csv", "metrics.csv", "summary.json"):
        stem, suffix = name.split(".")
        assert (path / f"{stem}.before-restart-1.{suffix}").read_bytes() == before[name]
    assert resume(path, restart=True).finished, "again, beside the first"
    assert (path / "checkpoint.before-restart-2").is_dir()


def test_rows_that_are_gone_are_noticed(
    uninterrupted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run"
    interrupt(BASE, path, 60)
    whole = (path / "eval.csv").read_text().splitlines(keepends=True)
    (path / "eval.csv").write_text("".join(whole[:-1]))
    (path / "metrics.csv").unlink()
    assert main(["resume", str(path), "--quiet"]) == 0
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"warning: {path / 'eval.csv'} lacks 1 of the 2 rows that the checkpoint knows of")
    assert "metrics.csv lacks 2 of the 2 rows" in second
    expected = rows(uninterrupted, "eval.csv")
    assert rows(path, "eval.csv") == [expected[0], *expected[2:]]
    assert rows(path, "metrics.csv") == rows(uninterrupted, "metrics.csv")[2:]


@pytest.mark.parametrize(
    "text", ["", "updates,env_steps,return,length,success,wall_seconds\r\n,,,,,,,,\r\nx,y\r\n20,20\r\n"]
)
def test_an_empty_or_edited_table_is_not_blamed_on_the_checkpoint(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run"
    interrupt(BASE, path, 50)
    (path / "eval.csv").write_text(text)
    assert main(["resume", str(path), "--quiet"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert "eval.csv lacks 1 of the 1 rows" in line
    assert [row["updates"] for row in rows(path, "eval.csv")] == ["40", "50"]


def test_a_table_deleted_in_mid_run_comes_back_with_its_header(tmp_path: Path) -> None:
    path = tmp_path / "run"

    def take_away(event: Event) -> None:
        if event.updates == 25:
            (path / "eval.csv").unlink()

    start(BASE, path, callbacks=Callbacks([take_away]))
    assert [row["updates"] for row in rows(path, "eval.csv")] == ["40", "50"]


def test_a_resume_that_fails_has_changed_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run"
    interrupt(BASE, path, 50)
    (path / "metrics.csv").write_text("something else\n1,2\n")
    before = {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()}
    with pytest.raises(UserError, match="its first line is not updates,"):
        resume(path, env_steps=1_000)
    assert {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()} == before


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
