"""The plan of experiments on the screen: what there is to do, what is done, and how long the rest takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from revalued.experiments.ledger import Ledger
from revalued.experiments.plan import scale_note
from revalued.experiments.workload import Workload
from revalued.run.progress import format_duration

if TYPE_CHECKING:
    from rich.table import Table

_HOUR = 3600.0


def counted(runs: int) -> str:
    """Return a number of runs in words."""
    return f"{runs} run{'s' if runs != 1 else ''}"


def heading(ledgers: Sequence[Ledger], work: Workload) -> str:
    """Return what is about to be done, in three lines."""
    if len(ledgers) > 1:
        return f"{len(ledgers)} experiments at {ledgers[0].scale.name} scale\n{time_line(work)}"
    (ledger,) = ledgers
    return f"{ledger.experiment.name}: {ledger.experiment.title}\n{_note(ledger)}\n{time_line(work)}"


def show_plan(ledgers: Sequence[Ledger], work: Workload) -> None:
    """Print the plan of one experiment by variants, or of several by their names."""
    from rich.console import Console

    console = Console(markup=False, highlight=False, soft_wrap=True)
    out = ledgers[0].out
    if len(ledgers) > 1:
        console.print(_by_experiment(ledgers, work))
        console.print("own: runs that no line above has, since those that experiments share are trained once")
        console.print("hours, left: of a line's own runs, one after the other")
        console.print(f"{time_line(work)}\nresults: {out}, runs: {out / 'runs'}")
        return
    (ledger,) = ledgers
    console.print(f"{ledger.experiment.source}.\n{ledger.experiment.compares}")
    console.print(_by_variant(ledger, work))
    console.print("tasks: " + ", ".join(dict.fromkeys(run.task for run in ledger.planned)))
    console.print(f"{_note(ledger)}\n{time_line(work)}\nresults: {ledger.folder}, runs: {out / 'runs'}")


def time_line(work: Workload) -> str:
    """Return how many runs there are and how long they take, as far as this machine has measured it."""
    runs = f"{counted(len(work.runs))}, {len(work.finished)} finished already"
    if not work.to_do:
        return f"{runs}: nothing to do"
    jobs = f"with {work.side_by_side} job{'s' if work.side_by_side > 1 else ''}"
    if not work.is_measured:
        return f"{runs}; {jobs}; the time it takes is unknown until the first run has finished on this machine"
    known = f"about {format_duration(work.seconds_left())} {jobs}, from finished runs on this machine"
    unmeasured = work.unmeasured()
    if unmeasured == 0:
        return f"{runs}; {known}"
    return f"{runs}; {known}; {counted(unmeasured)} of kinds that have not been measured yet are estimated from others"


def _table(title: str, *columns: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    return table


def _by_experiment(ledgers: Sequence[Ledger], work: Workload) -> Table:
    """Return a line per experiment; a run belongs to the first that needs it."""
    table = _table(
        f"{len(ledgers)} experiments at {ledgers[0].scale.name} scale",
        "experiment", "tasks", "seeds", "runs", "own", "done", "hours", "left",
    )  # fmt: skip
    seen: set[Path] = set()
    for ledger in ledgers:
        paths = list(dict.fromkeys(ledger.paths))
        own = [path for path in paths if path not in seen]
        seen |= set(own)
        seeds = sorted({_seeds(ledger, task) for task in _tasks(ledger)})
        table.add_row(
            ledger.experiment.name,
            str(len(_tasks(ledger))),
            f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}",
            *_counts(paths, own, work),
        )
    table.add_section()
    table.add_row("together", "", "", *_counts(list(work.runs), list(work.runs), work))
    return table


def _counts(paths: Sequence[Path], own: Sequence[Path], work: Workload) -> list[str]:
    """Return how many runs there are, are of an experiment's own, and are finished, and the hours of its own."""
    hours = (sum(work.expected_seconds(path) or 0.0 for path in own), work.core_seconds_left(own))
    return [
        *(str(number) for number in (len(paths), len(own), len(work.finished.intersection(paths)))),
        *(f"{seconds / _HOUR:.1f}" if work.is_measured else "?" for seconds in hours),
    ]


def _by_variant(ledger: Ledger, work: Workload) -> Table:
    experiment = ledger.experiment
    table = _table(f"{experiment.name}: {experiment.title}", "variant", "critics", "tasks", "seeds", "runs", "finished")
    for variant in dict.fromkeys(run.variant for run in ledger.planned):
        places = {run: path for path, run in zip(ledger.paths, ledger.planned, strict=True) if run.variant == variant}
        done = sum(path in work.finished for path in places.values())
        counts = (len({run.task for run in places}), len({run.seed for run in places}), len(places), done)
        table.add_row(variant, str(next(iter(places)).config.algorithm.critics), *map(str, counts))
    return table


def _tasks(ledger: Ledger) -> list[str]:
    return list(dict.fromkeys(run.task for run in ledger.planned))


def _seeds(ledger: Ledger, task: str) -> int:
    return len({run.seed for run in ledger.planned if run.task == task})


def _note(ledger: Ledger) -> str:
    seeds = sorted({run.seed for run in ledger.planned})
    variants = {run.variant for run in ledger.planned}
    return scale_note(ledger.experiment, ledger.scale, ledger.planned, seeds, _tasks(ledger), variants)
