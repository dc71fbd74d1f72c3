"""Runs side by side on this machine, each in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from revalued.experiments.executor import RunEvent, Stop, ending, launch
from revalued.experiments.run_folders import env_steps_so_far


class ProcessExecutor:
    """Runs side by side, each in a process of its own: `revalued resume PATH --quiet`."""

    def __init__(
        self,
        jobs: int = 1,
        *,
        trust_modules: Sequence[str] = (),
        poll_seconds: float = 0.2,
        patience_seconds: float = 30.0,
    ) -> None:
        self.jobs, self._trusted = jobs, trust_modules
        self._poll_seconds = poll_seconds
        self._patience_seconds = patience_seconds

    def execute(self, runs: Iterable[Path], stop: Callable[[], Stop]) -> Iterator[RunEvent]:
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
