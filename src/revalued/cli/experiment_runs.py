"""What `revalued reproduce` and `revalued sweep` share: flags, signals, and how it ended."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from revalued.cli.plan_display import counted, heading, show_plan
from revalued.errors import UserError
from revalued.experiments.executor import Executor, Stop
from revalued.experiments.ledger import Ledger
from revalued.experiments.naming import parse_task
from revalued.experiments.overview import make_overview
from revalued.experiments.plan import PlannedRun
from revalued.experiments.process_executor import ProcessExecutor
from revalued.experiments.result_files import RESULTS
from revalued.experiments.run_folders import LOG_NAME
from revalued.experiments.runner import carry_out
from revalued.experiments.whole_plan import recorded_in_all, work_order
from revalued.experiments.workload import Workload
from revalued.run.signals import raise_again

_DEFAULT_JOBS = 2


@dataclass(frozen=True)
class FanOut:
    """How and where the runs are carried out."""

    jobs: int | None = None
    """Runs side by side, one thread each; by default 2, on a cluster as many as fit. Results do not depend on it."""
    dry_run: bool = False
    """Only show what would be done, and how long it takes where that has been measured."""
    quiet: bool = False
    """Print nothing but failures."""
    cluster: str | None = None
    """Fan runs out over a Ray cluster: `auto`, HOST:PORT of its head node, or `local`; --out is on shared storage."""
    cpus_per_run: float = 1.0
    """Cores that each run takes on a cluster."""
    gpus_per_run: float = 0.0
    """GPUs that each run takes on a cluster; a fraction lets runs share one."""


def check_tasks(planned: Sequence[PlannedRun], tasks: Sequence[str]) -> None:
    """Refuse tasks that do not exist or whose simulator is not installed, before anything starts."""
    from revalued.envs import module_of, search_working_folder, task_of

    if any(module_of(run.config.task) for run in planned):  # named on this command line, or by an experiment of ours
        search_working_folder()
    first_of = {run.config.task: run.config for run in reversed(planned)}
    for name in sorted({parse_task(task).task for task in tasks}):
        task_of(first_of[name])


def train_all(ledgers: Sequence[Ledger], runs: FanOut, command: Sequence[str], *, keep_checkpoints: bool = True) -> int:
    """Train what is not trained yet, or only show it; say how it ended and how to go on."""
    phases = [(group, _jobs(group, runs)) for group in _phases(ledgers)]
    recorded = recorded_in_all(ledgers)
    everything = Workload(*work_order(ledgers), max(jobs for _, jobs in phases), recorded)
    if runs.dry_run:
        show_plan(ledgers, everything)
        return 0
    raise_again()
    view = make_overview(quiet=runs.quiet)
    failures: dict[Path, str] = {}
    left: list[Path] = []
    try:
        view.say(heading(ledgers, everything))
        with noted_stops() as received:
            for group, jobs in phases:
                work = Workload(*work_order(group), jobs, recorded)
                with _executor(runs, jobs, view.say, _modules(group)) as executor:
                    failures |= carry_out(
                        group,
                        work,
                        executor,
                        view,
                        lambda: wanted_stop(received),
                        keep_checkpoints=keep_checkpoints,
                    )
                left += work.to_do
    finally:
        view.close()
    for path, reason in failures.items():
        title = everything.runs[path].title
        print(f"revalued: failed: {title}: {reason} (log: {path / LOG_NAME})", file=sys.stderr)
    if left:
        again = f"go on with the same command: revalued {shlex.join(command)}"
        print(f"{len(left)} of {counted(len(everything.runs))} not finished; {again}", file=sys.stderr)
        return 128 + received[0] if received else 1
    if not runs.quiet:
        place = ledgers[0].folder / RESULTS if len(ledgers) == 1 else ledgers[0].out
        print(f"{counted(len(everything.runs))} finished; results in {place}")
    return 0


def _phases(ledgers: Sequence[Ledger]) -> list[list[Ledger]]:
    """Return what goes on together: first what is timed, which has the machine to itself, then all the rest."""
    timed = [ledger for ledger in ledgers if ledger.experiment.is_timed]
    return [group for group in (timed, [ledger for ledger in ledgers if ledger not in timed]) if group]


def _modules(ledgers: Sequence[Ledger]) -> list[str]:
    """Return the modules that tasks name; they come from the plan, not from any file."""
    from revalued.envs import module_of

    return sorted({module_of(run.config.task) for ledger in ledgers for run in ledger.planned} - {""})


def _jobs(ledgers: Sequence[Ledger], runs: FanOut) -> int:
    """Return how many runs go on side by side; on a cluster all of them may, its size is the limit."""
    if runs.jobs is not None and runs.jobs < 1:
        raise UserError(f"jobs = {runs.jobs} is not possible: it must be at least 1")
    experiment = ledgers[0].experiment
    if experiment.is_timed:
        if runs.jobs not in (None, 1):
            unused = f"one run at a time with all cores, --jobs {runs.jobs} is not used"
            print(f"{experiment.name} is timed: {unused}", file=sys.stderr)
        return 1
    if runs.jobs is not None:
        return runs.jobs
    if runs.cluster is not None:
        return sum(len(ledger.planned) for ledger in ledgers)
    return min(_DEFAULT_JOBS, len(os.sched_getaffinity(0)))


@contextmanager
def _executor(runs: FanOut, jobs: int, say: Callable[[str], None], trust_modules: Sequence[str]) -> Iterator[Executor]:
    """Return what carries out the runs, no more than `jobs` at a time: processes here, or on a cluster."""
    if runs.cluster is None:
        yield ProcessExecutor(jobs, trust_modules=trust_modules)
        return
    if runs.cpus_per_run <= 0 or runs.gpus_per_run < 0:
        raise UserError("a run takes more than 0 CPUs and at least 0 GPUs: see --cpus-per-run and --gpus-per-run")
    from revalued.experiments.ray_executor import RayExecutor
    from revalued.training.actors.ray_link import connect

    with connect(runs.cluster) as ray:
        places = {"cpus": runs.cpus_per_run, "gpus": runs.gpus_per_run}
        yield RayExecutor(ray, jobs=jobs, trust_modules=trust_modules, say=say, **places)


@contextmanager
def noted_stops() -> Iterator[list[int]]:
    """Collect Ctrl-C and SIGTERM in a list instead of being interrupted by them."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        text = b"stopping: runs write their checkpoints ...\n" if len(received) == 1 else b"killing the runs\n"
        os.write(2, b"\n" + text)  # not print: the signal may have come in the middle of another one

    previous = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def wanted_stop(received: Sequence[int]) -> Stop:
    """Return how runs are to end: the first signal lets them write a checkpoint, the second kills them."""
    return Stop(min(len(received), Stop.NOW))
