"""Section `runs`: interactions per second of whole training runs, started from the command line."""

from __future__ import annotations

from functools import partial

from benchmarks.compare import ROUNDS_OF_A_POINT, against_floor, update_processes
from benchmarks.measures import summarise
from benchmarks.processes import Timed
from benchmarks.quiet import ROUNDS
from benchmarks.report import Figure, Report
from benchmarks.sizes import task_size
from benchmarks.timed_runs import TimedRun

# The authors' public code on walker-walk, interactions per second: measured once, on another machine with 2 cores,
# whose floor for K = 10 at walker sizes was 68 to 76 ms.
AUTHORS = {"decqn": 173.0, "revalued": 31.0}
FLAGS = {algo: ["--algo", algo] for algo in ("decqn", "revalued", "lean")}
WORKERS = {"decqn": (0, 1), "revalued": (0, 1), "lean": (0, 1, 2)}
AUTHORS_FLOOR_MS = 72.0
TARGETS = {"decqn": 2.2, "revalued": 1.8}
COLUMNS = ["algorithm", "workers", "interactions/s", "lower quartile", "upper quartile", "runs"]


def measure(*, quick: bool) -> Report:
    """Alternate short runs of all kinds, without and with workers."""
    report = Report("runs", "Whole runs of walker-walk", COLUMNS)
    kinds = [(name, workers) for name in FLAGS for workers in WORKERS[name]]
    rates: dict[tuple[str, int], list[float]] = {kind: [] for kind in kinds}
    # What a run would make with the reference's matrix products: a faster processor is not our merit.
    adjusted: dict[tuple[str, int], list[float]] = {kind: [] for kind in kinds}
    rounds = 1 if quick else 2
    with update_processes() as processes:
        floors = [_floor(processes, quick=quick)]
        for number in range(rounds):
            for algo, workers in kinds[:: 1 if number % 2 == 0 else -1]:
                (rate,) = ROUNDS.repeat(1, partial(_one_rate, algo, workers, quick), check=not quick)
                floors.append(_floor(processes, quick=quick))
                rates[algo, workers].append(rate)
                # in these very minutes: the machine may have been slower in others
                adjusted[algo, workers].append(rate * (floors[-2] + floors[-1]) / 2 / AUTHORS_FLOOR_MS)
    for (algo, workers), found in rates.items():
        sample, without_speed = summarise(found), summarise(adjusted[algo, workers]).median
        quartiles = {"lower quartile": sample.lower_quartile, "upper quartile": sample.upper_quartile}
        row = {"algorithm": algo, "workers": workers, "interactions/s": sample.median, **quartiles, "runs": len(found)}
        report.rows.append({**row, "all": found, "all, machine's speed taken out": adjusted[algo, workers]})
        name, authors = f"run of {algo}, {workers} workers", AUTHORS.get(algo)
        if authors is None:
            report.figures.append(Figure(name, sample.median, "/s"))
            continue
        report.figures += [
            Figure(f"{name}, as measured", sample.median, "/s", authors, sample.median / authors),
            Figure(
                f"{name}, machine's speed taken out", without_speed, "/s", authors, without_speed / authors,
                TARGETS[algo], at_most=False,
            ),
        ]  # fmt: skip
    floor = summarise(floors).median
    report.notes = [
        "interactions while training, with ε at its minimum and one test episode per 1000 updates (none with --quick)",
        f"reference: the authors' loop, measured on another 2-core machine with a floor of {AUTHORS_FLOOR_MS:g} ms for",
        f"K = 10 at walker sizes; here it takes {floor:.3g} ms: products are {AUTHORS_FLOOR_MS / floor:.2f} × as fast.",
        "'speed taken out' divides a run by that, measured before and after it, as if all of it were matrix products,",
        "which is hard on us: environment steps do not speed up as much. The truth lies between the two ratios",
    ]
    return report


def _floor(processes: dict[str, Timed], *, quick: bool) -> float:
    return float(against_floor(processes, task_size("walker"), quick=quick, num_rounds=ROUNDS_OF_A_POINT)["floor ms"])


def _one_rate(algo: str, workers: int, quick: bool, number: int) -> float:
    log_every, spanned = (20, 100) if quick else (200, 1000 if algo == "revalued" else 2000)
    with TimedRun([*FLAGS[algo], "--workers", str(workers)], log_every, spanned) as run:
        return run.interactions_per_second()
