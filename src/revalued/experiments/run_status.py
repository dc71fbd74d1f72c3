"""What a run folder tells about how far its run has come, read cheaply and from outside."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from revalued.config import TrainConfig
from revalued.errors import UserError
from revalued.experiments.identity import significant_entries
from revalued.run.folder import METRIC_COLUMNS, RunFolder

LOG_NAME = "log.txt"
_LOG_MARK = "---"
_TAIL_BYTES = 4096
_LEFT_TO_THE_MACHINE = ("execution.threads", "execution.device", "execution.engine")
"""Choices that a run settles when it starts, where the plan leaves them open."""


def finished_summary(path: Path, env_steps: int) -> dict[str, Any] | None:
    """Return a run's summary if it has had all its interactions, None if there is something left to do."""
    if not (path / "summary.json").is_file():
        return None
    summary = RunFolder(path).summary()
    return summary if summary is not None and summary["finished"] and summary["env_steps"] >= env_steps else None


def env_steps_so_far(path: Path) -> int:
    """Return how many interactions a run has logged; only the end of the file is read."""
    table = path / "metrics.csv"
    try:
        with table.open("rb") as file:
            file.seek(max(table.stat().st_size - _TAIL_BYTES, 0))
            lines = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return 0
    column = METRIC_COLUMNS.index("env_steps")
    for line in reversed(lines):
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
    log = path / LOG_NAME
    if not log.is_file():
        return ""
    with log.open("rb") as file:
        file.seek(max(log.stat().st_size - _TAIL_BYTES, 0))
        lines = file.read().decode(errors="replace").splitlines()
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return "" if last.startswith(_LOG_MARK) else last


def check_same_run(path: Path, config: TrainConfig) -> None:
    """Refuse a folder that holds another run than the one its name promises, such as one that was moved by hand."""
    file = path / "config.json"
    if not file.is_file():
        if any(path.iterdir()):
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
