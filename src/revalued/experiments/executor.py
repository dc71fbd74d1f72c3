"""How run folders become finished runs: what every executor offers, and the process that trains one run.

Two executors stand behind it: processes on this machine (`process_executor`) and places on a cluster (`ray_executor`).
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Literal, Protocol

from revalued.errors import UserError
from revalued.experiments.run_folders import LOG_NAME, begin_log, last_log_line
from revalued.run.folder import RunFolder

_PR_SET_PDEATHSIG = 1


class Stop(IntEnum):
    """Whether work is to end before it is done."""

    NO = 0
    GENTLY = 1
    """Runs write a checkpoint and end."""
    NOW = 2
    """Runs are killed; they go on from their last checkpoint."""


@dataclass(frozen=True)
class RunEvent:
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

    def execute(self, runs: Iterable[Path], stop: Callable[[], Stop]) -> Iterator[RunEvent]:
        """Carry out all runs and tell what happens; each ends as finished, failed, or (after a stop) interrupted.

        `runs` is to be drawn from when there is room for another run: each folder is made at that moment. Events come
        at least once a second while runs are going on. When the iterator is closed nothing is left running.
        """
        ...


def end_with_parent() -> None:
    """Let a training process write a checkpoint and end when it is told to, or when its parent dies (on Linux)."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # a Ray of our own holds it back, see `connect`
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def launch(path: Path, trust_modules: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start the process that trains a run, with its output in the run's log; it does not outlive this one.

    The task comes from the plan, whose modules are trusted. A run that was ended before its first checkpoint begins
    anew, with what it wrote set aside. Modules are found where this process finds them, and not in the folder in which
    it happens to work (-P).
    """
    words = [word for name in trust_modules for word in ("--trust-module", name)]
    with suppress(UserError):  # a damaged folder: the process will say the same, in the run's log
        if RunFolder.open(path).may_restart_unasked():
            words.append("--restart")
    begin_log(path)
    with (path / LOG_NAME).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "revalued", "resume", str(path), "--quiet", *words],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C in the terminal reaches only us, and we tell it once
            preexec_fn=end_with_parent,
        )


def ending(path: Path, code: int, *, stopped: bool) -> RunEvent:
    """Return how a run's process ended, from its exit code."""
    if code == 0:
        return RunEvent("finished", path)
    if stopped:
        return RunEvent("interrupted", path)
    if code < 0:
        return RunEvent(
            "failed", path, message=f"ended by {signal.Signals(-code).name}; {last_log_line(path)}".rstrip("; ")
        )
    return RunEvent("failed", path, message=last_log_line(path) or f"exit code {code}")
