"""Section `price`: what an update of ten lean critics costs, over one of DecQN's one wide critic."""

from __future__ import annotations

from benchmarks.compare import BUDGET_SECONDS, QUICK_BUDGET_SECONDS, QUICK_ROUNDS
from benchmarks.measures import paired_ratio, summarise
from benchmarks.processes import Timed, alternate
from benchmarks.report import Figure, Report
from benchmarks.sizes import LEAN, TASKS, cores, task_size

COLUMNS = ["task", "threads", "lean ms", "decqn ms", "ratio [quartiles]"]
ROUNDS = 15
TARGET = 1.4
"""Of the project, with all cores."""


def measure(*, quick: bool) -> Report:
    """Alternate updates of the two, with one thread and with all, at every task's sizes."""
    report = Report("price", "An update of lean over one of DecQN: batch 256, neither has a regulariser", COLUMNS)
    kinds = {"lean": LEAN, "decqn": (1, 512)}
    rounds, budget = (QUICK_ROUNDS, QUICK_BUDGET_SECONDS) if quick else (ROUNDS, BUDGET_SECONDS)
    with Timed("benchmarks.timed_updates") as lean, Timed("benchmarks.timed_updates") as decqn:
        processes = {"lean": lean, "decqn": decqn}
        for threads in sorted({1, cores()}):
            for task in ["walker"] if quick else TASKS:
                sizes = {
                    name: task_size(task, critics=critics, beta=0.0, hidden_size=hidden)
                    for name, (critics, hidden) in kinds.items()
                }
                seconds = {
                    name: process.prepare(kind="update", size=sizes[name].to_dict(), threads=threads)
                    for name, process in processes.items()
                }
                times = alternate(processes, rounds, seconds, budget, check=not quick)
                ratio = paired_ratio(times["lean"], times["decqn"])
                medians = {
                    name: summarise([1000 * second for each in listed for second in each]).median
                    for name, listed in times.items()
                }
                report.rows.append(
                    {
                        "task": task, "threads": threads, **{f"{name} ms": medians[name] for name in kinds},
                        "ratio": ratio.median, "ratio [quartiles]": str(ratio),
                    }
                )  # fmt: skip
                title = f"update of lean over DecQN's, {task}, {threads} thread{'s' * (threads > 1)}"
                target = TARGET if threads == cores() else None
                report.figures.append(Figure(title, medians["lean"], "ms", medians["decqn"], ratio.median, target))
    return report
