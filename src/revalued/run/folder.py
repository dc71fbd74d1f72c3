"""The run folder: configuration, evaluation and metric tables, TensorBoard events, checkpoints, summary."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from revalued.config import TrainConfig, from_dict, to_dict
from revalued.errors import UserError
from revalued.run.files import Table, is_missing, read_json, write_json
from revalued.run.schemas import RunSummary, TableRows

EVAL_COLUMNS = ("updates", "env_steps", "return", "length", "success", "wall_seconds")
METRIC_COLUMNS = (
    "updates", "env_steps", "loss", "td_loss", "regulariser", "mean_q", "mean_target", "td_error", "gradient_norm",
    "epsilon", "train_return", "train_episodes", "updates_per_second", "env_steps_per_second", "staleness",
    "max_staleness", "wall_seconds",
)  # fmt: skip


class RunFolder:
    """Paths and tables of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_begun = False
        """Whether a run has made a step here, in this process."""
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

    def remove(self, made: Sequence[Path]) -> None:
        """Take a folder that `create` filled away again, with those of the `missing_folders` that hold nothing else."""
        for child in self.path.iterdir():
            if child.is_dir() and not child.is_symlink():
                shutil.rmtree(child)
            else:
                child.unlink()
        with suppress(OSError):  # not empty
            for path in made:
                path.rmdir()

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open a folder that `create` made."""
        refuse_no_text(path)
        if is_missing(path / "config.json"):
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
        data = read_json(path, dict[str, Any])
        try:
            return from_dict(data)
        except UserError as error:
            raise UserError(f"{path} cannot be used: {error}") from error

    def write_config(self, config: TrainConfig) -> None:
        """Replace the configuration (a run that was prolonged)."""
        write_json(self.path / "config.json", to_dict(config))

    def forget_after(self, updates: int, last_evaluation: int) -> TableRows:
        """Drop rows of the tables that a run resumed after so many updates will write again; count those that stay."""
        evaluations = self.eval_table.forget_after(last_evaluation)
        return {"eval": evaluations, "metrics": self.metric_table.forget_after(updates)}

    def may_restart_unasked(self) -> bool:
        """Tell whether a run without checkpoint was ended before its first one was due: then none can be lost."""
        if self.has_checkpoint or self.summary() is not None:
            return False
        due = self.config().execution.checkpoint_every
        rows = [*self.eval_table.rows(), *self.metric_table.rows()]
        return all(int(row["updates"]) <= due for row in rows)

    def set_aside(self) -> list[Path]:
        """Rename all that a run has written but its configuration, so that it can begin anew; return the new names."""
        parts = (self.path / "checkpoint", self.path / "summary.json", self.eval_table.path, self.metric_table.path)
        empty = [table.path for table in (self.eval_table, self.metric_table) if _is_empty(table)]
        there = [path for path in parts if not is_missing(path) and path not in empty]
        number = 1
        while any(not is_missing(_aside(path, number)) for path in parts):
            number += 1
        moved = [path.rename(_aside(path, number)) for path in there]
        self.eval_table.create()
        self.metric_table.create()
        return moved

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

    def summary(self) -> RunSummary | None:
        """Read summary.json, None where the run has not got that far."""
        path = self.path / "summary.json"
        return None if is_missing(path) else read_json(path, RunSummary)


def _is_empty(table: Table) -> bool:
    try:
        return not table.rows()
    except UserError:  # whatever it is, it is kept
        return False


def _aside(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}.before-restart-{number}{path.suffix}")


def default_path(task: str, algo: str, seed: int) -> Path:
    """Return runs/TASK/ALGO-seedS, with a number behind it where that exists already."""
    base = Path("runs") / task.replace(":", "-").replace("/", "-") / f"{algo}-seed{seed}"
    path, number = base, 2
    while path.exists():
        path, number = base.with_name(f"{base.name}-{number}"), number + 1
    return path


def missing_folders(path: Path) -> list[Path]:
    """Return which folders have to be made for a path, the innermost first."""
    return [folder for folder in (path, *path.parents) if not folder.exists()]


def refuse_existing(path: Path) -> None:
    """Refuse a path for a new run where there is anything already."""
    refuse_no_text(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"{path} already exists: continue it with 'revalued resume {path}', or choose another --out")


def refuse_no_text(path: Path) -> None:
    """Refuse a path whose bytes are no text: what is written there, not every library can read back."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{os.fspath(path)!a} is no UTF-8 text: choose or make a folder whose name is") from error
