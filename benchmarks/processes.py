"""Measuring in processes of their own, by message: what is measured never shares a thread pool with its rival.

A process waits for one line of JSON at a time; while it waits it does nothing, so alternating between processes
measures each as if it were alone. This file needs only the standard library: the peers'
environment has nothing else of ours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.quiet import ROUNDS

ROOT = Path(__file__).resolve().parent.parent
# torch's own threads spin for 200 milliseconds after their work before they sleep
SETTLE_SECONDS = 0.25


def serve(prepare: Callable[[dict[str, Any]], Callable[[], object]]) -> None:
    """Answer until the other side hangs up: prepare something, then time it as often as asked."""
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever a library prints must not look like an answer
    work: Callable[[], object] = lambda: None  # noqa: E731
    for line in sys.stdin:
        message = json.loads(line)
        if "prepare" in message:
            work = prepare(message["prepare"])
            for _ in range(3):
                work()
            answer: Any = _times(work, 3)
        elif "seconds" in message:
            answer = _times_within(work, message["seconds"])
        else:
            answer = _times(work, message["repetitions"])
        print(json.dumps(answer), file=answers, flush=True)


def _times(work: Callable[[], object], repetitions: int) -> list[float]:
    seconds = []
    for _ in range(repetitions):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return seconds


def _times_within(work: Callable[[], object], seconds: float) -> list[float]:
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        times += _times(work, 1)
    return times


class Timed:
    """Another process that runs `serve`."""

    def __init__(self, module: str, python: str | Path = sys.executable) -> None:
        self._process = subprocess.Popen(
            [str(python), "-m", module],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean_environment(),
        )  # fmt: skip

    def prepare(self, **what: Any) -> float:
        """Build what is to be measured and run it a few times; return about how many seconds it takes."""
        return float(min(self._ask({"prepare": what})))

    def time(self, repetitions: int) -> list[float]:
        """Return the seconds of that many repetitions."""
        time.sleep(SETTLE_SECONDS)
        return self._ask({"repetitions": repetitions})

    def begin(self, seconds: float) -> None:
        """Let it work for so long, and do not wait for it."""
        self._send({"seconds": seconds})

    def finish(self) -> list[float]:
        """Wait for what has begun and return the seconds of all its repetitions."""
        return self._receive()

    def _ask(self, message: Mapping[str, Any]) -> list[float]:
        self._send(message)
        return self._receive()

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        print(json.dumps(message), file=self._process.stdin, flush=True)

    def _receive(self) -> list[float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the measuring process ended with code {self._process.wait()}")
        answer: list[float] = json.loads(line)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def clean_environment() -> dict[str, str]:
    """Return the environment without settings that would change thread counts behind our back."""
    changing = ("OMP_", "MKL_", "KMP_", "GOMP_")
    return {name: value for name, value in os.environ.items() if not name.startswith(changing)}


def alternate(
    rivals: Mapping[str, Timed],
    rounds: int,
    seconds: Mapping[str, float],
    budget_seconds: float,
    *,
    check: bool,
) -> dict[str, list[list[float]]]:
    """Time all rivals in turn, for several rounds; each gets about `budget_seconds` per round, 3 repetitions at least.

    Every second round goes backwards, so that none always profits from what came before it. With `check`, only rounds
    before and after which nothing else was running count.
    """

    def one_round(number: int) -> dict[str, list[float]]:
        order = list(rivals)[:: 1 if number % 2 == 0 else -1]
        return {name: rivals[name].time(max(3, int(budget_seconds / seconds[name]))) for name in order}

    found = ROUNDS.repeat(rounds, one_round, check=check)
    return {name: [times[name] for times in found] for name in rivals}
