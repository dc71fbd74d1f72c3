"""Whether anything else is running: a figure from a machine that was not quiet is none.

This file needs only the standard library and Linux's own account of its processors' time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

SETTLE_SECONDS, WATCH_SECONDS = 0.05, 0.2
MOST_BUSY = 0.25
"""The share of one processor that others may take: other virtual machines often take a tenth, whatever one does."""
MOST_TRIES = 5
"""How often a round is tried before the benchmark gives up."""

_STAT = Path("/proc/stat")
_FIRST_IDLE, _END_IDLE = 3, 5  # idle, and waiting for a disk

Found = TypeVar("Found")


class NotQuietError(RuntimeError):
    """Something else keeps the machine busy, and does not stop."""


def busy_processors() -> float:
    """Watch for a moment, while we do nothing ourselves, and return how many processors others have kept busy."""
    time.sleep(SETTLE_SECONDS)  # threads of the libraries spin a little before they sleep
    before = _STAT.read_text()
    time.sleep(WATCH_SECONDS)
    return busy_between(before, _STAT.read_text())


def busy_between(before: str, after: str) -> float:
    """Return from two accounts how many processors were busy, time taken by other virtual machines included."""
    first, second = _total(before), _total(after)
    spent = [end - begin for begin, end in zip(first, second, strict=True)]
    idle = sum(spent[_FIRST_IDLE:_END_IDLE])
    return _processors(after) * (1 - idle / max(1, sum(spent)))


def _total(account: str) -> list[int]:
    name, *numbers = account.splitlines()[0].split()
    if name != "cpu":
        raise ValueError(f"/proc/stat begins with {name!r}")
    return [int(number) for number in numbers[:8]]  # what follows is counted in these already


def _processors(account: str) -> int:
    return sum(line.startswith("cpu") for line in account.splitlines()) - 1


class QuietRounds:
    """Rounds of a measurement, tried again where the machine was busy before or after; counts those thrown away."""

    def __init__(self, watch: Callable[[], float] = busy_processors) -> None:
        self._watch = watch
        self.thrown_away = 0

    def repeat(self, rounds: int, measure: Callable[[int], Found], *, check: bool) -> list[Found]:
        """Return what so many rounds have measured; without `check`, whatever else was going on."""
        found: list[Found] = []
        tries = 0
        while len(found) < rounds:
            was_quiet = not check or self._watch() <= MOST_BUSY
            result = measure(len(found))
            if was_quiet and (not check or self._watch() <= MOST_BUSY):
                found.append(result)
                continue
            self.thrown_away += 1
            tries += 1
            if tries >= MOST_TRIES * rounds:
                raise NotQuietError(f"{tries} rounds thrown away: other programs keep this machine busy")
        return found


ROUNDS = QuietRounds()
"""Those of this process; `python -m benchmarks` reports how many were thrown away."""
