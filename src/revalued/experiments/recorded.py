"""Finished runs as tables of results know them, also where their folders are gone or were on another machine."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from revalued.experiments.result_files import (
    PROVENANCE,
    RESULT_COLUMNS,
    RESULTS,
    Key,
    Row,
    key_of,
    read_provenance,
    read_table,
)

FINAL_EVALUATIONS = 3
"""The final performance of a run is the mean of so many last evaluations: one greedy episode alone is noisy, and more
than a few would mix in earlier policies. The paper reports asymptotic returns and does not say how it averages."""
NOTHING_LEARNT = 20.0
"""Who returns less (of 1,000) on the control suite has hardly learnt anything."""

Identity = tuple[str, str]
"""What tells a run from all others: its task's folder, and the hash of its configuration."""


class RecordedRun(NamedTuple):
    """A finished run of some experiment."""

    facts: Mapping[str, Any]
    """Its entry among the experiment's runs."""
    rows: list[Row]
    """Its test episodes."""
    origin: Mapping[str, Any]
    """The provenance of the experiment: versions, machine."""


def identity(folder: PurePosixPath | Path) -> Identity:
    """Return which run a folder belongs to; the preset in its name is only where the settings came from."""
    return folder.parent.name, folder.name.rpartition("-")[2]


def finished_entries(provenance: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Return the entries of an experiment's finished runs."""
    return (entry for entry in provenance.get("runs", []) if entry["status"] == "finished")


def recorded_runs(out: Path, scale: str, wanted: Collection[Identity]) -> dict[Identity, RecordedRun]:
    """Return those of the wanted runs that the experiments of a folder have in their tables; others are not opened."""
    found: dict[Identity, RecordedRun] = {}
    for file in sorted(out.glob(f"*/{PROVENANCE}")):
        origin = read_provenance(file.parent) or {}
        entries = {
            key_of(entry): (own, entry)
            for entry in finished_entries(origin)
            if origin.get("scale") == scale and (own := identity(PurePosixPath(entry.get("folder", "")))) in wanted
        }
        rows: dict[Key, list[Row]] = {}
        for row in read_table(file.parent / RESULTS, RESULT_COLUMNS) if entries else ():
            rows.setdefault(key_of(row), []).append(row)
        found |= {own: RecordedRun(entry, rows[key], origin) for key, (own, entry) in entries.items() if key in rows}
    return found
