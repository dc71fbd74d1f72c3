"""Whole runs on a cluster: each has a place on some node, and goes on elsewhere when that node is lost.

Runs live in folders on storage that all nodes share. A `Keeper` is a Ray actor that holds the run's CPUs and GPUs and
keeps the process that trains: `revalued resume PATH`, the same as with `--jobs`, so the results are the same too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from revalued.experiments.executor import RunEvent, Stop, ending, launch
from revalued.experiments.run_folders import env_steps_so_far, finished_summary
from revalued.run.folder import RunFolder

_PATIENCE_SECONDS, _PAUSE_SECONDS = 120.0, 0.2
_RETRIES = 5
_WAITING_FOR_ROOM = 2
"""Runs that ask for a place ahead of time: a cluster that grows by itself needs to see what is wanted."""


class Keeper:
    """Keeps one training process on whatever node it was placed."""

    def __init__(self, path: str, trust_modules: Sequence[str] = ()) -> None:
        self._path, self._trusted = Path(path), trust_modules
        self._process: subprocess.Popen[bytes] | None = None  # None: there is nothing left to do

    def start(self) -> str:
        """Start training; return why that is not possible, or nothing."""
        if not (self._path / "config.json").is_file():
            return f"{self._path} is not on storage that node {os.uname().nodename} shares"
        # a run whose keeper died may still be writing its checkpoint, or its end
        deadline = time.monotonic() + _PATIENCE_SECONDS
        folder = RunFolder.open(self._path)
        while folder.is_in_use() and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
        if finished_summary(self._path, folder.config().schedule.env_steps) is None:
            self._process = launch(self._path, self._trusted)
        return ""

    def wait(self, seconds: float) -> int | None:
        """Return the exit code, or None while training goes on."""
        try:
            return 0 if self._process is None else self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self, number: int) -> None:
        """Send the training process a signal."""
        if self._process is not None:
            self._process.send_signal(number)


@dataclass
class _Place:
    """A run that has, or waits for, a place on the cluster."""

    keeper: Any
    call: Any
    """The answer that is awaited: of `start`, then of `wait` again and again."""
    is_training: bool = False
    losses: int = 0
    """How often its node or keeper died since it last got further."""
    env_steps: int = 0


class RayExecutor:
    """Carries out runs on a Ray cluster that `ray_link.connect` has joined."""

    def __init__(
        self,
        ray: ModuleType,
        *,
        cpus: float = 1.0,
        gpus: float = 0.0,
        jobs: int | None = None,
        trust_modules: Sequence[str] = (),
        say: Callable[[str], None] = lambda text: None,
        poll_seconds: float = 0.5,
    ) -> None:
        self._ray, self._jobs, self._say, self._poll_seconds = ray, jobs, say, poll_seconds
        self._trusted = tuple(trust_modules)
        self._remote = ray.remote(num_cpus=cpus, num_gpus=gpus, max_restarts=0, max_task_retries=0)(Keeper)
        self._places: dict[Path, _Place] = {}
        self._told = Stop.NO

    def execute(self, runs: Iterable[Path], stop: Callable[[], Stop]) -> Iterator[RunEvent]:
        """Carry out all runs, as many at a time as there is room for."""
        waiting = iter(runs)
        try:
            while True:
                while stop() is Stop.NO and self._has_room() and (path := next(waiting, None)) is not None:
                    self._places[path] = self._place(path)
                self._tell(stop())
                if not self._places:
                    return
                yield from self._news()
        finally:
            for place in self._places.values():
                self._ray.kill(place.keeper, no_restart=True)
            self._places.clear()

    def _has_room(self) -> bool:
        if self._jobs is not None and len(self._places) >= self._jobs:
            return False
        return sum(not place.is_training for place in self._places.values()) < _WAITING_FOR_ROOM

    def _place(self, path: Path) -> _Place:
        keeper = self._remote.remote(str(path.resolve()), self._trusted)
        return _Place(keeper, keeper.start.remote())

    def _tell(self, wanted: Stop) -> None:
        if wanted <= self._told:
            return
        self._told = wanted
        number = signal.SIGTERM if wanted is Stop.GENTLY else signal.SIGKILL
        for path, place in list(self._places.items()):
            if place.is_training:
                place.keeper.stop.remote(int(number))
            else:  # it has not begun
                self._leave(path)

    def _news(self) -> Iterator[RunEvent]:
        """Wait for a moment and tell what has happened."""
        began = time.monotonic()
        calls = {place.call: path for path, place in self._places.items()}
        ready, _ = self._ray.wait(list(calls), num_returns=len(calls), timeout=self._poll_seconds)
        for call in ready:
            event = self._answered(calls[call])
            if event is not None:
                yield event
        for path, place in self._places.items():
            if place.is_training:
                yield RunEvent("progress", path, env_steps_so_far(path))
        time.sleep(max(self._poll_seconds - (time.monotonic() - began), 0.0))

    def _answered(self, path: Path) -> RunEvent | None:
        place = self._places[path]
        try:
            answer = self._ray.get(place.call)
        except self._ray.exceptions.RayTaskError as error:
            self._leave(path)
            return RunEvent("failed", path, message=str(error.cause))
        except self._ray.exceptions.RayError as error:
            return self._lost(path, type(error).__name__)
        if place.is_training:
            if answer is None:
                place.call = place.keeper.wait.remote(self._poll_seconds)
                return None
            self._leave(path)
            return ending(path, answer, stopped=self._told is not Stop.NO)
        if answer:
            self._leave(path)
            return RunEvent("failed", path, message=answer)
        place.is_training = True
        place.call = place.keeper.wait.remote(self._poll_seconds)
        return RunEvent("started", path)

    def _lost(self, path: Path, reason: str) -> RunEvent | None:
        """Begin again where the newest checkpoint is; a run that never gets further is given up."""
        before = self._places[path]
        self._leave(path)
        if self._told is not Stop.NO:
            return RunEvent("interrupted", path)
        env_steps = env_steps_so_far(path)
        losses = 1 if env_steps > before.env_steps else before.losses + 1
        if losses > _RETRIES:
            return RunEvent("failed", path, message=f"lost {losses} times without getting further, last by {reason}")
        self._say(f"lost {path.name} ({reason}): it goes on from its newest checkpoint")
        self._places[path] = place = self._place(path)
        place.losses, place.env_steps = losses, env_steps
        return None

    def _leave(self, path: Path) -> None:
        place = self._places.pop(path)
        self._ray.kill(place.keeper, no_restart=True)
