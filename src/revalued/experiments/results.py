"""Tables of results: read from the folders of finished runs, written whole, so that readers never see half of one."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revalued.errors import UserError
from revalued.run.files import as_csv, replace_file
from revalued.run.folder import RunFolder

RESULT_COLUMNS = ("experiment", "variant", "task", "seed", "updates", "env_steps", "return", "wall_s")
CVAR_COLUMNS = ("experiment", "variant", "task", "seed", "updates", "cvar95")
_TAIL = 0.95

Row = Mapping[str, Any]
Key = tuple[str, str, int]
"""Variant, task and seed: what tells the runs of an experiment apart."""


def key_of(row: Row) -> Key:
    """Return which run a row belongs to."""
    return str(row["variant"]), str(row["task"]), int(row["seed"])


def result_rows(experiment: str, key: Key, path: Path) -> list[Row]:
    """Return the evaluations of a run as rows of results.csv; numbers are copied as they were written."""
    variant, task, seed = key
    return [
        {
            "experiment": experiment,
            "variant": variant,
            "task": task,
            "seed": seed,
            "updates": row["updates"],
            "env_steps": row["env_steps"],
            "return": row["return"],
            "wall_s": row["wall_seconds"],
        }
        for row in RunFolder.open(path).eval_table.rows()
    ]


def cvar_rows(experiment: str, key: Key, path: Path) -> list[Row]:
    """Return the row of cvar.csv for a run that logged every update."""
    variant, task, seed = key
    rows = RunFolder.open(path).metric_table.rows()
    updates = [int(row["updates"]) for row in rows]
    if updates != list(range(1, len(updates) + 1)):
        raise UserError(
            f"{path / 'metrics.csv'} lacks updates: gradient norms of every update are needed (log_every 1)"
        )
    cvar = detrended_cvar(np.array([float(row["gradient_norm"]) for row in rows]))
    identity = {"experiment": experiment, "variant": variant, "task": task, "seed": seed}
    return [{**identity, "updates": len(updates), "cvar95": cvar}]


def detrended_cvar(norms: NDArray[np.float64]) -> float:
    """Return E[g | g ≥ VaR95(g)] of the differences g between consecutive gradient norms."""
    differences = np.diff(norms)
    value_at_risk = np.quantile(differences, _TAIL)
    return float(differences[differences >= value_at_risk].mean())


def read_table(path: Path, columns: Sequence[str]) -> list[Row]:
    """Read a table that `write_table` wrote, nothing where there is none."""
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != tuple(columns):
            raise UserError(f"{path} has other columns than {', '.join(columns)}: move it away")
        return list(reader)


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Write a table in one go."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, as_csv(columns, rows, line_end="\n"))


def sorted_rows(rows: Iterable[Row]) -> list[Row]:
    """Return rows in the one order that does not depend on how they came about."""
    return sorted(rows, key=lambda row: (*key_of(row), int(row["updates"])))
