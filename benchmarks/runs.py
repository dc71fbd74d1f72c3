"""Section `runs`: interactions per second of whole training runs, started from the command line."""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.compare import ROUNDS_OF_A_POINT, against_floor, update_processes
from benchmarks.measures import summarise
from benchmarks.processes import ROOT, Timed, clean_environment
from benchmarks.quiet import ROUNDS
from benchmarks.report import Figure, Report
from benchmarks.sizes import LEAN, task_size

# The authors' public code on walker-walk, interactions per second: measured once, on another machine with 2 cores,
# whose floor for K = 10 at walker sizes was 68 to 76 ms.
AUTHORS = {"decqn": 173.0, "revalued": 31.0}
LEAN_RUN = "revalued, 10 of width 160"
FLAGS: dict[str, list[str]] = {
    "decqn": ["--algo", "decqn"],
    "revalued": ["--algo", "revalued"],
    LEAN_RUN: ["--algo", "revalued", "--critics", str(LEAN[0]), "--hidden-size", str(LEAN[1])],
}
WORKERS = {"decqn": (0, 1), "revalued": (0, 1), LEAN_RUN: (0, 1, 2)}
AUTHORS_FLOOR_MS = 72.0
TARGETS = {"decqn": 2.2, "revalued": 1.8}
WARMUP = 500
COLUMNS = ["algorithm", "workers", "interactions/s", "lower quartile", "upper quartile", "runs"]


def measure(*, quick: bool) -> Report:
    """Alternate short runs of all kinds, without and with workers."""
    report = Report("runs", "Whole runs of walker-walk", COLUMNS)
    kinds = [(name, workers) for name in FLAGS for workers in WORKERS[name]]
    rates: dict[tuple[str, int], list[float]] = {kind: [] for kind in kinds}
    # What a run would make with the reference's matrix products: a faster processor is not our merit.
    adjusted: dict[tuple[str, int], list[float]] = {kind: [] for kind in kinds}
    rounds = 1 if quick else 3
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
    return _rate(algo, workers, quick=quick)


def _rate(algo: str, workers: int, *, quick: bool) -> float:
    """Return the interactions per second from the first row of the log to one some whole evaluations later."""
    log_every, spanned = (20, 100) if quick else (200, 1000 if algo == "revalued" else 2000)
    last = log_every + spanned
    (ROOT / "runs").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "runs", prefix="benchmark-") as folder:
        out = Path(folder) / "run"
        options = {
            "--workers": workers, "--out": out, "--warmup-env-steps": WARMUP, "--log-every": log_every,
            "--env-steps": WARMUP + 5 * last, "--epsilon-decay": 0.9,
        }  # fmt: skip
        pairs = [str(part) for option in options.items() for part in option]
        command = [sys.executable, "-m", "revalued", "train", "walker-walk", "--quiet", *FLAGS[algo], *pairs]
        subprocess.run(command, cwd=ROOT, env=clean_environment(), check=True, stdout=subprocess.DEVNULL)
        with (out / "metrics.csv").open() as file:
            rows = {int(row["updates"]): row for row in csv.DictReader(file)}
    begin, end = rows[log_every], rows[last]
    interactions = int(end["env_steps"]) - int(begin["env_steps"])
    return interactions / (float(end["wall_seconds"]) - float(begin["wall_seconds"]))
