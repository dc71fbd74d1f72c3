"""Time as the work of cores: of this process and of those that it has started, such as simulators and workers."""

from __future__ import annotations

import os
import time
from pathlib import Path

_PROCESSES = Path("/proc")
_REFRESH_SECONDS = 0.1
"""How old the work of other processes may be: reading it takes longer than many a step."""


class CoreClock:
    """Tells how long cores have worked for this process and its descendants; those only where there is /proc."""

    def __init__(self) -> None:
        self._others, self._read_at = 0.0, -float("inf")

    def __call__(self) -> float:
        """Return seconds, those of other processes as of a moment ago."""
        if time.monotonic() - self._read_at >= _REFRESH_SECONDS:
            return self.exactly()
        return time.process_time() + self._others

    def exactly(self) -> float:
        """Return seconds, as of now."""
        ended = os.times()
        self._others = ended.children_user + ended.children_system + sum(map(_work, _children("self")))
        self._read_at = time.monotonic()
        return time.process_time() + self._others


def _children(process: str) -> list[str]:
    """Return the processes that any thread of this one has started and that have not ended."""
    try:
        files = list((_PROCESSES / process / "task").glob("*/children"))
        return [child for file in files for child in file.read_text().split()]
    except OSError:  # ended in the meantime
        return []


def _work(process: str) -> float:
    """Return the seconds of a process, of those of its children that have ended, and of those that have not."""
    try:
        stat = (_PROCESSES / process / "stat").read_text()
    except OSError:
        return 0.0
    ticks = sum(map(int, stat.rpartition(")")[2].split()[11:15]))  # utime, stime, cutime, cstime
    return ticks / os.sysconf("SC_CLK_TCK") + sum(map(_work, _children(process)))
