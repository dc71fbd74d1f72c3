"""Real processes, really killed: what is left is always loadable, and the resumed run equals an uninterrupted one."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from revalued.config import TrainConfig
from revalued.run.checkpoint import load_newest
from revalued.run.start import resume, start
from run_helpers import (
    assert_same_run,
    call,
    checkpoints_in,
    end,
    evolve,
    flags_of,
    launch,
    newest,
    quick_config,
    train,
    wait_for,
)

CONFIG = quick_config("toy-levers", checkpoint_every=5)

# One process imports torch, and all that are to be killed are forked from it.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["revalued.run.start"])


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(CONFIG, tmp_path_factory.mktemp("kill") / "uninterrupted")


def test_kill_9_and_resume_on_the_command_line(uninterrupted: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    process = launch("train", *flags_of(CONFIG), "--out", path, "--checkpoint-every", "5", "--quiet")
    try:
        assert wait_for(lambda: len(checkpoints_in(path)) >= 2, process), process.communicate()
        process.kill()
        assert process.wait() == -signal.SIGKILL
    finally:
        end(process)
    assert newest(path).meta["env_steps"] < CONFIG.schedule.env_steps
    resumed = call("resume", path, "--quiet")
    assert (resumed.returncode, resumed.stdout, resumed.stderr) == (0, "", "")
    assert_same_run(uninterrupted, path)


def begin_or_resume(config: TrainConfig, path: Path) -> None:
    if (path / "config.json").exists():
        resume(path)
    else:
        start(config, path)


def kill_after(config: TrainConfig, path: Path, seconds: float) -> BaseProcess:
    """Train in another process, and kill it some time after its first new checkpoint."""
    before = checkpoints_in(path)
    process = processes.Process(target=begin_or_resume, args=(config, path))
    process.start()
    while process.is_alive() and checkpoints_in(path) == before:
        time.sleep(0.001)
    time.sleep(seconds)
    process.kill()
    process.join()
    return process


def test_killed_again_and_again(uninterrupted: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    rng = np.random.default_rng(0)
    for _ in range(4):
        process = kill_after(CONFIG, path, rng.uniform(0, 0.05))
        assert process.exitcode in (-signal.SIGKILL, 0)
        newest(path)  # undamaged, and so without a warning
    assert_resumes_to(uninterrupted, path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_killed_at_any_moment(seed: int, uninterrupted: Path, tmp_path: Path) -> None:
    """As above, with a checkpoint after every update, so that most kills hit one that is being written."""
    path = tmp_path / "run"
    config = evolve(CONFIG, checkpoint_every=1)
    rng = np.random.default_rng(seed)
    for _ in range(12):
        kill_after(config, path, rng.uniform(0, 0.1))
        newest(path)
    assert_resumes_to(uninterrupted, path)


def assert_resumes_to(expected: Path, path: Path) -> None:
    summary = path / "summary.json"
    if not summary.exists():
        assert resume(path).finished
    assert_same_run(expected, path)


class Reaper:
    """Kills its own process just before the n-th operation on files that a checkpoint is made of."""

    def __init__(self, operation: int) -> None:
        self._left = operation
        self._lock = threading.Lock()

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            with self._lock:
                self._left -= 1
                if self._left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return counted


def die_while_writing(path: Path, operation: int) -> None:
    reaper = Reaper(operation)
    for owner, name in ((np, "save"), (os, "fsync"), (Path, "rename"), (Path, "write_text"), (os, "unlink")):
        setattr(owner, name, reaper.before(getattr(owner, name)))
    setattr(shutil, "rmtree", reaper.before(shutil.rmtree))  # noqa: B010 - mypy objects to a plain assignment
    resume(path)


@pytest.fixture(scope="module")
def half_done(uninterrupted: Path) -> Path:
    """A run with two checkpoints; resumed, it soon writes the third and removes the first."""
    path = uninterrupted.parent / "half done"
    start(CONFIG, path, should_stop=lambda: len(checkpoints_in(path)) == 2)
    return path


# The first checkpoint after the resume takes about 60 operations: writing, syncing, renaming, removing.
@pytest.mark.parametrize(
    "operation",
    [*range(2, 66, 13), *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, 90) if number % 13 != 2)],
)
def test_killed_in_the_middle_of_a_checkpoint(
    operation: int, half_done: Path, uninterrupted: Path, tmp_path: Path
) -> None:
    path = tmp_path / "run"
    shutil.copytree(half_done, path)
    earlier = newest(path).meta["env_steps"]
    process = processes.Process(target=die_while_writing, args=(path, operation))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert newest(path).meta["env_steps"] >= earlier, "what was safe before the kill is safe after it"
    assert resume(path).finished
    assert_same_run(uninterrupted, path)
    assert not list((path / "checkpoint").glob("incomplete-*"))


def test_checkpoints_at_all_stages_of_writing_were_met(half_done: Path, tmp_path: Path) -> None:
    """The test above is worth its name: its kills leave unfinished folders, and a whole one not yet renamed."""
    found = set()
    for operation in (10, 30, 50):
        path = tmp_path / str(operation)
        shutil.copytree(half_done, path)
        process = processes.Process(target=die_while_writing, args=(path, operation))
        process.start()
        process.join()
        for leftover in (path / "checkpoint").glob("incomplete-*"):
            found.add("with manifest" if (leftover / "manifest.json").exists() else "without manifest")
    assert found == {"with manifest", "without manifest"}
    assert load_newest(half_done / "checkpoint", pytest.fail) is not None
