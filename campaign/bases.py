"""Sound runs that attempts damage, kill and compare with; made once per campaign."""

from __future__ import annotations

import csv
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from campaign.processes import POLL_SECONDS, Child, start

SECONDS = 120.0
QUICK = (
    "--critics", "2", "--hidden-size", "16", "--batch-size", "8", "--warmup-env-steps", "60", "--eval-every", "10",
    "--log-every", "7", "--threads", "1", "--replay-capacity", "500", "--checkpoint-every", "5", "--quiet",
)  # fmt: skip
RUN = ("toy-levers", *QUICK, "--env-steps", "300")
"""48 updates, a fraction of a second."""
_CLOCKS = ("wall_seconds", "updates_per_second", "env_steps_per_second")


def make(folder: Path) -> Path:
    """Train a run to its end, and one that was stopped half-way, in this folder."""
    train(folder, "whole", RUN)
    stopped = start(["train", *RUN, "--out", "stopped"], folder)
    while stopped.is_running() and len(list((folder / "stopped" / "checkpoint").glob("env-steps-*"))) < 2:
        time.sleep(POLL_SECONDS)
    stopped.signal(signal.SIGTERM)
    stopped.wait(SECONDS)
    return folder


def train(folder: Path, name: str, arguments: Sequence[str]) -> None:
    """Train a run that must not fail."""
    ended = start(["train", *arguments, "--out", name], folder).wait(SECONDS)
    if ended.code != 0:
        raise RuntimeError(f"a sound run could not be made: {ended.errors}")


def difference(one: Path, other: Path, folder: Path) -> str:
    """Return in which respects two runs differ to the bit, '' where they do not; read in a process of its own."""
    child = Child(lambda: _print_difference(one, other), folder, "difference")
    ended = child.wait(SECONDS)
    return ended.output.strip() if ended.code == 0 else f"cannot be compared: {ended.errors}"


def _print_difference(one: Path, other: Path) -> int:
    first, second = _state(one), _state(other)
    different = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    print(", ".join(different))
    return 0


def _state(path: Path) -> dict[str, Any]:
    from revalued.run.checkpoint import load_newest

    checkpoint = load_newest(path / "checkpoint", print)
    if checkpoint is None:
        return {"checkpoint": None}
    tensors = {name: tensor.numpy().tobytes() for name, tensor in checkpoint.tensors.items()}
    arrays = {name: array.tobytes() for name, array in checkpoint.arrays.items()}
    meta = {name: value for name, value in checkpoint.meta.items() if name != "record"}
    tables = {name: _rows(path / name) for name in ("eval.csv", "metrics.csv")}
    return {**tensors, **arrays, **meta, **tables}


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return [{name: value for name, value in row.items() if name not in _CLOCKS} for row in csv.DictReader(file)]
