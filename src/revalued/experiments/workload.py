"""How much work an experiment's runs are, how much of it is done, and how long the rest will take.

A run is expected to take as long as finished runs of its kind, which differ from it in nothing but the seed, took on
this machine. Where there are none, finished runs on the same task, by the arithmetic of their updates, and runs with
the same critics stand for them, by their time per interaction; nothing is known before any run has finished.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from revalued.config import TrainConfig
from revalued.experiments.overview import WorkStatus
from revalued.experiments.plan import PlannedRun
from revalued.experiments.run_folders import env_steps_so_far, finished_summary
from revalued.run.progress import format_duration
from revalued.run.provenance import machine


class Workload:
    """The runs of an experiment by folder; equal configurations have the same folder and are trained once.

    `recorded` runs are finished too: tables of results hold them, whether or not their folders are still there.
    """

    def __init__(
        self,
        planned: Sequence[PlannedRun],
        paths: Sequence[Path],
        jobs: int,
        recorded: Mapping[Path, Mapping[str, Any]] = MappingProxyType({}),
    ) -> None:
        self.runs: dict[Path, PlannedRun] = {}
        for path, run in zip(paths, planned, strict=True):
            self.runs.setdefault(path, run)
        self.jobs = jobs
        self.finished: set[Path] = set()
        self._machine = machine()
        self._kinds = {path: dataclasses.replace(run.config, seed=0) for path, run in self.runs.items()}
        self._seconds: dict[TrainConfig, list[float]] = {}  # of runs finished on this machine, by kind
        self._expected: dict[Path, float | None] = {}  # what they lead to, until another one finishes
        self._env_steps = {path: env_steps_so_far(path) for path in self.runs}
        self._running: list[Path] = []
        for path, run in self.runs.items():
            summary: Mapping[str, Any] | None = finished_summary(path, run.config.schedule.env_steps)
            summary = recorded.get(path) if summary is None else summary
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
        """Return how long a whole run takes, None where no run has been finished on this machine."""
        if path not in self._expected:
            self._expected[path] = self._estimate(self._kinds[path])
        return self._expected[path]

    def _estimate(self, wanted: TrainConfig) -> float | None:
        if wanted in self._seconds:
            return statistics.median(self._seconds[wanted])
        rates = {kind: statistics.median(times) / kind.schedule.env_steps for kind, times in self._seconds.items()}
        scaled = {kind: rate * _cost(wanted) / _cost(kind) for kind, rate in rates.items()}
        on_task = [rate for kind, rate in scaled.items() if kind.task == wanted.task]
        alike = [rate for kind, rate in rates.items() if _critics(kind) == _critics(wanted)]
        nearest = [statistics.median(found) for found in (on_task, alike) if found] or list(scaled.values())
        return statistics.mean(nearest) * wanted.schedule.env_steps if nearest else None

    def unmeasured(self) -> int:
        """Return how many of the runs that are left are of a kind that has not been measured."""
        return sum(self._kinds[path] not in self._seconds for path in self.to_do)

    @property
    def is_measured(self) -> bool:
        """Tell whether anything is known about the time that runs take here."""
        return bool(self._seconds)

    def core_seconds_left(self, paths: Iterable[Path] | None = None) -> float:
        """Return how long those runs, or all, take one after the other, as far as that can be said."""
        return sum(self._seconds_left_of(path) for path in (self.runs if paths is None else paths))

    def seconds_left(self) -> float:
        """Return how long it takes until all runs are done, as far as that can be said."""
        longest = max((self._seconds_left_of(path) for path in self.to_do), default=0.0)
        return max(self.core_seconds_left() / self.side_by_side, longest)

    def _seconds_left_of(self, path: Path) -> float:
        return (self.expected_seconds(path) or 0.0) * (1.0 - self._fraction(path))

    def _time_left(self) -> str:
        if self.to_do and not self.is_measured:
            return ""
        return f"about {format_duration(self.seconds_left())} left"

    def note_finished(self, path: Path, summary: Mapping[str, Any]) -> None:
        """Note that a run is finished, and how long it took if that was on this machine."""
        self.finished.add(path)
        if summary.get("machine") == self._machine and summary.get("wall_seconds") is not None:
            self._seconds.setdefault(self._kinds[path], []).append(float(summary["wall_seconds"]))
            self._expected.clear()

    def _fraction(self, path: Path) -> float:
        if path in self.finished:
            return 1.0
        return min(self._env_steps[path] / self.runs[path].config.schedule.env_steps, 1.0)


def _critics(config: TrainConfig) -> tuple[object, ...]:
    """Return what the cost of an update depends on, besides the task."""
    return config.algorithm, config.learner, config.schedule.updates_per_env_step


def _cost(config: TrainConfig) -> float:
    """Return about how long an interaction takes; in a run with ten lean critics two thirds of it are the update."""
    learner, lean = config.learner, 10 * 160**2 * 256 * 0.2
    work = config.algorithm.critics * learner.hidden_size**2 * learner.batch_size * config.schedule.updates_per_env_step
    return 1 / 3 + 2 / 3 * work / lean
