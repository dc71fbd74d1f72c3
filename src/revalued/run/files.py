"""Files that appear whole or not at all, and are read with suspicion: JSON, and CSV tables that grow by rows.

Whatever is read may have come from elsewhere. It must be a plain file (a pipe would wait for ever, a device never end)
of a sensible size, and hold what its schema says; otherwise a `UserError` names the file and what is wrong.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from revalued.config import misfit
from revalued.errors import UserError

LARGEST_JSON_BYTES = 2**26
LARGEST_TABLE_BYTES = 2**30
_MANY_DIGITS = 19

Schema = TypeVar("Schema")


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
        is_gone = not self.path.exists()  # somebody took it away: what follows is still a table
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, self.columns, restval="")
            if is_gone:
                writer.writeheader()
            writer.writerow(row)

    def rows(self) -> list[dict[str, str]]:
        """Read all complete rows whose cells are numbers or empty; none where there is no file, or nothing in it."""
        if is_missing(self.path):
            return []
        try:
            text = read_plain_file(self.path, LARGEST_TABLE_BYTES).decode()
            reader = csv.DictReader(io.StringIO(text, newline=""))
            names = reader.fieldnames or ()
            found = [row for row in reader if None not in row and all(_is_cell(cell) for cell in row.values())]
        except (csv.Error, UnicodeDecodeError) as error:
            raise UserError(f"{self.path} cannot be used: {error}") from error
        if text and ("updates" not in names or not set(names) <= set(self.columns)):
            raise UserError(f"{self.path} cannot be used: its first line is not {','.join(self.columns)}")
        return [row for row in found if row["updates"].isdecimal() and len(row["updates"]) < _MANY_DIGITS]

    def forget_after(self, updates: int) -> int:
        """Keep one row for each update up to that one, and return how many there are; half-written rows go, too."""
        kept = {int(row["updates"]): row for row in reversed(self.rows()) if int(row["updates"]) <= updates}
        self._replace(kept[number] for number in sorted(kept))
        return len(kept)

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


def read_json(path: Path, schema: type[Schema]) -> Schema:
    """Return the object in a JSON file, which must fit the schema, a TypedDict; whatever is wrong, the file is named.

    NaN and infinite numbers are no JSON, and never needed here.
    """
    try:
        data = json.loads(
            read_plain_file(path, LARGEST_JSON_BYTES).decode(), parse_constant=_refuse_constant, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:  # no JSON, not even text, or nested without end
        raise UserError(f"{path} cannot be used: {error}") from error
    if not isinstance(data, dict):
        raise UserError(f"{path} cannot be used: it must hold one JSON object")
    wrong = misfit(data, schema)
    if wrong is not None:
        raise UserError(f"{path} cannot be used: {wrong}")
    return data  # type: ignore[return-value]


def is_missing(path: Path) -> bool:
    """Tell whether there is nothing at all: neither a file nor anything else under its name."""
    return not os.path.lexists(path)


def read_plain_file(path: Path, most_bytes: int) -> bytes:
    """Return what is in a file, which must be a plain one and no larger than that."""
    try:
        # without waiting: a pipe opens, too, and is then seen to be one
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise UserError(f"{path} cannot be used: it is not a plain file")
            if status.st_size > most_bytes:
                raise UserError(f"{path} cannot be used: it has {status.st_size:,} bytes, {most_bytes:,} are too many")
            return file.read(most_bytes)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be used: {error}") from error


def _is_cell(text: object) -> bool:
    """Tell whether a cell of a table is empty or holds a number."""
    if not isinstance(text, str):
        return False
    try:
        float(text or 0)
    except ValueError:
        return False
    return text.isascii()


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is too large a number")
    return value


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
    temporary.unlink(missing_ok=True)  # what a kill left here, or what only looks like it and leads elsewhere
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
