"""The run folder: configuration, evaluation and metric tables, TensorBoard events, checkpoints, summary."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from revalued.config import TrainConfig, from_dict, to_dict
from revalued.errors import UserError

EVAL_COLUMNS = ("updates", "env_steps", "return", "length", "success", "wall_seconds")
METRIC_COLUMNS = (
    "updates", "env_steps", "loss", "td_loss", "regulariser", "mean_q", "mean_target", "td_error", "gradient_norm",
    "epsilon", "train_return", "train_episodes", "updates_per_second", "env_steps_per_second", "staleness",
    "max_staleness", "wall_seconds",
)  # fmt: skip
_PACKAGES = ("revalued", "torch", "numpy", "gymnasium", "dm_control", "mujoco", "metaworld")


class RunFolder:
    """Paths and tables of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.eval_table = Table(path / "eval.csv", EVAL_COLUMNS)
        self.metric_table = Table(path / "metrics.csv", METRIC_COLUMNS)

    @classmethod
    def create(cls, path: Path, config: TrainConfig) -> RunFolder:
        """Make a new folder; one that exists and holds anything is refused."""
        refuse_existing(path)
        path.mkdir(parents=True, exist_ok=True)
        write_json(path / "config.json", to_dict(config))
        folder = cls(path)
        folder.eval_table.create()
        folder.metric_table.create()
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open a folder that `create` made."""
        if not (path / "config.json").is_file():
            raise UserError(f"{path} is no run folder: it has no config.json")
        return cls(path)

    @property
    def checkpoints(self) -> Path:
        """Return where the checkpoints are."""
        return self.path / "checkpoint"

    @property
    def has_checkpoint(self) -> bool:
        """Tell whether there is any checkpoint."""
        return any(self.checkpoints.glob("env-steps-*"))

    @property
    def events(self) -> Path:
        """Return where the TensorBoard events are."""
        return self.path / "tensorboard"

    def config(self) -> TrainConfig:
        """Read the configuration back."""
        path = self.path / "config.json"
        try:
            return from_dict(json.loads(path.read_text()))
        except (ValueError, UserError) as error:
            raise UserError(f"{path} cannot be used: {error}") from error

    def write_config(self, config: TrainConfig) -> None:
        """Replace the configuration (a run that was prolonged)."""
        write_json(self.path / "config.json", to_dict(config))

    def forget_after(self, updates: int, last_evaluation: int) -> None:
        """Drop rows of the tables that a run resumed after so many updates will write again."""
        self.metric_table.forget_after(updates)
        self.eval_table.forget_after(last_evaluation)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training in this folder; the lock ends with its owner, even by kill -9."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            with suppress(OSError):  # a file system without locks
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError as error:
                    raise UserError(f"{self.path} is in use: another process is training there") from error
            yield
        finally:
            os.close(descriptor)

    def is_in_use(self) -> bool:
        """Tell whether a process is training in this folder."""
        try:
            with self.locked():
                return False
        except UserError:
            return True

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write summary.json."""
        write_json(self.path / "summary.json", summary)

    def summary(self) -> dict[str, Any] | None:
        """Read summary.json, None where the run has not got that far."""
        path = self.path / "summary.json"
        if not path.is_file():
            return None
        try:
            data = json.loads(path.read_text())
        except ValueError as error:
            raise UserError(f"{path} cannot be used: {error}") from error
        if not isinstance(data, dict) or not {"finished", "env_steps"} <= data.keys():
            raise UserError(f"{path} cannot be used: it does not say whether the run is finished")
        return data


class Table:
    """A CSV file whose rows are on disk as soon as they are added."""

    def __init__(self, path: Path, columns: tuple[str, ...]) -> None:
        self.path, self.columns = path, columns

    def create(self) -> None:
        """Write the header."""
        self._replace([])

    def add(self, row: Mapping[str, Any]) -> None:
        """Append a row; columns it lacks stay empty, columns the table lacks are an error."""
        unknown = set(row) - set(self.columns)
        if unknown:
            raise ValueError(f"{self.path.name} has no column {', '.join(sorted(unknown))}")
        with self.path.open("a", newline="") as file:
            csv.DictWriter(file, self.columns, restval="").writerow(row)

    def rows(self) -> list[dict[str, str]]:
        """Read all complete rows; none where there is no file."""
        if not self.path.is_file():
            return []
        try:
            with self.path.open(newline="") as file:
                reader = csv.DictReader(file)
                found = [row for row in reader if None not in row.values()]
        except (csv.Error, UnicodeDecodeError) as error:
            raise UserError(f"{self.path} cannot be used: {error}") from error
        if "updates" not in (reader.fieldnames or ()):
            raise UserError(f"{self.path} cannot be used: its first line is not {','.join(self.columns)}")
        return found

    def forget_after(self, updates: int) -> None:
        """Keep rows up to that update; a half-written last row goes too."""
        kept = [row for row in self.rows() if row["updates"].isdigit() and int(row["updates"]) <= updates]
        self._replace(kept)

    def _replace(self, rows: Iterable[Mapping[str, str]]) -> None:
        temporary = self.path.with_suffix(".csv.new")
        with temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, self.columns)
            writer.writeheader()
            writer.writerows(rows)
        temporary.replace(self.path)


def default_path(task: str, algo: str, seed: int) -> Path:
    """Return runs/TASK/ALGO-seedS, with a number behind it where that exists already."""
    base = Path("runs") / task.replace(":", "-").replace("/", "-") / f"{algo}-seed{seed}"
    path, number = base, 2
    while path.exists():
        path, number = base.with_name(f"{base.name}-{number}"), number + 1
    return path


def refuse_existing(path: Path) -> None:
    """Refuse a path for a new run where there is anything already."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"{path} already exists: continue it with 'revalued resume {path}', or choose another --out")


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write a JSON file so that readers see the old or the new one, never half of it."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(data, indent=2) + "\n")
    temporary.replace(path)


def versions() -> dict[str, str]:
    """Return the versions of everything that results depend on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def machine() -> dict[str, Any]:
    """Return what kind of machine this is."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [
            line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": model,
        "cores": os.cpu_count(),
    }
