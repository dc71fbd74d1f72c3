"""What `revalued reproduce` and `revalued sweep` share: flags, the plan on the screen, signals, and how it ended."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from revalued.errors import UserError
from revalued.experiments.executor import Executor, Stop
from revalued.experiments.ledger import Ledger
from revalued.experiments.naming import parse_task
from revalued.experiments.overview import make_overview
from revalued.experiments.plan import PlannedRun, scale_note
from revalued.experiments.process_executor import ProcessExecutor
from revalued.experiments.result_files import RESULTS
from revalued.experiments.run_folders import LOG_NAME
from revalued.experiments.runner import carry_out
from revalued.experiments.workload import Workload
from revalued.run.progress import format_duration
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


def train_all(ledger: Ledger, runs: FanOut, command: Sequence[str]) -> int:
    """Train what is not trained yet, or only show it; say how it ended and how to go on."""
    from revalued.envs import module_of

    work = Workload(ledger.planned, ledger.paths, _jobs(ledger, runs))
    if runs.dry_run:
        _show_plan(ledger, work)
        return 0
    raise_again()
    view = make_overview(quiet=runs.quiet)
    try:
        view.say(f"{ledger.experiment.name}: {ledger.experiment.title}\n{_note(ledger)}\n{_time_line(work)}")
        modules = sorted(
            {module_of(run.config.task) for run in ledger.planned} - {""}
        )  # from the plan, not from any file
        with _executor(runs, work.jobs, view.say, modules) as executor, noted_stops() as received:
            failures = carry_out(ledger, work, executor, view, lambda: wanted_stop(received))
    finally:
        view.close()
    for path, reason in failures.items():
        print(f"revalued: failed: {work.runs[path].title}: {reason} (log: {path / LOG_NAME})", file=sys.stderr)
    if work.to_do:
        again = f"go on with the same command: revalued {shlex.join(command)}"
        print(f"{len(work.to_do)} of {_counted(len(work.runs))} not finished; {again}", file=sys.stderr)
        return 128 + received[0] if received else 1
    if not runs.quiet:
        print(f"{_counted(len(work.runs))} finished; results in {ledger.folder / RESULTS}")
    return 0


def _jobs(ledger: Ledger, runs: FanOut) -> int:
    """Return how many runs go on side by side; on a cluster all of them may, its size is the limit."""
    if runs.jobs is not None and runs.jobs < 1:
        raise UserError(f"jobs = {runs.jobs} is not possible: it must be at least 1")
    if ledger.experiment.is_timed:
        if runs.jobs not in (None, 1):
            unused = f"one run at a time with all cores, --jobs {runs.jobs} is not used"
            print(f"{ledger.experiment.name} is timed: {unused}", file=sys.stderr)
        return 1
    if runs.jobs is not None:
        return runs.jobs
    return min(_DEFAULT_JOBS, len(os.sched_getaffinity(0))) if runs.cluster is None else len(ledger.planned)


def _show_plan(ledger: Ledger, work: Workload) -> None:
    from rich.console import Console
    from rich.table import Table

    experiment = ledger.experiment
    table = Table(title=f"{experiment.name}: {experiment.title}", title_justify="left")
    for column in ("variant", "critics", "tasks", "seeds", "runs", "finished"):
        table.add_column(column, justify="left" if column == "variant" else "right")
    for variant in dict.fromkeys(run.variant for run in ledger.planned):
        places = {run: path for path, run in zip(ledger.paths, ledger.planned, strict=True) if run.variant == variant}
        done = sum(path in work.finished for path in places.values())
        counts = (len({run.task for run in places}), len({run.seed for run in places}), len(places), done)
        table.add_row(variant, str(next(iter(places)).config.algorithm.critics), *map(str, counts))
    console = Console(markup=False, highlight=False, soft_wrap=True)
    console.print(f"{experiment.source}.\n{experiment.compares}")
    console.print(table)
    console.print("tasks: " + ", ".join(dict.fromkeys(run.task for run in ledger.planned)))
    console.print(f"{_note(ledger)}\n{_time_line(work)}\nresults: {ledger.folder}, runs: {ledger.out / 'runs'}")


def _note(ledger: Ledger) -> str:
    seeds, tasks = {run.seed for run in ledger.planned}, dict.fromkeys(run.task for run in ledger.planned)
    return scale_note(ledger.experiment, ledger.scale, ledger.planned, sorted(seeds), list(tasks))


def _time_line(work: Workload) -> str:
    runs = f"{_counted(len(work.runs))}, {len(work.finished)} finished already"
    if not work.to_do:
        return f"{runs}: nothing to do"
    jobs = f"with {work.side_by_side} job{'s' if work.side_by_side > 1 else ''}"
    unmeasured = work.unmeasured()
    if unmeasured == len(work.to_do):
        return f"{runs}; {jobs}; the time it takes is unknown until the first run of its kind on this machine"
    known = f"about {format_duration(work.seconds_left())} {jobs}, from finished runs on this machine"
    if unmeasured == 0:
        return f"{runs}; {known}"
    counted = _counted(len(work.to_do) - unmeasured)
    return f"{runs}; {counted}: {known}; {_counted(unmeasured)}: unknown until the first run of the kind"


def _counted(runs: int) -> str:
    return f"{runs} run{'s' if runs != 1 else ''}"


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
