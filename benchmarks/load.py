"""Section `load`: updates and whole runs, with one thread and with all, alone, beside busy programs, two at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from benchmarks.measures import summarise
from benchmarks.processes import Timed
from benchmarks.quiet import ROUNDS
from benchmarks.report import Figure, Report, Row
from benchmarks.sizes import LEAN, Size, cores, task_size
from benchmarks.timed_runs import TimedRun

COLUMNS = ["what", "K", "H", "beside", "1 thread ms", "all threads ms", "ratio", "rounds"]
SHAPES = [(1, 512), (3, 512), (5, 256), (10, 160), (10, 512)]
BESIDE = {"nothing": 0, "one busy program": 1, "two busy programs": 2, "another run": 0}
NUM_ROUNDS, SECONDS = 7, 1.0
QUICK_SECONDS = 0.1
RUN_ROUNDS, RUN_SPAN = 5, (200, 600)
"""The first row of a run's log, and how many updates are timed after it."""
QUICK_SPAN = (20, 40)
SLOWEST = {"one busy program": 1.1, "two busy programs": 1.1, "another run": 1 / 0.95}


def measure(*, quick: bool) -> Report:
    """Measure walker sizes in all four situations; what stands against one thread is one per core."""
    title = "Beside other programs, walker: an update (batch 256, REValueD's loss), a run of lean per interaction"
    report = Report("load", title, COLUMNS)
    rounds, seconds = (1, QUICK_SECONDS) if quick else (NUM_ROUNDS, SECONDS)
    for critics, hidden in SHAPES[:2] if quick else SHAPES:
        size = task_size("walker", critics=critics, hidden_size=hidden)
        with ExitStack() as stack:
            # two of each, for the time when two runs go on at once
            processes = {
                threads: [stack.enter_context(Timed("benchmarks.timed_updates")) for _ in range(2)]
                for threads in (1, cores())
            }
            for threads, pair in processes.items():
                for process in pair:
                    process.prepare(kind="update", size=size.to_dict(), threads=threads)
            for beside in BESIDE:
                found = ROUNDS.repeat(rounds, partial(_round, processes, beside, seconds), check=not quick)
                _add(report, "update", size, beside, found)
    for beside in BESIDE:
        found = ROUNDS.repeat(1 if quick else RUN_ROUNDS, partial(_round_of_runs, beside, quick), check=not quick)
        _add(report, "run", task_size("walker", critics=LEAN[0], hidden_size=LEAN[1]), beside, found)
    report.notes = [
        f"all threads: {cores()}, one per core; beside another run: the mean of two processes that update at once",
        "a busy program is an endless loop of Python; nothing else ran before and after a round",
    ]
    return report


def _round(processes: dict[int, list[Timed]], beside: str, seconds: float, number: int) -> dict[int, float]:
    """Return milliseconds per update by number of threads; every second round goes backwards."""
    found = {}
    with _busy_programs(BESIDE[beside]):
        for threads in list(processes)[:: 1 if number % 2 == 0 else -1]:
            at_once = processes[threads] if beside == "another run" else processes[threads][:1]
            for process in at_once:
                process.begin(seconds)
            times = [process.finish() for process in at_once]
            found[threads] = 1000 * sum(sum(each) / len(each) for each in times) / len(times)
    return found


def _round_of_runs(beside: str, quick: bool, number: int) -> dict[int, float]:
    """Return milliseconds per interaction by number of threads: one, and as many as a run takes by default."""
    found = {}
    flags = {1: ["--threads", "1"], cores(): []}
    with _busy_programs(BESIDE[beside]), ExitStack() as stack:
        for threads in list(flags)[:: 1 if number % 2 == 0 else -1]:
            runs = [
                stack.enter_context(TimedRun(["--algo", "lean", *flags[threads]], *(QUICK_SPAN if quick else RUN_SPAN)))
                for _ in range(2 if beside == "another run" else 1)
            ]
            found[threads] = 1000 * sum(1 / run.interactions_per_second() for run in runs) / len(runs)
    return found


@contextmanager
def _busy_programs(count: int) -> Iterator[None]:
    # in sessions of their own, as programs of other windows are: Linux shares processors fairly among sessions
    command = [sys.executable, "-c", "while True: pass"]
    programs = [subprocess.Popen(command, start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def _add(report: Report, what: str, size: Size, beside: str, found: list[dict[int, float]]) -> None:
    times = {threads: summarise([each[threads] for each in found]) for threads in found[0]}
    ratio = summarise([each[cores()] / each[1] for each in found])
    row: Row = {
        "what": what, "K": size.critics, "H": size.hidden_size, "beside": beside, "rounds": len(found),
        "1 thread ms": times[1].median, "all threads ms": times[cores()].median, "ratio": ratio.median,
        "ratio quartiles": [ratio.lower_quartile, ratio.upper_quartile], "size": size.to_dict(), "all": found,
    }  # fmt: skip
    report.rows.append(row)
    name = f"{what}, walker, K = {size.critics}, H = {size.hidden_size}, beside {beside}: all threads over one"
    report.figures.append(Figure(name, times[cores()].median, "ms", times[1].median, ratio.median, SLOWEST.get(beside)))
