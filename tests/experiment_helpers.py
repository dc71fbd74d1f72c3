"""A small experiment on toy tasks, and an executor that trains in this process."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from revalued.experiments.executor import Executor, RunEvent, Stop
from revalued.experiments.ledger import Ledger
from revalued.experiments.naming import Setting
from revalued.experiments.overview import Overview
from revalued.experiments.plan import Experiment, PlannedRun, Variant, plan
from revalued.experiments.runner import carry_out
from revalued.experiments.scales import Scale
from revalued.experiments.workload import Workload
from revalued.run.folder import RunFolder
from revalued.run.start import resume
from run_helpers import QUICK, stop_after

SCALE = Scale(
    name="smoke",
    seeds=2,
    critics=2,
    env_steps=350,
    overrides={name: value for name, value in QUICK.items() if name not in ("critics", "env_steps")},
)
"""As quick as `run_helpers.QUICK`: 50 updates, evaluations after 20, 40 and 50 of them."""

TOY = Experiment(
    name="toy",
    title="Toys",
    source="No figure",
    compares="Two algorithms on toys.",
    variants=(Variant("decqn", "DecQN", {"algo": "decqn"}), Variant("revalued", "REValueD", {"algo": "revalued"})),
    tasks={"paper": ("toy-levers", "toy-counting"), "laptop": ("toy-levers",), "smoke": ("toy-levers",)},
)


class InThisProcess:
    """Trains one run after the other, without new processes; a run may be stopped or made to fail."""

    def __init__(self, fails: Callable[[Path], bool] = lambda path: False, stops_in_run: int | None = None) -> None:
        self.trained: list[Path] = []
        self._fails, self._stops_in_run = fails, stops_in_run

    def execute(self, paths: Iterable[Path], stop: Callable[[], Stop]) -> Iterator[RunEvent]:
        for number, path in enumerate(paths):
            yield RunEvent("started", path)
            is_new = RunFolder.open(path).may_restart_unasked()
            if self._fails(path):
                yield RunEvent("failed", path, message="the arm fell off")
                continue
            if number == self._stops_in_run:
                resume(path, should_stop=stop_after(40), restart=is_new)
                yield RunEvent("interrupted", path)
                return
            self.trained.append(path)
            resume(path, restart=is_new)
            yield RunEvent("finished", path)


def planned(seeds: int | None = None, tasks: tuple[str, ...] = (), experiment: Experiment = TOY) -> list[PlannedRun]:
    return plan(experiment, SCALE, seeds, tasks)


class Outcome(NamedTuple):
    runs: int
    finished: int
    failures: dict[Path, str]

    @property
    def is_complete(self) -> bool:
        return self.finished == self.runs


def carry_out_toy(
    out: Path,
    executor: Executor,
    seeds: int | None = None,
    tasks: tuple[str, ...] = (),
    experiment: Experiment = TOY,
    jobs: int = 1,
) -> Outcome:
    ledger = Ledger(experiment, SCALE, planned(seeds, tasks, experiment), out)
    work = Workload(ledger.planned, ledger.paths, jobs)
    failures = carry_out([ledger], work, executor, Overview())
    return Outcome(len(work.runs), len(work.finished), failures)


def read_csv(path: Path, without: tuple[str, ...] = ("wall_s",)) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return [{name: value for name, value in row.items() if name not in without} for row in csv.DictReader(file)]


NOISY = Setting(reward_noise=0.1)
