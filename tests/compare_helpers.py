"""Orders of runs and rows of results, for the tests of `revalued compare`."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from revalued.compare.meter import COLUMNS, RunOrder
from revalued.compare.result_table import ComparisonFolder

SMALL = {"hidden_size": 16, "batch_size": 16, "warmup_env_steps": 50}


def order(tmp_path: Path, **changes: Any) -> RunOrder:
    given = RunOrder(
        "toy-levers", 3, "decqn", {"algo": "decqn", **SMALL}, 0, None, 200, "wall", 2, 0, 1, 0, False,
        str(tmp_path / "out.csv"),
    )  # fmt: skip
    return replace(given, **changes)


def rows(tmp_path: Path) -> list[dict[str, str]]:
    with (tmp_path / "out.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def comparison_folder(path: Path) -> ComparisonFolder:
    """A comparison that has only begun: a minute for everybody."""
    provenance = {
        "task": "toy-levers", "bins": 3, "budget_minutes": 1.0, "env_steps": None, "clock": "cpu", "episodes": 2,
        "threads": 1, "workers": 0, "optimum": 10.0, "tuned": {}, "settings": {}, "versions": {}, "machine": {},
        "commit": "abc",
    }  # fmt: skip
    path.mkdir()
    (path / "provenance.json").write_text(json.dumps(provenance))
    return ComparisonFolder(path)


def row(env_steps: int, seconds: float, value: float) -> dict[str, str]:
    numbers = (env_steps, seconds, seconds, value, 10)
    return dict(zip(COLUMNS, map(str, numbers), strict=True))
