"""How much work an experiment's runs are, how much of it is done, and how long the rest will take.

Nothing is guessed: a run is expected to take as long as finished runs of its kind, which differ from it in nothing but
the seed, took on this machine.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from revalued.config import TrainConfig
from revalued.experiments.overview import WorkStatus
from revalued.experiments.plan import PlannedRun
from revalued.experiments.run_folders import env_steps_so_far, finished_summary
from revalued.run.progress import format_duration
from revalued.run.provenance import machine


class Workload:
    """The runs of an experiment by folder; equal configurations have the same folder and are trained once."""

    def __init__(self, planned: Sequence[PlannedRun], paths: Sequence[Path], jobs: int) -> None:
        self.runs: dict[Path, PlannedRun] = {}
        for path, run in zip(paths, planned, strict=True):
            self.runs.setdefault(path, run)
        self.jobs = jobs
        self.finished: set[Path] = set()
        self._machine = machine()
        self._seconds: dict[TrainConfig, list[float]] = {}  # of finished runs, by kind
        self._env_steps = {path: env_steps_so_far(path) for path in self.runs}
        self._running: list[Path] = []
        for path, run in self.runs.items():
            summary = finished_summary(path, run.config.schedule.env_steps)
            if summary is not None:
                self.note_finished(path, summary)

    @property
    def to_do(self) -> list[Path]:
        """Return the runs that are not finished, in the order of the plan."""
        return [path for path in self.runs if path not in self.finished]

    @property
    def side_by_side(self) -> int:
        """Return how many of the runs that are left go on at once."""
        return max(min(self.jobs, len(self.to_do)), 1)

    def begun(self, path: Path) -> None:
        """Note that a run is going on."""
        self._running.append(path)

    def reached(self, path: Path, env_steps: int) -> None:
        """Note how far a run has come."""
        self._env_steps[path] = env_steps

    def ended(self, path: Path, summary: Mapping[str, Any] | None = None) -> None:
        """Note that a run goes on no more; `summary` is that of a finished one."""
        self._running.remove(path)
        if summary is not None:
            self.note_finished(path, summary)

    def status(self) -> WorkStatus:
        """Return where all runs stand."""
        total = sum(run.config.schedule.env_steps for run in self.runs.values())
        done = sum(self._fraction(path) * run.config.schedule.env_steps for path, run in self.runs.items())
        return WorkStatus(
            finished=len(self.finished),
            total=len(self.runs),
            fraction=done / total if total else 1.0,
            time_left=self._time_left(),
            running=tuple((self.runs[path].title, self._fraction(path)) for path in self._running),
        )

    def expected_seconds(self, path: Path) -> float | None:
        """Return how long a whole run takes, None where no run of its kind has been finished on this machine."""
        measured = self._seconds.get(_kind(self.runs[path]))
        return statistics.median(measured) if measured else None

    def unmeasured(self) -> int:
        """Return how many of the runs that are left are of a kind that has not been measured."""
        return sum(self.expected_seconds(path) is None for path in self.to_do)

    def seconds_left(self) -> float:
        """Return how long the runs take that are left and can be estimated."""
        left = [
            seconds * (1.0 - self._fraction(path))
            for path in self.to_do
            if (seconds := self.expected_seconds(path)) is not None
        ]
        return max(sum(left) / self.side_by_side, max(left, default=0.0))

    def _time_left(self) -> str:
        unmeasured = self.unmeasured()
        if unmeasured == len(self.to_do) > 0:
            return ""
        return f"{'more than ' if unmeasured else ''}{format_duration(self.seconds_left())} left"

    def note_finished(self, path: Path, summary: Mapping[str, Any]) -> None:
        """Note that a run is finished, and how long it took if that was on this machine."""
        self.finished.add(path)
        if summary.get("machine") == self._machine:
            self._seconds.setdefault(_kind(self.runs[path]), []).append(float(summary["wall_seconds"]))

    def _fraction(self, path: Path) -> float:
        if path in self.finished:
            return 1.0
        return min(self._env_steps[path] / self.runs[path].config.schedule.env_steps, 1.0)


def _kind(run: PlannedRun) -> TrainConfig:
    return dataclasses.replace(run.config, seed=0)
