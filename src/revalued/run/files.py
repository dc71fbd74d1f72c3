"""Files that appear whole or not at all: JSON, and CSV tables that grow by rows."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from revalued.errors import UserError


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
        replace_file(self.path, as_csv(self.columns, rows))


def as_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], line_end: str = "\r\n") -> str:
    """Return rows and their header as the text of a CSV file."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator=line_end)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write a JSON file so that readers see the old or the new one, never half of it."""
    replace_file(path, json.dumps(data, indent=2) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; whatever else is there, the error names the file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # missing, no JSON, or not even text
        raise UserError(f"{path} cannot be used: {error}") from error
    if not isinstance(data, dict):
        raise UserError(f"{path} cannot be used: it must hold one JSON object")
    return data


def check_target(path: Path, suffix: str, what: str) -> None:
    """Refuse a name under which no such file can be written."""
    if path.suffix.lower() != suffix:
        raise UserError(f"the {what} must be an {suffix} file, got {path}")
    if path.is_dir():
        raise UserError(f"{path} is a folder: give the name of a file for the {what}")
    if not path.parent.is_dir():
        raise UserError(f"there is no folder {path.parent} for the {what}")


def replace_file(path: Path, content: str | bytes) -> None:
    """Write a file so that readers see the old or the new one, never half of it."""
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path beside this one to write to; the file then takes its place whole or, after an error, not at all."""
    temporary = path.with_name(f".{path.stem}.unfinished{path.suffix}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
