"""Section `startup`: how long a person waits before anything happens."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from benchmarks.measures import summarise
from benchmarks.processes import ROOT, clean_environment
from benchmarks.report import Figure, Report

_IMPORT_LINE = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)")
HEAVY_HITTERS = 8


def measure(*, quick: bool) -> Report:
    """Time `--help` and the way to the first environment step; list what the imports cost."""
    report = Report("startup", "Start-up", ["what", "value", "unit"])
    repetitions = 2 if quick else 9
    for what, seconds, limit in (
        ("revalued --help", [_help() for _ in range(repetitions)], 0.6),
        ("revalued train walker-walk to its first step", [_first_step() for _ in range(repetitions)], 6.0),
    ):
        sample = summarise(seconds)
        report.rows.append({"what": what, "value": sample.median, "unit": "s", "all": seconds})
        report.figures.append(Figure(what, sample.median, "s", target=limit))
    for what, statement in (
        ("--help", "import revalued.cli"),
        ("train", "import revalued.cli.train, revalued.run.start, dm_control.suite"),
    ):
        for package, seconds_spent in _imports(statement):
            report.rows.append({"what": f"import for {what}: {package}", "value": seconds_spent, "unit": "s"})
    report.notes = ["imports: seconds of a package's own modules, from python -X importtime, which slows them down"]
    return report


def _help() -> float:
    start = time.monotonic()
    command = [sys.executable, "-m", "revalued", "--help"]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, env=clean_environment())
    return time.monotonic() - start


def _first_step() -> float:
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()  # one clock for all processes of a machine
        command = [sys.executable, "-m", "benchmarks.first_step", str(Path(folder) / "run")]
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, env=clean_environment())
        return float(done.stdout.split()[-1]) - start


def _imports(statement: str) -> list[tuple[str, float]]:
    """Return the packages that take the longest to import, with the time of their own modules."""
    command = [sys.executable, "-X", "importtime", "-c", statement]
    environment = {**clean_environment(), "MUJOCO_GL": "disabled"}
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, env=environment)
    seconds: dict[str, float] = defaultdict(float)
    for line in done.stderr.splitlines():
        if match := _IMPORT_LINE.match(line):
            seconds[match[2].split(".")[0]] += int(match[1]) / 1e6
    return sorted(seconds.items(), key=lambda item: -item[1])[:HEAVY_HITTERS]
