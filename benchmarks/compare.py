"""Updates of one size against their floor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from benchmarks.floor import ARRANGEMENTS
from benchmarks.measures import paired_ratio, summarise
from benchmarks.processes import Timed, alternate
from benchmarks.products import multiply_adds
from benchmarks.report import Row
from benchmarks.sizes import Size

ROUNDS, BUDGET_SECONDS = 7, 0.2
ROUNDS_OF_A_POINT = 5  # on a curve, whose other points tell whether one is off
QUICK_ROUNDS, QUICK_BUDGET_SECONDS = 2, 0.1


@contextmanager
def update_processes() -> Iterator[dict[str, Timed]]:
    """Start one process for the learner, one for the learner without C code, one for each arrangement of the floor."""
    with ExitStack() as stack:
        kinds = ("update", "torch engine", *ARRANGEMENTS)
        yield {kind: stack.enter_context(Timed("benchmarks.timed_updates")) for kind in kinds}


def against_floor(processes: dict[str, Timed], size: Size, *, quick: bool, num_rounds: int = ROUNDS) -> Row:
    """Measure one size; the floor is the arrangement with the smallest median. Times are in ms."""
    seconds = {kind: process.prepare(kind=kind, size=size.to_dict()) for kind, process in processes.items()}
    rounds, budget = (QUICK_ROUNDS, QUICK_BUDGET_SECONDS) if quick else (num_rounds, BUDGET_SECONDS)
    times = alternate(processes, rounds, seconds, budget, check=not quick)
    samples = {
        kind: summarise([1000 * second for seconds in listed for second in seconds]) for kind, listed in times.items()
    }
    best = min(ARRANGEMENTS, key=lambda kind: samples[kind].median)
    ratio = paired_ratio(times["update"], times[best])
    work = multiply_adds(size)
    return {
        "size": size.to_dict(),
        "update ms": samples["update"].median,
        "update quartiles ms": [samples["update"].lower_quartile, samples["update"].upper_quartile],
        "torch engine ms": samples["torch engine"].median,
        **{f"{kind} ms": samples[kind].median for kind in ARRANGEMENTS},
        "floor": best,
        "floor ms": samples[best].median,
        "floor quartiles ms": [samples[best].lower_quartile, samples[best].upper_quartile],
        "ratio": ratio.median,
        "ratio quartiles": [ratio.lower_quartile, ratio.upper_quartile],
        "ratio [quartiles]": str(ratio),
        "multiply-adds": work,
        "floor GFLOP/s": 2 * work / samples[best].median / 1e6,
    }
