"""What experiments left on disk: results.csv, cvar.csv and provenance.json, read and checked."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revalued.errors import UserError
from revalued.experiments.catalogue import place_of
from revalued.experiments.naming import variant_label
from revalued.experiments.result_files import (
    CVAR,
    CVAR_COLUMNS,
    LATER_COLUMNS,
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
from revalued.run.files import LARGEST_TABLE_BYTES, is_missing, read_plain_file

Floats = NDArray[np.float64]

_MAY_BE_EMPTY = {"closed_form", "K", "N", "wall_s", "success"}
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
    success: Floats = field(default_factory=lambda: np.empty(0))
    """Whether each evaluation reached the goal; NaN where the task does not say."""
    processor: str | None = None
    """What it was made on, where that is known."""


@dataclass(frozen=True)
class ExperimentResults:
    """One experiment: how it was run, and what came out."""

    name: str
    provenance: Mapping[str, Any]
    runs: tuple[RunResults, ...] = ()
    rows: tuple[Row, ...] = ()
    """Rows of a computed experiment, or of cvar.csv."""

    @property
    def tasks(self) -> list[str]:
        """Return the tasks, whether they were run or not: as the paper lists them, then others, those planned first."""
        return sorted(self._planned_first("task"), key=place_of)

    @property
    def variants(self) -> list[str]:
        """Return the variants, those that were planned first, whether they were run or not."""
        return self._planned_first("variant")

    def _planned_first(self, column: str) -> list[str]:
        planned = list(dict.fromkeys(self.provenance.get(f"{column}s", ())))
        found = {getattr(run, column) for run in self.runs} | {str(row[column]) for row in self.rows if column in row}
        return planned + sorted(found - set(planned))

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
        overrides = [self._variant(variant).get("overrides", {}) for variant in self.variants]
        critics = sorted({size for given in overrides if isinstance(size := given.get("critics"), int) and size > 1})
        sizes = [f"K = {critics[0]}" if len(critics) == 1 else f"K = {critics[0]} to {critics[-1]}"] if critics else []
        lengths = {run.get("env_steps") for run in runs if run["status"] == "finished"}
        up_to = "up to " if len(lengths) > 1 else ""
        most = f"{up_to}{int(self.provenance.get('planned_env_steps', 0)):,} interactions"
        counts = self.seed_counts() or [len(self.provenance.get("seeds", ()))]
        seeds = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
        return f"{name} scale: {', '.join([*sizes, most, f'{seeds} seed' + 's' * (counts[-1] != 1)])}"

    @property
    def scale_note(self) -> str:
        """Return what differs from the paper, in a sentence."""
        return str(self.provenance.get("scale_note") or f"At {self.scale}.")

    def _variant(self, variant: str) -> Mapping[str, Any]:
        """Return what is recorded about a variant."""
        return self.provenance.get("variants", {}).get(variant, {})  # type: ignore[no-any-return]

    def label(self, variant: str) -> str:
        """Return a variant's name for readers: the one it was run under where that is recorded."""
        return str(self._variant(variant).get("label") or variant_label(variant))

    def setting(self, variant: str) -> float | None:
        """Return what a variant of `ensemble-size` or `beta` varies: its number of critics or its β; None elsewhere."""
        if self.name not in _VARIED:
            return None
        letter, field_name, default = _VARIED[self.name]
        parts = re.fullmatch(rf"revalued-{letter}([\d.]+)", variant)
        if parts is not None:
            return float(parts[1])
        for name, value in self._variant(variant).get("overrides", {}).items():
            if name.split(".")[-1] == field_name:
                return float(value)
        return default if variant == "revalued" else None

    def with_setting(self, variant: str) -> str | None:
        """Return the variant that was run under this name, or under another with the same setting."""
        if variant in self.variants:
            return variant
        wanted = self.setting(variant)
        return next((name for name in self.variants if wanted is not None and self.setting(name) == wanted), None)

    def of(self, variant: str, task: str, finished_only: bool = True) -> list[RunResults]:
        """Return the runs of one variant on one task, by seed."""
        found = [run for run in self.runs if (run.variant, run.task) == (variant, task)]
        return [run for run in found if run.finished or not finished_only]

    def seed_counts(self) -> list[int]:
        """Return how many finished seeds the pairs of variant and task have: every number that occurs, except 0."""
        return sorted({len(self.of(variant, task)) for variant in self.variants for task in self.tasks} - {0})

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
    found = sorted({path.parent for name in (RESULTS, CVAR) for path in folder.glob(f"*/{name}")})
    if not found:
        raise UserError(f"{folder} holds no results: no NAME/results.csv in it; 'revalued reproduce' makes them")
    return {path.name: _experiment(path) for path in found}


def _experiment(folder: Path) -> ExperimentResults:
    name, provenance = folder.name, read_provenance(folder) or {}
    computed = {"theorems": THEOREM_COLUMNS, "tabular": TABULAR_COLUMNS}
    if name in computed:
        return ExperimentResults(name, provenance, rows=_read_csv(folder / RESULTS, computed[name]))
    runs = _runs(_read_csv(folder / RESULTS, RESULT_COLUMNS), provenance)
    return ExperimentResults(name, provenance, runs, _read_csv(folder / CVAR, CVAR_COLUMNS))


def _runs(rows: tuple[Row, ...], provenance: Mapping[str, Any]) -> tuple[RunResults, ...]:
    facts = {key_of(run): run for run in provenance.get("runs", ())}
    grouped: defaultdict[Key, list[Row]] = defaultdict(list)
    longest: dict[str, float] = {}
    for row in sorted(rows, key=lambda row: float(row["env_steps"])):
        grouped[key_of(row)].append(row)
        longest[row["task"]] = row["env_steps"]
    runs = []
    for key, evaluations in sorted(grouped.items()):
        steps, returns, wall, success = (  # what is not known, None, becomes NaN
            np.array([row[column] for row in evaluations], np.float64)
            for column in ("env_steps", "return", "wall_s", "success")
        )
        known = facts.get(key, {})
        finished = known["status"] == "finished" if known else steps[-1] >= _NEARLY_ALL * longest[key[1]]
        runs.append(RunResults(*key, steps, returns, wall, bool(finished), success, known.get("processor")))
    return tuple(runs)


def _read_csv(path: Path, columns: tuple[str, ...]) -> tuple[Row, ...]:
    """Read a table whose columns are known, nothing where there is none; further columns are ignored."""
    if is_missing(path):
        return ()
    text = read_plain_file(path, LARGEST_TABLE_BYTES).decode(errors="replace")
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        present = reader.fieldnames or ()
        missing = [column for column in columns if column not in present and column not in LATER_COLUMNS]
        if missing:
            raise UserError(f"{path} cannot be used: it has no column {missing[0]!r}")
        return tuple(
            {
                column: _parse(row.get(column), column, f"{path} cannot be used: line {reader.line_num}")
                for column in columns
            }
            for row in reader
        )
    except csv.Error as error:
        raise UserError(f"{path} cannot be used: {error}") from error


def _parse(text: str | None, column: str, complaint: str) -> str | float | None:
    if column in TEXT_COLUMNS:
        return text or ""
    if not text and column in _MAY_BE_EMPTY:
        return None
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"{complaint}, column {column!r}: {text!r} is no number")
    return value
