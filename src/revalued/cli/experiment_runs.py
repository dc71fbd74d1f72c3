"""What `revalued reproduce` and `revalued sweep` share: the plan on the screen, signals, and how it ended."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from revalued.cli.where import Where
from revalued.errors import UserError
from revalued.experiments.executor import Stop
from revalued.experiments.ledger import Ledger
from revalued.experiments.naming import parse_task
from revalued.experiments.overview import make_overview
from revalued.experiments.plan import Experiment, PlannedRun, scale_note
from revalued.experiments.result_files import RESULTS
from revalued.experiments.runner import ExperimentOutcome, carry_out, workload_of
from revalued.experiments.scales import Scale
from revalued.experiments.workload import Workload
from revalued.run.progress import format_duration

_DEFAULT_JOBS = 2


@dataclass
class StopRequest:
    """Ctrl-C and SIGTERM: the first lets runs write a checkpoint, the second kills them."""

    received: list[int] = field(default_factory=list)

    def __call__(self) -> Stop:
        """Return how runs are to end, if they are."""
        return Stop(min(len(self.received), Stop.NOW))

    def note(self, number: int, frame: FrameType | None) -> None:
        """Take a signal."""
        self.received.append(number)
        text = b"stopping: runs write their checkpoints ...\n" if len(self.received) == 1 else b"killing the runs\n"
        os.write(2, b"\n" + text)  # not print: the signal may have come in the middle of another one

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the signals of this process for a while."""
        previous = {number: signal.signal(number, self.note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def settle_jobs(
    jobs: int | None, planned: Sequence[PlannedRun], experiment: Experiment | None = None, *, on_cluster: bool = False
) -> int:
    """Return how many runs go on side by side; on a cluster all of them may, its size is the limit."""
    if jobs is not None and jobs < 1:
        raise UserError(f"jobs = {jobs} is not possible: it must be at least 1")
    if experiment is not None and experiment.alone:
        return 1
    if on_cluster and jobs is None:
        return len(planned)
    return min(_DEFAULT_JOBS, len(os.sched_getaffinity(0))) if jobs is None else jobs


def check_tasks(planned: Sequence[PlannedRun], tasks: Sequence[str]) -> None:
    """Refuse tasks that do not exist or whose simulator is not installed, before anything starts."""
    from revalued.envs import module_of, search_working_folder, task_of

    if any(module_of(run.config.task) for run in planned):  # named on this command line, or by an experiment of ours
        search_working_folder()
    names = {parse_task(task).task for task in tasks}
    first_of = {run.config.task: run.config for run in reversed(planned)}
    for name in sorted(names):
        task_of(first_of[name])


def show_plan(experiment: Experiment, scale: Scale, planned: Sequence[PlannedRun], out: Path, jobs: int) -> int:
    """Print what would be done."""
    from rich.console import Console
    from rich.table import Table

    ledger = Ledger(experiment, scale, planned, out)
    work = workload_of(ledger, jobs)
    table = Table(title=f"{experiment.name}: {experiment.title}", title_justify="left")
    for column in ("variant", "critics", "tasks", "seeds", "runs", "finished"):
        table.add_column(column, justify="left" if column == "variant" else "right")
    for variant in dict.fromkeys(run.variant for run in planned):
        runs = [run for run in planned if run.variant == variant]
        done = sum(ledger.path_of(run) in work.finished for run in runs)
        counts = (len({run.task for run in runs}), len({run.seed for run in runs}), len(runs), done)
        table.add_row(variant, str(runs[0].config.algorithm.critics), *map(str, counts))
    console = Console(markup=False, highlight=False, soft_wrap=True)
    console.print(f"{experiment.source}.\n{experiment.compares}")
    console.print(table)
    console.print("tasks: " + ", ".join(dict.fromkeys(run.task for run in planned)))
    console.print(_note(experiment, scale, planned))
    console.print(_time_line(work))
    console.print(f"results: {ledger.folder}, runs: {out / 'runs'}")
    return 0


def _note(experiment: Experiment, scale: Scale, planned: Sequence[PlannedRun]) -> str:
    seeds, tasks = sorted({run.seed for run in planned}), list(dict.fromkeys(run.task for run in planned))
    return scale_note(experiment, scale, planned, seeds, tasks)


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


def train_all(
    experiment: Experiment,
    scale: Scale,
    planned: Sequence[PlannedRun],
    out: Path,
    jobs: int,
    *,
    quiet: bool,
    command: Sequence[str],
    where: Where,
) -> int:
    """Train what is not trained yet; say how it ended and how to go on."""
    from revalued.envs import module_of

    view = make_overview(quiet=quiet)
    stop = StopRequest()
    try:
        work = workload_of(Ledger(experiment, scale, planned, out), jobs)
        view.say(f"{experiment.name}: {experiment.title}\n{_note(experiment, scale, planned)}\n{_time_line(work)}")
        modules = sorted({module_of(run.config.task) for run in planned} - {""})  # from the plan, not from any file
        with where.executor(jobs, view.say, modules) as executor, stop.listening():
            outcome = carry_out(experiment, scale, planned, out, executor, view, jobs=jobs, stop=stop)
    finally:
        view.close()
    return _conclude(outcome, stop, quiet=quiet, command=command)


def _conclude(outcome: ExperimentOutcome, stop: StopRequest, *, quiet: bool, command: Sequence[str]) -> int:
    for failure in outcome.failures:
        print(f"revalued: failed: {failure.title}: {failure.message} (log: {failure.log})", file=sys.stderr)
    if not outcome.is_complete:
        left = outcome.runs - outcome.finished
        again = f"go on with the same command: revalued {shlex.join(command)}"
        print(f"{left} of {_counted(outcome.runs)} not finished; {again}", file=sys.stderr)
        return 128 + stop.received[0] if stop.received else 1
    if not quiet:
        print(f"{_counted(outcome.finished)} finished; results in {outcome.folder / RESULTS}")
    return 0


def _counted(runs: int) -> str:
    return f"{runs} run{'s' if runs != 1 else ''}"
