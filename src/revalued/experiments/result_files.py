"""The files that experiments leave and reports read: their names, their columns, and how they are read and written."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from revalued.errors import UserError
from revalued.experiments.scales import SCALES
from revalued.run.files import (
    LARGEST_TABLE_BYTES,
    as_csv,
    is_missing,
    read_json,
    read_plain_file,
    replace_file,
    write_json,
)
from revalued.run.provenance import machine, source_commit, versions
from revalued.run.schemas import Origin, Provenance

RESULTS, CVAR, PROVENANCE, ORIGIN = "results.csv", "cvar.csv", "provenance.json", "origin.json"

RESULT_COLUMNS = ("experiment", "variant", "task", "seed", "updates", "env_steps", "return", "wall_s", "success")
LATER_COLUMNS = frozenset({"success"})
"""Columns that tables of earlier versions lack; empty where the task does not say, as outside MetaWorld."""
CVAR_COLUMNS = ("experiment", "variant", "task", "seed", "updates", "cvar95")
TABULAR_COLUMNS = ("experiment", "variant", "N", "n", "updates", "frequency", "standard_error", "trials")
THEOREM_COLUMNS = (
    "experiment", "theorem", "noise", "N", "n", "K", "target", "quantity",
    "closed_form", "monte_carlo", "standard_error", "samples",
)  # fmt: skip
TEXT_COLUMNS = frozenset({"experiment", "variant", "task", "theorem", "noise", "target", "quantity"})
"""All others hold numbers."""

Row = Mapping[str, Any]
Key = tuple[str, str, int]
"""Variant, task and seed: what tells the runs of an experiment apart."""
KEY_COLUMNS = ("variant", "task", "seed")


def key_of(row: Row) -> Key:
    """Return which run a row belongs to."""
    return str(row["variant"]), str(row["task"]), int(row["seed"])


def sorted_rows(rows: Iterable[Row]) -> list[Row]:
    """Return rows in the one order that does not depend on how they came about."""
    return sorted(rows, key=lambda row: (*key_of(row), int(row["updates"])))


def read_table(path: Path, columns: Sequence[str]) -> list[Row]:
    """Read a table that `write_table` wrote, nothing where there is none."""
    if is_missing(path):
        return []
    try:
        reader = csv.DictReader(io.StringIO(read_plain_file(path, LARGEST_TABLE_BYTES).decode(), newline=""))
        found = tuple(reader.fieldnames or ())
        if found not in (tuple(columns), tuple(name for name in columns if name not in LATER_COLUMNS)):
            raise UserError(f"{path} has other columns than {', '.join(columns)}: move it away")
        rows = list(reader)
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be used: {error}") from error
    for number, row in enumerate(rows, start=2):
        whole = [row[name] or "" for name in ("seed", "updates") if name in row]
        if None in row or None in row.values() or not all(text.isdecimal() and len(text) < 19 for text in whole):
            raise UserError(f"{path} cannot be used: line {number} is not a row of its columns")
    return [dict.fromkeys(columns, "") | row for row in rows]


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Write a table in one go, so that readers never see half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, as_csv(columns, rows, line_end="\n"))


def read_provenance(folder: Path) -> dict[str, Any] | None:
    """Return what is known about the results in a folder, None where nobody wrote it down."""
    path = folder / PROVENANCE
    found: Any = None if is_missing(path) else read_json(path, Provenance)
    return found  # type: ignore[no-any-return]


def write_provenance(folder: Path, *, title: str, scale: str, scale_note: str, **facts: Any) -> None:
    """Write provenance.json; without facts about runs the results were computed here and now."""
    data: dict[str, Any] = {
        "experiment": folder.name,
        "title": title,
        "scale": scale,
        "scale_note": scale_note,
        "commit": source_commit(),
        "versions": versions(),
        "machine": machine(),
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "seeds": [],
        "tasks": [],
        "variants": {},
        "runs": [],
        "planned_env_steps": 0,
    }
    write_json(folder / PROVENANCE, data | facts)


def write_origin(path: Path) -> None:
    """Note in a new run folder which source made it."""
    write_json(path / ORIGIN, {"commit": source_commit()})


def origin_commit(path: Path) -> str | None:
    """Return which source made a run, None where nobody noted it."""
    file = path / ORIGIN
    return None if is_missing(file) else read_json(file, Origin).get("commit")


def refuse_other_scale(out: Path, scale: str) -> None:
    """Refuse to put training results of two scales into one place, where a report would lay them side by side."""
    for file in sorted(out.glob(f"*/{PROVENANCE}")):
        found = read_json(file, Provenance)
        # Computed experiments stand by themselves, and what is no scale is a sweep.
        other = found.get("scale")
        if other != scale and other in SCALES and found.get("runs"):
            raise UserError(
                f"{out} holds results at {other} scale ({file.parent.name}), which cannot be mixed with {scale} "
                "scale: choose another --out"
            )


def merged(facts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge versions or machines: a value where all agree, all values in one text where they do not."""
    found: dict[str, list[Any]] = {}
    for entry in facts:
        for name, value in entry.items():
            values = found.setdefault(name, [])
            if value not in values:
                values.append(value)
    return {
        name: values[0] if len(values) == 1 else ", ".join(sorted(map(str, values))) for name, values in found.items()
    }
