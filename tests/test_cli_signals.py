"""Ctrl-C and SIGTERM on real processes: a checkpoint, the command to go on, and nothing left running."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from campaign.processes import left_in_group, processes_in_group

from revalued.run.folder import RunFolder
from revalued.run.start import resume
from run_helpers import (
    assert_says_how_to_go_on,
    checkpoints_in,
    end,
    flags_of,
    launch,
    newest,
    quick_config,
    stop_after,
    wait_for,
)

ENDLESS = quick_config("toy-levers", env_steps=10_000_000, eval_every=10)


def to_process(process: int, number: int) -> None:
    os.kill(process, number)


def to_group(process: int, number: int) -> None:
    """As a terminal does for Ctrl-C and a scheduler for SIGTERM: every process of the group gets it."""
    os.killpg(process, number)


def evaluations(path: Path) -> int:
    file = path / "eval.csv"
    return file.read_text().count("\n") - 1 if file.exists() else 0


@pytest.mark.parametrize(
    ("number", "send", "workers", "quiet"),
    [
        pytest.param(signal.SIGINT, to_group, 2, False, id="Ctrl-C with workers"),
        pytest.param(signal.SIGTERM, to_group, 2, True, id="SIGTERM from a scheduler, with workers"),
        pytest.param(signal.SIGINT, to_process, 0, False, id="SIGINT", marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, to_process, 0, False, id="SIGTERM", marks=pytest.mark.slow),
    ],
)
def test_a_signal_becomes_a_checkpoint(
    number: int, send: Callable[[int, int], None], workers: int, quiet: bool, tmp_path: Path
) -> None:
    path = tmp_path / "my run"  # a path that has to be quoted
    quietly = ["--quiet"] if quiet else []
    process = launch("train", *flags_of(ENDLESS), "--out", path, "--workers", str(workers), *quietly)
    try:
        assert wait_for(lambda: evaluations(path) >= 2, process), process.communicate()
        assert len(processes_in_group(process.pid)) >= 1 + workers
        send(process.pid, number)
        output, errors = process.communicate(timeout=60)
        assert left_in_group(process.pid) == []
    finally:
        end(process)
    assert (process.returncode, output) == (128 + number, "")
    assert_says_how_to_go_on(errors, path)
    assert ("writing a checkpoint" in errors) != quiet
    env_steps = newest(path).meta["env_steps"]
    summary = RunFolder.open(path).summary()
    assert summary is not None
    assert (summary["finished"], summary["env_steps"]) == (False, env_steps)
    assert resume(path, should_stop=stop_after(20)).summary["env_steps"] == env_steps + 100


def test_kill_9_leaves_no_workers_behind(tmp_path: Path) -> None:
    path = tmp_path / "run"
    process = launch("train", *flags_of(ENDLESS), "--out", path, "--workers", "2", "--checkpoint-every", "5")
    try:
        assert wait_for(lambda: len(checkpoints_in(path)) >= 2, process), process.communicate()
        process.kill()
        _, errors = process.communicate(timeout=60)
        assert left_in_group(process.pid) == []
    finally:
        end(process)
    assert "Traceback" not in errors
    newest(path)


@pytest.mark.slow
def test_ctrl_c_before_training_has_begun(tmp_path: Path) -> None:
    """Whenever it comes, there is no traceback, and a folder that exists can be resumed."""
    path = tmp_path / "run"
    process = launch("train", *flags_of(ENDLESS), "--out", path, "--workers", "2")
    try:
        assert wait_for(lambda: (path / "config.json").exists(), process)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert left_in_group(process.pid) == []
    finally:
        end(process)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert resume(path, should_stop=stop_after(20)).summary["env_steps"] >= 100
