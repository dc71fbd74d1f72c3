"""The run folders of an experiment seen from outside: where a run lives, how far it has come, and what it measured.

Experiments share runs: DecQN on walker-walk with seed 0 is trained once, whichever experiments ask for it. So a run's
folder is named after the configuration that determines its results.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revalued.config import TrainConfig, to_dict
from revalued.errors import UserError
from revalued.experiments.result_files import Row
from revalued.run.folder import METRIC_COLUMNS, RunFolder
from revalued.run.schemas import RunSummary

LOG_NAME = "log.txt"
_LOG_MARK = "---"
_TAIL_BYTES = 4096
_HASH_DIGITS = 8
_WITHOUT_EFFECT = ("algo", "execution.workers", "execution.checkpoint_every")
"""The preset's name is only where the numbers came from; the others never change results."""
_LEFT_TO_THE_MACHINE = ("execution.threads", "execution.device", "execution.engine")
"""Choices that a run settles when it starts, where the plan leaves them open."""
_RISK_LEVEL = 0.95


def run_hash(config: TrainConfig | Mapping[str, Any]) -> str:
    """Return 8 hex digits that are equal for configurations with equal results.

    Only what differs from the defaults is hashed, so that runs keep their names when a later version has more fields.
    """
    text = json.dumps(significant_entries(config), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]


def significant_entries(config: TrainConfig | Mapping[str, Any]) -> dict[str, Any]:
    """Return what tells a configuration from the default one, by dotted names; numbers as floats, so that 1 is 1.0."""
    data = to_dict(config) if isinstance(config, TrainConfig) else config
    entries, defaults = _flat(data), _flat(to_dict(TrainConfig(task="")))
    return {
        name: _plain(value)
        for name, value in entries.items()
        if name not in _WITHOUT_EFFECT and (name not in defaults or value != defaults[name])
    }


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in data.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return found


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def run_path(out: Path, config: TrainConfig) -> Path:
    """Return the folder of a run: the one it already has under whatever preset's name, or the one it will get."""
    folder = out / "runs" / config.task.replace(":", "-").replace("/", "-")
    digest = run_hash(config)
    existing = sorted(folder.glob(f"*-{digest}"))
    return existing[0] if existing else folder / f"{config.algo}-seed{config.seed}-{digest}"


def finished_summary(path: Path, env_steps: int) -> RunSummary | None:
    """Return a run's summary if it has had all its interactions, None if there is something left to do."""
    summary = RunFolder(path).summary()
    return summary if summary is not None and summary["finished"] and summary["env_steps"] >= env_steps else None


def env_steps_so_far(path: Path) -> int:
    """Return how many interactions a run has logged; only the end of the file is read."""
    column = METRIC_COLUMNS.index("env_steps")
    for line in _last_lines(path / "metrics.csv"):
        cells = line.split(",")
        if len(cells) == len(METRIC_COLUMNS) and cells[column].isdigit():
            return int(cells[column])
    return 0


def begin_log(path: Path) -> None:
    """Mark in a run's log that it is started now."""
    with (path / LOG_NAME).open("a") as log:
        log.write(f"{_LOG_MARK} started {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC\n")


def last_log_line(path: Path) -> str:
    """Return the last line that a run wrote to its log since it was started, empty where it wrote none."""
    last = next((line.strip() for line in _last_lines(path / LOG_NAME) if line.strip()), "")
    return "" if last.startswith(_LOG_MARK) else last


def _last_lines(path: Path) -> list[str]:
    """Return the last lines of a file, the very last one first; none where there is no file."""
    try:
        if not path.is_file():
            return []
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _TAIL_BYTES, 0))
            return file.read().decode(errors="replace").splitlines()[::-1]
    except FileNotFoundError:
        return []


def check_same_run(path: Path, config: TrainConfig) -> None:
    """Refuse a folder that holds another run than the one its name promises, such as one that was moved by hand."""
    if not (path / "config.json").is_file():
        if path.exists() and any(path.iterdir()):
            raise UserError(f"{path} is no run folder: it has no config.json")
        return
    found = significant_entries(RunFolder(path).config())
    planned = significant_entries(config)
    for name in _LEFT_TO_THE_MACHINE:
        if name not in planned:
            found.pop(name, None)
    wrong = sorted(name for name in {*found, *planned} if found.get(name) != planned.get(name))
    if wrong:
        raise UserError(f"{path} holds another run than its name says: {', '.join(wrong)} differ; move it away")


def result_rows(path: Path) -> list[Row]:
    """Return the evaluations of a run for results.csv; numbers are copied as they were written."""
    return [
        {
            "updates": row["updates"],
            "env_steps": row["env_steps"],
            "return": row["return"],
            "wall_s": row["wall_seconds"],
            "success": row.get("success", ""),
        }
        for row in RunFolder.open(path).eval_table.rows()
    ]


def cvar_rows(path: Path) -> list[Row]:
    """Return what cvar.csv holds of a run that logged every update."""
    rows = RunFolder.open(path).metric_table.rows()
    updates = [int(row["updates"]) for row in rows]
    if updates != list(range(1, len(updates) + 1)):
        reason = "gradient norms of every update are needed (log_every 1)"
        raise UserError(f"{path / 'metrics.csv'} lacks updates: {reason}")
    cvar = detrended_cvar(np.array([float(row["gradient_norm"]) for row in rows]))
    return [{"updates": len(updates), "cvar95": cvar}]


def detrended_cvar(norms: NDArray[np.float64]) -> float:
    """Return E[g | g ≥ VaR95(g)] of the differences g between consecutive gradient norms."""
    differences = np.diff(norms)
    value_at_risk = np.quantile(differences, _RISK_LEVEL)
    return float(differences[differences >= value_at_risk].mean())
