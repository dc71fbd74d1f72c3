"""What experiments left on disk: results.csv, cvar.csv and provenance.json, read and checked."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revalued.errors import UserError
from revalued.experiments.naming import variant_label
from revalued.experiments.result_files import (
    CVAR,
    CVAR_COLUMNS,
    RESULT_COLUMNS,
    RESULTS,
    TABULAR_COLUMNS,
    TEXT_COLUMNS,
    THEOREM_COLUMNS,
    Key,
    Row,
    key_of,
    read_provenance,
)
from revalued.run.files import LARGEST_TABLE_BYTES, read_plain_file

Floats = NDArray[np.float64]

_MAY_BE_EMPTY = {"closed_form", "K", "N", "wall_s"}
_NEARLY_ALL = 0.95
"""A run without a recorded status counts as finished when it got this far beside the longest on its task."""

_VARIED = {"ensemble-size": ("k", "critics", 10.0), "beta": ("beta", "beta", 0.5)}
"""Experiments that vary one setting: its letter in a variant's name, its field, and its default."""


@dataclass(frozen=True)
class RunResults:
    """One training run: its evaluations in order of interactions."""

    variant: str
    task: str
    seed: int
    env_steps: Floats
    returns: Floats
    wall_s: Floats
    finished: bool


@dataclass(frozen=True)
class ExperimentResults:
    """One experiment: how it was run, and what came out."""

    name: str
    provenance: Mapping[str, Any]
    runs: tuple[RunResults, ...] = ()
    rows: tuple[Row, ...] = ()
    """Rows of a computed experiment, or of cvar.csv."""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def tasks(self) -> list[str]:
        """Return the tasks, those that were planned first, whether they were run or not."""
        found = [run.task for run in self.runs] + [str(row["task"]) for row in self.rows if "task" in row]
        return _in_order(self.provenance.get("tasks", ()), found)

    @property
    def variants(self) -> list[str]:
        """Return the variants, those that were planned first, whether they were run or not."""
        found = [run.variant for run in self.runs] + [str(row["variant"]) for row in self.rows if "variant" in row]
        return _in_order(self.provenance.get("variants", {}), found)

    @property
    def variants_with_runs(self) -> list[str]:
        """Return the variants of which there is a run."""
        return [variant for variant in self.variants if any(run.variant == variant for run in self.runs)]

    @property
    def scale(self) -> str:
        """Return the scale in a few words, as it stands beside every verdict."""
        name, runs = self.provenance.get("scale"), self.provenance.get("runs", ())
        if not name:
            return "a scale that is not recorded"
        if not runs:
            return f"{name} scale"
        critics = sorted(self._ensembles())
        sizes = [f"K = {critics[0]}" if len(critics) == 1 else f"K = {critics[0]} to {critics[-1]}"] if critics else []
        lengths = {run.get("env_steps") for run in runs if run["status"] == "finished"}
        most = (
            f"{'up to ' if len(lengths) > 1 else ''}{int(self.provenance.get('planned_env_steps', 0)):,} interactions"
        )
        seeds = len(self.provenance.get("seeds", ()))
        return f"{name} scale: {', '.join([*sizes, most, f'{seeds} seed' + 's' * (seeds != 1)])}"

    @property
    def scale_note(self) -> str:
        """Return what differs from the paper, in a sentence."""
        return str(self.provenance.get("scale_note") or f"At {self.scale}.")

    def _ensembles(self) -> set[int]:
        """Return the sizes of the ensembles that took part."""
        found = (
            variant.get("overrides", {}).get("critics") for variant in self.provenance.get("variants", {}).values()
        )
        return {critics for critics in found if isinstance(critics, int) and critics > 1}

    def label(self, variant: str) -> str:
        """Return a variant's name for readers: the one it was run under where that is recorded."""
        return self.labels.get(variant) or variant_label(variant)

    def setting(self, variant: str) -> float | None:
        """Return what a variant of `ensemble-size` or `beta` varies: its number of critics or its β; None elsewhere."""
        if self.name not in _VARIED:
            return None
        letter, field_name, default = _VARIED[self.name]
        parts = re.fullmatch(rf"revalued-{letter}([\d.]+)", variant)
        if parts is not None:
            return float(parts[1])
        overrides = self.provenance.get("variants", {}).get(variant, {}).get("overrides", {})
        for name, value in overrides.items():
            if name.split(".")[-1] == field_name:
                return float(value)
        return default if variant == "revalued" else None

    def with_setting(self, variant: str) -> str | None:
        """Return the variant that was run under this name, or under another with the same setting."""
        if variant in self.variants:
            return variant
        wanted = self.setting(variant)
        same = [name for name in self.variants if wanted is not None and self.setting(name) == wanted]
        return same[0] if same else None

    def of(self, variant: str, task: str, finished_only: bool = True) -> list[RunResults]:
        """Return the runs of one variant on one task, by seed."""
        return [
            run
            for run in self.runs
            if run.variant == variant and run.task == task and (run.finished or not finished_only)
        ]

    def shown(self, variant: str, task: str) -> list[RunResults]:
        """Return the runs to draw: the finished ones or, where there are none yet, the unfinished ones."""
        return self.of(variant, task) or self.of(variant, task, finished_only=False)

    def unfinished(self) -> list[Row]:
        """Return the planned runs that are unfinished, failed or missing."""
        return [run for run in self.provenance.get("runs", ()) if run.get("status") != "finished"]


