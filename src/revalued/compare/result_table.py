"""What is on disk of a comparison: `results.csv` with every test round of every finished run, and `provenance.json`."""

from __future__ import annotations

import csv
import fcntl
import io
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from revalued.compare.meter import COLUMNS
from revalued.errors import UserError
from revalued.run.files import LARGEST_TABLE_BYTES, as_csv, is_missing, read_json, read_plain_file, replace_file

RESULTS, PROVENANCE = "results.csv", "provenance.json"
KEY_COLUMNS = ("contestant", "setting", "seed", "share")
ALL_COLUMNS = (*KEY_COLUMNS, *COLUMNS)


class RunKey(NamedTuple):
    """Which run: a contestant with one of its settings, a seed, and a share of the budget (1, or less for tuning)."""

    contestant: str
    setting: str
    seed: int
    share: float


@dataclass(frozen=True)
class RunCurve:
    """What the judge wrote down about a run, in order; one number for each test round."""

    env_steps: NDArray[np.float64]
    seconds: NDArray[np.float64]
    returns: NDArray[np.float64]


class ComparisonProvenance(TypedDict):
    """How a comparison was made."""

    task: str
    bins: int
    budget_minutes: float | None
    env_steps: int | None
    clock: str
    episodes: int
    threads: int
    workers: int
    optimum: float | None
    tuned: dict[str, str]
    settings: dict[str, Any]
    versions: dict[str, Any]
    machine: dict[str, Any]
    commit: str


FIXED = ("task", "bins", "budget_minutes", "env_steps", "clock", "episodes", "threads", "workers")
"""What must be the same in all runs of one folder."""


def folder_name(task: str) -> str:
    """Return the name of the folder of a problem's results."""
    return task.removeprefix("problem:").replace(":", "-").replace("/", "-")


class ComparisonFolder:
    """The results of one problem."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def finished(self) -> dict[RunKey, RunCurve]:
        """Return every run that is on disk."""
        runs: dict[RunKey, list[tuple[float, float, float]]] = defaultdict(list)
        for row in self._rows():
            try:
                key = RunKey(row["contestant"], row["setting"], int(row["seed"]), float(row["share"]))
                numbers = float(row["env_steps"]), float(row["seconds"]), float(row["return"])
            except (KeyError, TypeError, ValueError) as error:
                raise UserError(f"{self.path / RESULTS} cannot be used: {error!r} in a row") from error
            if not all(map(math.isfinite, numbers)):
                raise UserError(f"{self.path / RESULTS} cannot be used: there is a number that is not finite")
            runs[key].append(numbers)
        return {key: RunCurve(*np.array(sorted(numbers)).T) for key, numbers in runs.items()}

    def add(self, key: RunKey, rows: Iterable[Mapping[str, str]]) -> None:
        """Add a finished run, all of it at once."""
        own = dict(zip(KEY_COLUMNS, map(str, key), strict=True))
        everything = [*self._rows(), *({**own, **row} for row in rows)]
        replace_file(self.path / RESULTS, as_csv(ALL_COLUMNS, everything, "\n"))

    def provenance(self) -> ComparisonProvenance | None:
        """Return how the runs were made; None in a new folder."""
        path = self.path / PROVENANCE
        return None if is_missing(path) else read_json(path, ComparisonProvenance)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second command from writing here at the same time."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UserError(f"{self.path} is being written by another command") from None
            yield

    def _rows(self) -> list[dict[str, str]]:
        path = self.path / RESULTS
        return [] if is_missing(path) else read_rows(path, ALL_COLUMNS)


def read_rows(path: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
    """Return the rows of a CSV file, which must have these columns."""
    try:
        text = read_plain_file(path, LARGEST_TABLE_BYTES).decode()
        reader = csv.DictReader(io.StringIO(text, newline=""))
        rows = list(reader)
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be used: {error}") from error
    if tuple(reader.fieldnames or ()) != columns:
        raise UserError(f"{path} cannot be used: its first line is not {','.join(columns)}")
    return rows
