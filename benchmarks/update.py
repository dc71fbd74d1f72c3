"""Section `update`: time of one gradient update against the floor, at walker and dog sizes, several ensembles."""

from __future__ import annotations

from benchmarks.compare import against_floor, update_processes
from benchmarks.report import Figure, Report
from benchmarks.sizes import LEAN, task_size

COLUMNS = [
    "task", "loss", "K", "H", "update ms", "torch engine ms", "stacked ms", "threads ms", "blocks ms",
    "in C ms", "floor", "ratio [quartiles]", "floor GFLOP/s",
]  # fmt: skip
TIMED_TASKS = ["walker", "dog"]
# of the project: ratios of update and floor
TARGETS = {
    ("walker", 10, 512): 1.25, ("dog", 10, 512): 1.12, ("walker", 1, 512): 1.35, ("dog", 1, 512): 1.35,
    ("walker", *LEAN): 1.15, ("dog", *LEAN): 1.15,
}  # fmt: skip


def measure(*, quick: bool) -> Report:
    """Measure both with REValueD's loss and 1, 3, 5 and 10 critics, lean ones, and with DecQN's loss."""
    report = Report("update", "One update: batch 256, all cores", COLUMNS)
    ensembles = [1, 10] if quick else [1, 3, 5, 10]
    lean = [LEAN] if quick else [(10, 128), LEAN, (10, 192), (10, 256)]
    kinds = [("decqn", 0.0, 1, 512), *(("revalued", 0.5, k, h) for k, h in [*((k, 512) for k in ensembles), *lean])]
    with update_processes() as processes:
        for task in TIMED_TASKS:
            for loss, beta, critics, hidden in kinds:
                size = task_size(task, critics=critics, beta=beta, hidden_size=hidden)
                row = against_floor(processes, size, quick=quick)
                report.rows.append({"task": task, "loss": loss, "K": critics, "H": hidden, **row})
                report.figures.append(
                    Figure(
                        f"update, {task}, {loss} loss, K = {critics}, H = {hidden}",
                        row["update ms"],
                        "ms",
                        row["floor ms"],
                        row["ratio"],
                        TARGETS.get((task, critics, hidden)),
                    )
                )
    report.notes = [
        "update: the engine that a run uses here by default; torch engine: the same in PyTorch operations",
        "floor: the matrix products alone, merged as the learner merges them; the best of four arrangements:",
        "stacked = torch.bmm over all critics with torch's threads; threads = a critic per Python thread;",
        "blocks = the same with the batch in two halves, one after the other; in C = as threads, with our own products",
    ]
    return report
