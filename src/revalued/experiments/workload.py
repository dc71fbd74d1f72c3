"""How much work an experiment's runs are, how much of it is done, and how long the rest will take."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from revalued.experiments.estimates import calibration, estimate_seconds
from revalued.experiments.overview import Standing
from revalued.experiments.plan import PlannedRun
from revalued.experiments.run_status import env_steps_so_far, finished_summary


class Workload:
    """The runs of an experiment by folder; runs with the same folder are one."""

    def __init__(self, runs: Mapping[Path, PlannedRun], jobs: int) -> None:
        self.runs, self.jobs = runs, jobs
        estimates = {path: _estimate(run) for path, run in runs.items()}
        summaries = {path: finished_summary(path, run.config.schedule.env_steps) for path, run in runs.items()}
        self.finished = {path for path, summary in summaries.items() if summary is not None}
        measured = [
            (float(summary["wall_seconds"]), estimates[path])
            for path, summary in summaries.items()
            if summary is not None
        ]
        self.is_calibrated = bool(measured)
        slowness = calibration(measured)
        self._seconds = {path: slowness * estimate for path, estimate in estimates.items()}
        self._env_steps = {path: 0 if path in self.finished else env_steps_so_far(path) for path in runs}
        self._running: list[Path] = []
        self._began, self._done_before = time.monotonic(), self._done_seconds()

    @property
    def to_do(self) -> list[Path]:
        """Return the runs that are not finished, in the order of the plan."""
        return [path for path in self.runs if path not in self.finished]

    def begun(self, path: Path) -> None:
        """Note that a run is going on."""
        self._running.append(path)

    def reached(self, path: Path, env_steps: int) -> None:
        """Note how far a run has come."""
        self._env_steps[path] = env_steps

    def ended(self, path: Path, *, finished: bool) -> None:
        """Note that a run goes on no more."""
        self._running.remove(path)
        if finished:
            self.finished.add(path)

    def standing(self) -> Standing:
        """Return where all runs stand."""
        total = sum(self._seconds.values())
        return Standing(
            finished=len(self.finished),
            total=len(self.runs),
            fraction=self._done_seconds() / total if total else 1.0,
            seconds_left=self.seconds_left(),
            running=tuple((self.runs[path].title, self._fraction(path)) for path in self._running),
        )

    def seconds_left(self) -> float:
        """Return an estimate that trusts what was seen since the beginning the more, the longer that was."""
        left = sum(self._seconds.values()) - self._done_seconds()
        side_by_side = max(min(self.jobs, len(self.to_do)), 1)
        elapsed, done = time.monotonic() - self._began, self._done_seconds() - self._done_before
        # As if a minute at the estimated speed had gone before: the first reading is no measurement yet.
        speed = (done + 60.0 * side_by_side) / (elapsed + 60.0)
        return left / speed

    def longest_seconds(self) -> float:
        """Return how long the longest run that is not finished takes."""
        return max((self._seconds[path] for path in self.to_do), default=0.0)

    def _done_seconds(self) -> float:
        return sum(seconds * self._fraction(path) for path, seconds in self._seconds.items())

    def _fraction(self, path: Path) -> float:
        if path in self.finished:
            return 1.0
        return min(self._env_steps[path] / self.runs[path].config.schedule.env_steps, 1.0)


def by_folder(runs: Sequence[PlannedRun], paths: Sequence[Path]) -> dict[Path, PlannedRun]:
    """Return the first run of each folder, in order: equal configurations are trained once."""
    found: dict[Path, PlannedRun] = {}
    for run, path in zip(runs, paths, strict=True):
        found.setdefault(path, run)
    return found


def _estimate(run: PlannedRun) -> float:
    threads = run.config.execution.threads
    return estimate_seconds(run.config, len(os.sched_getaffinity(0)) if threads is None else threads)
