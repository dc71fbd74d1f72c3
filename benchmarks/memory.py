"""Section `memory`: peak memory of a 500,000-interaction dog run with 10 critics, and what a checkpoint costs."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from typing import Any

from benchmarks.processes import ROOT, clean_environment
from benchmarks.report import Figure, Report


def measure(*, quick: bool) -> Report:
    """Build the pieces of the run in a fresh process and say what each adds."""
    capacity, updates = (20_000, 2) if quick else (500_000, 10)
    (ROOT / "runs").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.memory_stages", str(capacity), str(updates)]
    done = subprocess.run(
        command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, env=clean_environment()
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    title = f"Memory of a dog run, K = 10, replay of {capacity:,}"
    report = Report("memory", title, ["what", "value", "unit"])

    def add(what: str, value: float, unit: str = "MB") -> None:
        report.rows.append({"what": what, "value": value, "unit": unit})

    measured = found["stages"]
    grown = {name: measured[name] - measured[previous] for previous, name in pairwise(measured)}
    parameters = found["parameters"]
    add("interpreter", measured["interpreter"])
    add("imports: torch, simulator and the rest", grown["imports"])
    add("5 environments and the one for tests", grown["environments"])
    add(
        f"learner and first updates, growth (parameters, targets and moments: {4 * parameters:.0f} MB)",
        grown["learner"] + grown["first updates"],
    )
    add(f"replay, growth (its arrays: {found['replay']:.0f} MB)", grown["replay"])
    add("later updates, growth", grown["more updates"])
    add("writing a checkpoint, growth of the peak", found["peak"] - found["peak before checkpoint"])
    add("peak of all", found["peak"])
    add("checkpoint on disk", found["checkpoint on disk"])
    add("checkpoint: training waits", found["checkpoint stall s"], "s")
    add("checkpoint: until it is safe on disk", found["checkpoint safe s"], "s")
    report.figures = [
        Figure(f"peak memory, dog, K = 10, replay of {capacity:,}", found["peak"], "MB"),
        Figure("checkpoint of it: training waits", found["checkpoint stall s"], "s"),
    ]
    report.notes = ["resident memory as Linux counts it; the page cache that files pass through is not in it"]
    return report
