"""Files that appear whole or not at all: JSON, and CSV tables that grow by rows."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
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
        temporary = self.path.with_suffix(".csv.new")
        with temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, self.columns)
            writer.writeheader()
            writer.writerows(rows)
        temporary.replace(self.path)


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write a JSON file so that readers see the old or the new one, never half of it."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(data, indent=2) + "\n")
    temporary.replace(path)
