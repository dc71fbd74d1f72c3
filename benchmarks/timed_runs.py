"""A whole training run in a process of its own, timed by its own log."""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.processes import ROOT, clean_environment

WARMUP = 500


class TimedRun:
    """A run that has been started; several may go on at once."""

    def __init__(self, flags: Sequence[str], log_every: int, spanned: int, task: str = "walker-walk") -> None:
        """Start it; it ends `spanned` updates after the first row of its log, some whole evaluations later."""
        self._first, self._last = log_every, log_every + spanned
        (ROOT / "runs").mkdir(exist_ok=True)
        self._folder = tempfile.TemporaryDirectory(dir=ROOT / "runs", prefix="benchmark-")
        self._out = Path(self._folder.name) / "run"
        options = {
            "--out": self._out, "--warmup-env-steps": WARMUP, "--log-every": log_every,
            "--env-steps": WARMUP + 5 * self._last, "--epsilon-decay": 0.9,
        }  # fmt: skip
        pairs = [str(part) for option in options.items() for part in option]
        command = [sys.executable, "-m", "revalued", "train", task, "--quiet", *flags, *pairs]
        self._process = subprocess.Popen(command, cwd=ROOT, env=clean_environment(), stdout=subprocess.DEVNULL)

    def interactions_per_second(self) -> float:
        """Wait for its end; return the rate from the first row of its log to the last."""
        if code := self._process.wait():
            raise RuntimeError(f"the timed run ended with code {code}")
        with (self._out / "metrics.csv").open() as file:
            rows = {int(row["updates"]): row for row in csv.DictReader(file)}
        begin, end = rows[self._first], rows[self._last]
        interactions = int(end["env_steps"]) - int(begin["env_steps"])
        return interactions / (float(end["wall_seconds"]) - float(begin["wall_seconds"]))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()
