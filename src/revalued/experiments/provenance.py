"""Where results come from: commit, versions, machine, and which run stands behind which rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from revalued.errors import UserError
from revalued.experiments.scales import SCALES
from revalued.run.files import read_json, write_json
from revalued.run.provenance import source_commit

FILE_NAME = "provenance.json"
ORIGIN_NAME = "origin.json"


def write_origin(path: Path) -> None:
    """Note in a new run folder which source made it."""
    write_json(path / ORIGIN_NAME, {"commit": source_commit()})


def origin_commit(path: Path) -> str | None:
    """Return which source made a run, None where nobody noted it."""
    data = _read(path / ORIGIN_NAME)
    commit = None if data is None else data.get("commit")
    return commit if isinstance(commit, str) else None


def read_provenance(folder: Path) -> dict[str, Any] | None:
    """Return what is known about the results in a folder, None where there are none."""
    return _read(folder / FILE_NAME)


def write_provenance(folder: Path, data: Mapping[str, Any]) -> None:
    """Write provenance.json."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / FILE_NAME, data)


def refuse_other_scale(out: Path, scale: str) -> None:
    """Refuse to put training results of two scales into one place, where a report would lay them side by side."""
    for file in sorted(out.glob(f"*/{FILE_NAME}")):
        found = _read(file) or {}
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


def _read(path: Path) -> dict[str, Any] | None:
    return read_json(path) if path.is_file() else None
