"""How run folders become finished runs: the interface, and its implementation by processes on this machine."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Literal, Protocol

from revalued.experiments.run_status import LOG_NAME, begin_log, env_steps_so_far, last_log_line


class Stop(IntEnum):
    """Whether work is to end before it is done."""

    NO = 0
    GENTLY = 1
    """Runs write a checkpoint and end."""
    NOW = 2
    """Runs are killed; they go on from their last checkpoint."""


@dataclass(frozen=True)
class Event:
    """Something that happened to a run."""

    kind: Literal["started", "progress", "finished", "failed", "interrupted"]
    path: Path
    """Folder of the run."""
    env_steps: int = 0
    """Interactions so far, of a run in progress."""
    message: str = ""
    """Why it failed, in one line."""


class Executor(Protocol):
    """Carries out runs whose folders hold a configuration, from scratch or from their newest checkpoint."""

    def execute(self, runs: Iterable[Path], stop: Callable[[], Stop]) -> Iterator[Event]:
        """Carry out all runs and tell what happens; each ends as finished, failed, or (after a stop) interrupted.

        `runs` is to be drawn from when there is room for another run: each folder is made at that moment. Events come
        at least once a second while runs are going on. When the iterator is closed nothing is left running.
        """
        ...


class LocalExecutor:
    """Runs side by side, each in a process of its own: `revalued resume PATH --quiet`."""

    def __init__(self, jobs: int = 1, *, poll_seconds: float = 0.2, patience_seconds: float = 30.0) -> None:
        self.jobs = jobs
        self._poll_seconds = poll_seconds
        self._patience_seconds = patience_seconds

    def execute(self, runs: Iterable[Path], stop: Callable[[], Stop]) -> Iterator[Event]:
        """Carry out all runs, `jobs` at a time."""
        waiting = iter(runs)
        running: dict[Path, subprocess.Popen[bytes]] = {}
        told = Stop.NO
        exhausted = False
        try:
            while True:
                while not exhausted and len(running) < self.jobs and stop() is Stop.NO:
                    path = next(waiting, None)
                    if path is None:
                        exhausted = True
                    else:
                        running[path] = launch(path)
                        yield Event("started", path)
                wanted = stop()
                if wanted > told:
                    for process in running.values():
                        process.send_signal(signal.SIGTERM if wanted is Stop.GENTLY else signal.SIGKILL)
                    told = wanted
                if not running:
                    return
                for path, process in list(running.items()):
                    code = process.poll()
                    if code is None:
                        yield Event("progress", path, env_steps_so_far(path))
                    else:
                        del running[path]
                        yield outcome(path, code, stopped=told is not Stop.NO)
                if len(running) == self.jobs or exhausted or told:
                    time.sleep(self._poll_seconds)
        finally:
            self._end(running.values())

    def _end(self, processes: Iterable[subprocess.Popen[bytes]]) -> None:
        """Leave nothing running, whatever made the iteration end."""
        left = list(processes)
        for process in left:
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + self._patience_seconds
        for process in left:
            try:
                process.wait(max(deadline - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def launch(path: Path, before: Callable[[], None] | None = None) -> subprocess.Popen[bytes]:
    """Start the process that trains a run, with its output in the run's log; it calls `before` first of all."""
    begin_log(path)
    with (path / LOG_NAME).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "revalued", "resume", str(path), "--quiet"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C in the terminal reaches only us, and we tell it once
            preexec_fn=before,
        )


def outcome(path: Path, code: int, *, stopped: bool) -> Event:
    """Return how a run's process ended, from its exit code."""
    if code == 0:
        return Event("finished", path)
    if stopped:
        return Event("interrupted", path)
    if code < 0:
        return Event(
            "failed", path, message=f"ended by {signal.Signals(-code).name}; {last_log_line(path)}".rstrip("; ")
        )
    return Event("failed", path, message=last_log_line(path) or f"exit code {code}")
