"""Runs side by side on this machine, each in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

from revalued.experiments.executor import RunEvent, Stop, ending, launch
from revalued.experiments.run_folders import env_steps_so_far

_PATIENCE_SECONDS, _POLL_SECONDS = 30.0, 0.2


class ProcessExecutor:
    """Runs side by side, each in a process of its own: `revalued resume PATH --quiet`."""

    def __init__(self, jobs: int, *, trust_modules: Sequence[str] = ()) -> None:
        self.jobs, self._trusted = jobs, trust_modules

    def execute(self, runs: Iterable[Path], stop: Callable[[], Stop]) -> Iterator[RunEvent]:
        """Carry out all runs, `jobs` at a time."""
        waiting = iter(runs)
        running: dict[Path, subprocess.Popen[bytes]] = {}
        told = Stop.NO
        try:
            while True:
                while len(running) < self.jobs and stop() is Stop.NO and (path := next(waiting, None)) is not None:
                    running[path] = launch(path, self._trusted)
                    yield RunEvent("started", path)
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
                        yield RunEvent("progress", path, env_steps_so_far(path))
                    else:
                        del running[path]
                        yield ending(path, code, stopped=told is not Stop.NO)
                time.sleep(_POLL_SECONDS)
        finally:
            _end(running.values())


def _end(processes: Collection[subprocess.Popen[bytes]]) -> None:
    """Leave nothing running, whatever made the iteration end."""
    for process in processes:
        process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for process in processes:
        try:
            process.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