def load_results(folder: Path) -> dict[str, ExperimentResults]:
    """Read every experiment of a results folder, by name."""
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder: give the one that 'revalued reproduce' wrote to")
    found = sorted(path.parent for path in folder.glob(f"*/{RESULTS}"))
    found += [path.parent for path in folder.glob(f"*/{CVAR}") if path.parent not in found]
    if not found:
        raise UserError(f"{folder} holds no results: no NAME/results.csv in it; 'revalued reproduce' makes them")
    return {path.name: _experiment(path) for path in sorted(found)}


def _experiment(folder: Path) -> ExperimentResults:
    name = folder.name
    provenance = read_provenance(folder) or {}
    labels = {key: str(value.get("label", key)) for key, value in provenance.get("variants", {}).items()}
    if name in ("theorems", "tabular"):
        columns = THEOREM_COLUMNS if name == "theorems" else TABULAR_COLUMNS
        return ExperimentResults(name, provenance, rows=tuple(_read_csv(folder / RESULTS, columns)), labels=labels)
    cvar, results = folder / CVAR, folder / RESULTS
    rows = tuple(_read_csv(cvar, CVAR_COLUMNS)) if cvar.is_file() else ()
    evaluations = _read_csv(results, RESULT_COLUMNS) if results.is_file() else []
    return ExperimentResults(name, provenance, _runs(evaluations, provenance), rows, labels)


def _runs(rows: list[Row], provenance: Mapping[str, Any]) -> tuple[RunResults, ...]:
    status = {key_of(run): run["status"] for run in provenance.get("runs", ())}
    grouped: dict[Key, list[Row]] = {}
    for row in rows:
        grouped.setdefault(key_of(row), []).append(row)
    longest: dict[str, float] = {}
    for row in rows:
        longest[row["task"]] = max(longest.get(row["task"], 0.0), row["env_steps"])
    runs = []
    for key, evaluations in sorted(grouped.items()):
        ordered = sorted(evaluations, key=lambda row: float(row["env_steps"]))
        steps = np.array([row["env_steps"] for row in ordered], dtype=np.float64)
        returns = np.array([row["return"] for row in ordered], dtype=np.float64)
        wall = np.array([np.nan if row["wall_s"] is None else row["wall_s"] for row in ordered], dtype=np.float64)
        finished = status[key] == "finished" if key in status else steps[-1] >= _NEARLY_ALL * longest[key[1]]
        runs.append(RunResults(*key, steps, returns, wall, bool(finished)))
    return tuple(runs)


def _read_csv(path: Path, columns: tuple[str, ...]) -> list[Row]:
    """Read a table whose columns are known; further columns are ignored."""
    text = read_plain_file(path, LARGEST_TABLE_BYTES).decode(errors="replace")
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        missing = [column for column in columns if column not in (reader.fieldnames or ())]
        if missing:
            raise UserError(f"{path} cannot be used: it has no column {missing[0]!r}")
        return [_parse(path, reader.line_num, row, columns) for row in reader]
    except csv.Error as error:
        raise UserError(f"{path} cannot be used: {error}") from error


def _parse(path: Path, line: int, row: Mapping[str, str | None], columns: tuple[str, ...]) -> Row:
    parsed: dict[str, Any] = {}
    for column in columns:
        text = row[column]
        if column in TEXT_COLUMNS:
            parsed[column] = text or ""
            continue
        if not text and column in _MAY_BE_EMPTY:
            parsed[column] = None
            continue
        parsed[column] = _finite(text or "")
        if parsed[column] is None:
            raise UserError(f"{path} cannot be used: line {line}, column {column!r}: {text!r} is no number")
    return parsed


def _finite(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _in_order(planned: Iterable[str], found: Iterable[str]) -> list[str]:
    first = list(dict.fromkeys(planned))
    return first + sorted(set(found) - set(first))
