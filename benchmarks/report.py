"""What a section found: a table, the figures for the summary, and both as JSON."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from revalued.run.provenance import machine, versions

RESULTS = Path(__file__).parent / "results"

Row = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """One line of the summary. What is held against the target is the ratio, or `ours` where there is none."""

    name: str
    ours: float
    unit: str
    reference: float | None = None
    ratio: float | None = None
    target: float | None = None
    at_most: bool = True
    """Whether the target is an upper limit; otherwise a lower one."""

    @property
    def met(self) -> bool | None:
        """Tell whether the target is met; None where there is none."""
        if self.target is None:
            return None
        value = self.ours if self.ratio is None else self.ratio
        return value <= self.target if self.at_most else value >= self.target


@dataclass
class Report:
    """The outcome of one section; `rows` may hold more than the columns that are printed."""

    section: str
    title: str
    columns: list[str]
    rows: list[Row] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    skipped: bool = False

    def to_json(self, *, quick: bool) -> dict[str, Any]:
        """Return everything, with where and when it was measured."""
        return {
            "section": self.section,
            "title": self.title,
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "quick": quick,
            "machine": machine(),
            "threads": len(os.sched_getaffinity(0)),
            "versions": versions(),
            "source": _source(),
            "notes": self.notes,
            "figures": [{**asdict(figure), "met": figure.met} for figure in self.figures],
            "rows": self.rows,
        }


def _source() -> dict[str, Any]:
    """Return which state of the source was measured."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=RESULTS.parent, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    return {"commit": git("rev-parse", "HEAD") or None, "changed": bool(git("status", "--porcelain", "../src"))}


def save(report: Report, folder: Path, *, quick: bool) -> Path:
    """Write a report to `folder/section.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{report.section}.json"
    path.write_text(json.dumps(report.to_json(quick=quick), indent=1) + "\n")
    return path


def load(section: str, folder: Path) -> dict[str, Any]:
    """Read what `save` wrote."""
    data: dict[str, Any] = json.loads((folder / f"{section}.json").read_text())
    return data


def print_report(report: Report, console: Console) -> None:
    """Print a section's table and notes."""
    table = Table(title=report.title, title_justify="left")
    for column in report.columns:
        table.add_column(column, justify="left" if column == report.columns[0] else "right")
    for row in report.rows:
        table.add_row(*(_cell(row.get(column)) for column in report.columns))
    if report.rows:
        console.print(table)
    for note in report.notes:
        console.print(f"  {note}", style="dim", markup=False)


def print_summary(figures: Iterable[Figure], console: Console, *, quick: bool) -> None:
    """Print the one table that says it all."""
    title = "Summary (--quick: too few repetitions to mean anything)" if quick else "Summary"
    table = Table(title=title, title_justify="left")
    for column in ("name", "ours", "unit", "floor or reference", "ratio", "target", "met?"):
        table.add_column(column, justify="left" if column == "name" else "right")
    for figure in figures:
        limit = "" if figure.target is None else f"{'≤' if figure.at_most else '≥'} {figure.target:g}"
        verdict = {None: "", True: "yes", False: "[red]no[/red]"}[figure.met]
        numbers = (figure.reference, figure.ratio)
        table.add_row(figure.name, _cell(figure.ours), figure.unit, *map(_cell, numbers), limit, verdict)
    console.print(table)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
