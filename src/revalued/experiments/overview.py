"""What a person sees while many runs go on: live bars on a terminal, plain lines in a log, or nothing."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn


@dataclass(frozen=True)
class WorkStatus:
    """Where all runs together stand."""

    finished: int
    total: int
    fraction: float
    """Share of all interactions that are done, those of runs in progress included."""
    time_left: str = ""
    """In words, empty where nothing is known."""
    running: tuple[tuple[str, float], ...] = ()
    """Title of each run in progress and the share of it that is done."""


class Overview:
    """Shows many runs to a person; this one, for `--quiet`, shows nothing."""

    def update(self, status: WorkStatus) -> None:
        """Show where they stand; called often."""

    def say(self, text: str) -> None:
        """Show one line of news."""

    def close(self) -> None:
        """Leave the screen tidy."""


def make_overview(*, quiet: bool) -> Overview:
    """Return the view that fits where the output goes."""
    if quiet:
        return Overview()
    console = Console(stderr=True)
    return LiveOverview(console) if console.is_terminal else PlainOverview()


def status_line(status: WorkStatus) -> str:
    """Return one line about where all runs stand."""
    parts = [f"{status.finished}/{status.total} runs", f"{status.fraction:.0%} of the work"]
    if status.time_left:
        parts.append(status.time_left)
    if status.running:
        parts.append("now " + ", ".join(f"{title} ({fraction:.0%})" for title, fraction in status.running))
    return " · ".join(parts)


class PlainOverview(Overview):
    """One line of news at a time, and one about where all runs stand at least every few minutes."""

    def __init__(self, seconds_between_lines: float = 120.0) -> None:
        self._pause = seconds_between_lines
        self._last_line = time.monotonic()

    def update(self, status: WorkStatus) -> None:
        """Write a line if there has been none for a while."""
        if time.monotonic() - self._last_line >= self._pause:
            self.say(status_line(status))

    def say(self, text: str) -> None:
        """Write the line."""
        self._last_line = time.monotonic()
        print(text, file=sys.stderr, flush=True)


class LiveOverview(Overview):
    """A bar for all runs, and one for each run in progress."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[news]}", markup=False),
            console=console,
            refresh_per_second=2,
        )
        self._all = self._progress.add_task("all runs", total=1.0, news="")
        self._bars: dict[str, TaskID] = {}
        self._progress.start()

    def update(self, status: WorkStatus) -> None:
        """Move the bars."""
        news = " · ".join(filter(None, (f"{status.finished}/{status.total} runs", status.time_left)))
        self._progress.update(self._all, completed=status.fraction, news=news)
        now = dict(status.running)
        for title in [title for title in self._bars if title not in now]:
            self._progress.remove_task(self._bars.pop(title))
        for title, fraction in now.items():
            if title not in self._bars:
                self._bars[title] = self._progress.add_task(title, total=1.0, news="")
            self._progress.update(self._bars[title], completed=fraction)

    def say(self, text: str) -> None:
        """Print above the bars."""
        self._progress.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def close(self) -> None:
        """Stop drawing."""
        self._progress.stop()
