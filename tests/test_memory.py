"""What cannot fit into memory is refused before anything is made; a start that fails leaves nothing behind."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from revalued.cli import main
from revalued.errors import UserError
from revalued.run import start as starting
from revalued.run.loggers import Logging
from revalued.run.prepare import prepare
from revalued.training import memory
from revalued.training.build import make_learner, make_replay
from run_helpers import evolve, quick_config

TOO_LARGE = {
    "--batch-size 1000000000": "an update would take",
    "--hidden-size 1000000": "the critics would take [0-9.]+ TiB",
    "--critics 1000000000": "the critics would take [0-9.]+ PiB",
    "--replay-capacity 10000000000": "the replay would take [0-9.]+ GiB",
    "--algo decqn-c51 --atoms 1000000000": "would take .* TiB",
    "--num-envs 10000000 --replay-capacity 100000000": "the environments would take",
    "--num-envs 1000000 --workers 1000000 --replay-capacity 10000000": "the environments would take",
    "--bins 1000000000": "bins = 1000000000 is not possible: it must be at least 2 and at most 100,000",
    "--threads 100000": "threads = 100000 is not possible: it must be at least 1 and at most",
    "--threads 10000": "threads = 10000 is not possible",
    "--hidden-size 9999999999999999999": "below 2.63",
}


@pytest.mark.parametrize("flags", TOO_LARGE)
def test_too_large_is_one_line_and_no_folder(
    flags: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", "toy-levers", *flags.split(), "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("revalued: ")
    assert re.search(TOO_LARGE[flags], line), line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("algo", ["revalued", "bdq", "decqn-c51", "dqn"])
@pytest.mark.parametrize("engine", ["native", "torch"])
def test_the_estimate_is_that_of_what_is_made(algo: str, engine: str) -> None:
    config = quick_config("toy-levers", algo, hidden_size=256, replay_capacity=30_000, env_steps=30_000, engine=engine)
    run = prepare(evolve(config, batch_size=64))
    critics, _, replay, _ = memory.memory_parts(run.config, run.shape, run.task)
    learner = make_learner(run.config, run.shape, torch.device("cpu"))
    held = sum(tensor.nbytes for tensor in learner.tensors().values())
    assert held < critics.num_bytes <= 1.3 * held
    assert replay.num_bytes == pytest.approx(make_replay(run.config, run.shape).nbytes, rel=0.02)


def test_a_replay_is_counted_as_far_as_it_will_be_written() -> None:
    long, short = (prepare(quick_config("toy-levers", env_steps=steps)) for steps in (500_000, 1_000))
    sizes = [memory.memory_parts(run.config, run.shape, run.task)[2].num_bytes for run in (long, short)]
    assert sizes[0] > 100 * sizes[1]


def test_limits_of_control_groups_count(tmp_path: Path) -> None:
    group = tmp_path / "root" / "outer" / "inner"
    group.mkdir(parents=True)
    for folder, limit in ((group, "max"), (group.parent, "5000")):
        (folder / "memory.max").write_text(limit)
        (folder / "memory.current").write_text("3000")
        (folder / "memory.stat").write_text("anon 1000\ninactive_file 500\n")
    (tmp_path / "cgroup").write_text("0::/outer/inner\n5:cpu:/elsewhere\n")
    assert list(memory._group_limits(tmp_path / "cgroup", tmp_path / "root")) == [(5000, 2500)]
    assert list(memory._group_limits(tmp_path / "missing", tmp_path / "root")) == []


def test_little_memory_is_refused_and_enough_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    run = prepare(quick_config("toy-levers"))
    needed = sum(part.num_bytes for part in memory.memory_parts(run.config, run.shape, run.task))
    monkeypatch.setattr(memory, "available_bytes", lambda: needed)
    prepare(quick_config("toy-levers"))
    monkeypatch.setattr(memory, "available_bytes", lambda: needed - 1)
    with pytest.raises(UserError, match=r"too little memory: .* and there are .* available; smaller with --"):
        prepare(quick_config("toy-levers"))


ERRORS: dict[str, tuple[Exception, type[Exception], str]] = {
    "NumPy": (MemoryError("no room"), UserError, "too little memory: .*this machine refuses it"),
    "PyTorch": (RuntimeError("can't allocate memory: you tried"), UserError, "too little memory"),
    "a mistake": (RuntimeError("something else"), RuntimeError, "something else"),
    "the disk": (OSError("no space"), OSError, "no space"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_a_start_that_fails_leaves_no_folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error, expected, words = ERRORS[name]

    def fail(*arguments: Any, **more: Any) -> None:
        raise error

    monkeypatch.setattr("revalued.training.trainer.make_replay", fail)
    (tmp_path / "there").mkdir()
    for path in (tmp_path / "new" / "deep" / "run", tmp_path / "there"):
        with pytest.raises(expected, match=words):
            starting.start(quick_config("toy-levers"), path)
    assert list(tmp_path.rglob("*")) == [tmp_path / "there"], "a folder that was there stays, and is empty"


def test_a_run_that_fails_later_keeps_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise ValueError("in the middle")

    monkeypatch.setattr("revalued.run.recorder.Recorder.log", fail)
    with pytest.raises(ValueError, match="in the middle"):
        starting.start(quick_config("toy-levers"), tmp_path / "run")
    assert (tmp_path / "run" / "config.json").is_file()


def test_a_callback_or_a_logger_that_refuses_leaves_no_folder(tmp_path: Path) -> None:
    from revalued.training.callbacks import Callbacks, Event

    class Refuses:
        def on_start(self, event: Event) -> None:
            (event.folder / "tensorboard").is_dir()
            raise UserError("not today")

    with pytest.raises(UserError, match="not today"):
        starting.start(quick_config("toy-levers"), tmp_path / "run", callbacks=Callbacks(Refuses()))
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_tensorboard_folder_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = quick_config("toy-levers")
    path, _ = starting.start(replace(config), tmp_path / "run", logging=Logging(tensorboard=False))
    (path / "tensorboard").write_text("in the way")
    assert main(["resume", str(path), "--env-steps", "400", "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"revalued: TensorBoard events cannot be written to {path / 'tensorboard'}: ")
