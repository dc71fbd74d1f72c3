"""Section `scaling`: how an update's time grows with critics, their width, bins and action dimensions."""

from __future__ import annotations

from benchmarks.compare import ROUNDS_OF_A_POINT, against_floor, update_processes
from benchmarks.measures import fit_line
from benchmarks.processes import Timed
from benchmarks.report import Figure, Report, Row
from benchmarks.sizes import TASKS, Size, task_size

COLUMNS = ["series", "task", "value", "update ms", "floor ms", "floor", "ratio [quartiles]", "floor GFLOP/s"]
CRITICS = [1, 2, 5, 10, 20]
BINS = [3, 10, 30, 100]
WIDTHS = [64, 128, 160, 192, 256, 512]
DIMENSIONS = [1, 4, 12, 24, 38]


def measure(*, quick: bool) -> Report:
    """Measure the four series, each with everything else fixed."""
    report = Report("scaling", "Scaling of one update (REValueD loss, batch 256, hidden 512 but for H)", COLUMNS)
    tasks = ["walker"] if quick else ["walker", "dog"]
    with update_processes() as processes:
        for task in tasks:
            sizes = {critics: task_size(task, critics=critics) for critics in _some(CRITICS, quick)}
            rows = _series(processes, "K", task, sizes, quick)
            report.rows += rows
            report.figures.append(_linearity(task, rows))
        for task in tasks:
            report.rows += _series(
                processes, "bins", task, {bins: task_size(task, bins=bins) for bins in _some(BINS, quick)}, quick
            )
        for task in tasks:
            widths = {hidden: task_size(task, hidden_size=hidden) for hidden in _some(WIDTHS, quick)}
            report.rows += _series(processes, "H", task, widths, quick)
        observations = TASKS["walker"][0]
        report.rows += _series(
            processes, "N", "walker", {n: Size(observations, n) for n in _some(DIMENSIONS, quick)}, quick
        )
    widest = [row for row in report.rows if row["series"] == "bins"][-1]
    report.figures.append(
        Figure(
            f"update, {widest['task']} with {widest['value']} bins, K = 10",
            widest["update ms"],
            "ms",
            widest["floor ms"],
            widest["ratio"],
        )
    )
    report.notes = [
        "bins, H and N: K = 10; N: with walker's 24 observations and 3 bins",
        f"with {widest['value']} bins the head has {_head_size(widest):,} outputs; its products are "
        f"{_head_share(widest):.0%} of the floor's arithmetic",
    ]
    return report


def _some(values: list[int], quick: bool) -> list[int]:
    return values[::3] if quick else values


def _series(processes: dict[str, Timed], series: str, task: str, sizes: dict[int, Size], quick: bool) -> list[Row]:
    return [
        {
            "series": series,
            "task": task,
            "value": value,
            **against_floor(processes, size, quick=quick, num_rounds=ROUNDS_OF_A_POINT),
        }
        for value, size in sizes.items()
    ]


def _linearity(task: str, rows: list[Row]) -> Figure:
    """Return how far the times are from a straight line over K; growing faster than linearly would show there."""
    line = fit_line([row["value"] for row in rows], [row["update ms"] for row in rows])
    name = f"update, {task}: {line.intercept:.3g} + {line.slope:.3g} K ms, largest deviation from it"
    return Figure(name, 100 * line.largest_deviation, "%")


def _head_size(row: Row) -> int:
    size = Size(**row["size"])
    return size.num_dimensions * size.bins


def _head_share(row: Row) -> float:
    size = Size(**row["size"])
    # one product in each of the three forward passes, two in the backward pass
    head = 5 * size.batch_size * size.hidden_size * _head_size(row) * size.critics
    return head / int(row["multiply-adds"])
