"""What the tests of whole runs share: small configurations, comparison of run folders to the bit, real processes."""

from __future__ import annotations

import errno
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from campaign.processes import processes_in_group

from revalued.algorithms.presets import preset
from revalued.cli import main
from revalued.config import TrainConfig
from revalued.run.checkpoint import Checkpoint, load_newest
from revalued.run.folder import RunFolder
from revalued.run.start import start

QUICK: dict[str, Any] = {
    "critics": 2,
    "hidden_size": 32,
    "batch_size": 16,
    "env_steps": 350,
    "warmup_env_steps": 100,
    "eval_every": 20,
    "log_every": 15,
    "threads": 1,
    "device": "cpu",
}
"""50 updates, a fraction of a second."""

CLOCK_COLUMNS = ("wall_seconds", "updates_per_second", "env_steps_per_second")
DEADLINE_SECONDS = 120.0


def quick_config(task: str = "toy-counting", algo: str = "revalued", **changes: Any) -> TrainConfig:
    """Return a small run; any field may be given by its name alone."""
    settings = {**QUICK, **changes}
    if preset(algo).critics == 1 and "critics" not in changes:
        del settings["critics"]
    return evolve(TrainConfig(task=task, algo=algo, algorithm=preset(algo)), **settings)


def evolve(config: TrainConfig, **changes: Any) -> TrainConfig:
    """Change fields of a configuration, whichever part of it they live in."""
    for section in fields(config):
        part = getattr(config, section.name)
        if is_dataclass(part) and not isinstance(part, type):
            own = {field.name: changes.pop(field.name) for field in fields(part) if field.name in changes}
            config = replace(config, **{section.name: replace(part, **own)})  # type: ignore[arg-type]
    return replace(config, **changes)


def train(config: TrainConfig, path: Path) -> Path:
    """Train without interruption and return the folder."""
    _, outcome = start(config, path)
    assert outcome.finished
    return path


def stop_after(cycles: int) -> Callable[[], bool]:
    """Return a `should_stop` that lets so many cycles pass; a cycle is one step of all lanes."""
    left = iter(range(cycles))
    return lambda: next(left, None) is None


def newest(path: Path) -> Checkpoint:
    """Read a run's newest checkpoint; a warning is a failure."""

    def fail(text: str) -> None:
        raise AssertionError(text)

    checkpoint = load_newest(path / "checkpoint", fail)
    assert checkpoint is not None
    return checkpoint


def state_of(path: Path) -> dict[str, Any]:
    """Return everything that the newest checkpoint holds, ready to be compared to the bit."""
    checkpoint = newest(path)
    tensors = {name: (tuple(tensor.shape), tensor.numpy().tobytes()) for name, tensor in checkpoint.tensors.items()}
    arrays = {name: (array.shape, array.dtype.str, array.tobytes()) for name, array in checkpoint.arrays.items()}
    meta = dict(checkpoint.meta)
    meta["record"] = {name: value for name, value in meta["record"].items() if name != "wall_seconds"}
    return {**tensors, **arrays, **meta}


def rows(path: Path, table: str) -> list[dict[str, str]]:
    """Return the rows of a table without the columns that tell the time."""
    folder = RunFolder.open(path)
    found = {"eval.csv": folder.eval_table, "metrics.csv": folder.metric_table}[table].rows()
    return [{name: value for name, value in row.items() if name not in CLOCK_COLUMNS} for row in found]


def assert_same_run(one: Path, other: Path) -> None:
    """Two runs ended in the same state, to the bit, and wrote the same tables."""
    first, second = state_of(one), state_of(other)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
    for table in ("eval.csv", "metrics.csv"):
        assert rows(one, table) == rows(other, table), table


def command(*arguments: str | Path) -> list[str]:
    """Return a command line of this package, run by this interpreter."""
    return [sys.executable, "-m", "revalued", *map(str, arguments)]


def flags_of(config: TrainConfig) -> list[str]:
    """Return the flags of `revalued train` that make this configuration."""
    words = [config.task, "--algo", config.algo, "--seed", str(config.seed)]
    for name in QUICK:
        part = next(getattr(config, f.name) for f in fields(config) if hasattr(getattr(config, f.name), name))
        words += ["--" + name.replace("_", "-"), str(getattr(part, name))]
    return words


def call(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, outside of any terminal."""
    return subprocess.run(
        command(*arguments), cwd=cwd, capture_output=True, text=True, timeout=DEADLINE_SECONDS, stdin=subprocess.DEVNULL
    )


def launch(*arguments: str | Path) -> subprocess.Popen[str]:
    """Start a command in a process group of its own, as a shell does."""
    return subprocess.Popen(
        command(*arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> bool:
    """Wait until something is true; return whether it was before the process ended."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        if process.poll() is not None:
            return condition()
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)
    return True


def checkpoints_in(path: Path) -> list[Path]:
    """Return a run's complete checkpoints, oldest first."""
    return sorted((path / "checkpoint").glob("env-steps-*"))


def end(process: subprocess.Popen[str]) -> None:
    """Make sure that nothing which a test started outlives it."""
    if processes_in_group(process.pid):
        os.killpg(process.pid, signal.SIGKILL)
    with process:  # waits, and closes its pipes
        pass


def assert_says_how_to_go_on(errors: str, path: Path) -> None:
    """The last line of a command that a signal stopped can be copied, whatever the path looks like."""
    assert "Traceback" not in errors
    *_, last = errors.splitlines()
    prefix, _, advice = last.partition(": ")
    assert prefix == "stopped; go on with"
    assert shlex.split(advice) == ["revalued", "resume", str(path)]


def truncate(checkpoint: Path) -> None:
    file = checkpoint / "learner.safetensors"
    file.write_bytes(file.read_bytes()[:-5])


def full_disk(*arguments: Any, **options: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def sign(checkpoint: Path, *names: str) -> None:
    """Put files into the manifest as they are now, as somebody would who wants a changed checkpoint to be accepted."""
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    for name in names:
        data = (checkpoint / name).read_bytes()
        manifest[name] = {"bytes": len(data), "crc32": zlib.crc32(data)}
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))


def refusal(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Return the last line of a command that must refuse."""
    assert main([str(word) for word in words]) in (1, 2)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("revalued: ")
    assert all(line.startswith("warning: ") for line in lines[:-1])
    assert len(lines[-1]) < 1_000
    return lines[-1]
