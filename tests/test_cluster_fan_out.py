"""Whole runs on a Ray cluster: the same files as with processes, and lost runs that go on elsewhere."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from experiment_helpers import carry_out_toy, read_csv
from revalued.experiments.executor import RunEvent, Stop
from revalued.experiments.process_executor import ProcessExecutor
from revalued.experiments.ray_executor import RayExecutor
from revalued.experiments.run_folders import env_steps_so_far
from revalued.run.folder import RunFolder
from run_helpers import assert_same_run, evolve, quick_config, train

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*:ResourceWarning")]
LONG = quick_config("toy-levers", env_steps=20_000, checkpoint_every=100)


@pytest.fixture(scope="module")
def ray() -> Iterator[ModuleType]:
    from revalued.training.actors.ray_link import connect

    with connect("local", local_cpus=2) as joined:
        yield joined


def by_kind(events: list[RunEvent], kind: str) -> list[str]:
    return [event.path.name for event in events if event.kind == kind]


def training_processes() -> list[int]:
    """Return the processes that train in this machine's run folders below a temporary directory of the tests."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"resume" in words and any(b"test_" in word for word in words):
                found.append(int(entry.name))
    return found


def parent_of(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("PPid"))


def test_results_are_the_files_that_processes_write(ray: ModuleType, tmp_path: Path) -> None:
    assert carry_out_toy(tmp_path / "here", ProcessExecutor(jobs=2), jobs=2).is_complete
    assert carry_out_toy(tmp_path / "there", RayExecutor(ray), jobs=4).is_complete
    here, there = (read_csv(tmp_path / where / "toy" / "results.csv") for where in ("here", "there"))
    assert here == there
    assert len(here) == 12


def test_a_lost_run_goes_on_from_its_checkpoint_to_the_same_end(ray: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "run"
    RunFolder.create(path, LONG)
    news: list[str] = []
    killed: list[int] = []
    events = []
    for event in RayExecutor(ray, say=news.append, poll_seconds=0.2).execute([path], lambda: Stop.NO):
        events.append(event)
        if not killed and env_steps_so_far(path) > 1_500:
            for process in training_processes():
                os.kill(parent_of(process), signal.SIGKILL)  # the keeper, not the run
                killed.append(process)
    assert len(killed) == 1
    assert len(news) == 1
    assert news[0].startswith("lost run (")
    assert by_kind(events, "started") == ["run", "run"]
    assert by_kind(events, "finished") == ["run"]
    assert_same_run(train(evolve(LONG), tmp_path / "uninterrupted"), path)


def test_a_stop_becomes_a_checkpoint(ray: ModuleType, tmp_path: Path) -> None:
    paths = [tmp_path / "one", tmp_path / "two", tmp_path / "three"]
    for path in paths:
        RunFolder.create(path, evolve(LONG, env_steps=10_000_000))
    stop = [Stop.NO]
    events = []
    for event in RayExecutor(ray, jobs=2, poll_seconds=0.2).execute(paths, lambda: stop[0]):
        events.append(event)
        if all(env_steps_so_far(path) > 700 for path in paths[:2]):
            stop[0] = Stop.GENTLY
    assert sorted(by_kind(events, "interrupted")) == ["one", "two"]
    assert not (paths[2] / "log.txt").exists()
    for path in paths[:2]:
        assert list((path / "checkpoint").glob("env-steps-*"))
    deadline = time.monotonic() + 20
    while training_processes() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert training_processes() == []


def test_folders_that_the_nodes_do_not_share_are_told(ray: ModuleType, tmp_path: Path) -> None:
    events = list(RayExecutor(ray).execute([tmp_path / "elsewhere"], lambda: Stop.NO))
    (event,) = events
    assert event.kind == "failed"
    assert "is not on storage that node" in event.message
