"""Ctrl-C, SIGTERM and kill -9 on a learner with real actors: a checkpoint, the way to go on, nothing left running."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from campaign.processes import left_in_group

from cluster_helpers import assert_intact, replay_of
from revalued.run.start import resume
from run_helpers import (
    assert_says_how_to_go_on,
    checkpoints_in,
    end,
    evolve,
    flags_of,
    launch,
    newest,
    quick_config,
    wait_for,
)

pytest.importorskip("ray")
ENDLESS = quick_config(env_steps=10_000_000, eval_every=10**6, n_step=1, num_envs=2, checkpoint_every=20)
ACTORS = ["--actors", "2", "--num-envs", "2", "--block-steps", "4", "--n-step", "1", "--checkpoint-every", "20"]


def actor_processes(path: Path) -> list[int]:
    """Return Ray's actor processes that descend from a run in this folder: they have groups of their own."""
    found = []
    for status in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"REVALUED_TEST_RUN={path}".encode() in status.read_bytes().split(b"\0"):
                found.append(int(status.parent.name))
        except OSError:
            continue
    return found


def nothing_left(path: Path) -> bool:
    deadline = time.monotonic() + 120  # Ray's helpers look after their parent only now and then
    while actor_processes(path) and time.monotonic() < deadline:
        time.sleep(0.2)
    return not actor_processes(path)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_everybody_becomes_a_checkpoint(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "my run"
    monkeypatch.setenv("REVALUED_TEST_RUN", str(path))
    process = launch("train", *flags_of(ENDLESS), *ACTORS, "--out", path)
    monkeypatch.delenv("REVALUED_TEST_RUN")
    try:
        assert wait_for(lambda: len(checkpoints_in(path)) >= 2, process), process.communicate()
        os.killpg(process.pid, number)
        output, errors = process.communicate(timeout=60)
        assert left_in_group(process.pid) == []
        assert nothing_left(path)
    finally:
        end(process)
    assert (process.returncode, output) == (128 + number, "")
    assert_says_how_to_go_on(errors, path)
    config = evolve(ENDLESS, actors=2, replay_capacity=500_000)
    assert_intact(config, replay_of(path), newest(path).meta["env_steps"], 1)


@pytest.mark.slow
def test_kill_9_and_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run"
    monkeypatch.setenv("REVALUED_TEST_RUN", str(path))
    process = launch("train", *flags_of(ENDLESS), *ACTORS, "--out", path)
    monkeypatch.delenv("REVALUED_TEST_RUN")
    try:
        assert wait_for(lambda: len(checkpoints_in(path)) >= 2, process), process.communicate()
        process.kill()
        process.communicate(timeout=60)
        assert nothing_left(path)
    finally:
        end(process)
    saved = newest(path).meta
    assert saved["env_steps"] > 0
    outcome = resume(path, env_steps=saved["env_steps"] + 400)
    assert outcome.finished
    env_steps = outcome.summary["env_steps"]
    assert env_steps >= saved["env_steps"] + 400
    assert outcome.summary["updates"] == (env_steps - 100) // 5
    assert_intact(evolve(ENDLESS, actors=2), replay_of(path), env_steps, 2)
