"""What a person sees of a run: a live bar on a terminal, plain lines in a log, or nothing."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@dataclass(frozen=True)
class Status:
    """Where a run stands."""

    env_steps: int
    total_env_steps: int
    updates: int
    env_steps_per_second: float
    last_return: float | None
    best_return: float | None


class ProgressView:
    """Shows a run to a person; this one shows nothing but news, a line each."""

    def update(self, status: Status) -> None:
        """Show where the run stands; called often."""

    def evaluated(self, status: Status) -> None:
        """Show that an evaluation was held."""

    def say(self, text: str) -> None:
        """Show one line of news."""
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the screen tidy."""


def make_progress(*, quiet: bool) -> ProgressView:
    """Return the view that fits where the output goes."""
    if quiet:
        return Silent()
    console = Console(stderr=True)
    return LiveBar(console) if console.is_terminal else PlainLines()


class Silent(ProgressView):
    """Shows nothing but warnings."""

    def say(self, text: str) -> None:
        """Show warnings only: they are never to be missed."""
        if text.startswith("warning"):
            super().say(text)


class PlainLines(ProgressView):
    """One line per evaluation, and at least one a minute."""

    def __init__(self, seconds_between_lines: float = 60.0) -> None:
        self._pause = seconds_between_lines
        self._last_line = time.monotonic()

    def update(self, status: Status) -> None:
        """Write a line if there has been none for a while."""
        if time.monotonic() - self._last_line >= self._pause:
            self.evaluated(status)

    def evaluated(self, status: Status) -> None:
        """Write a line."""
        self._last_line = time.monotonic()
        self.say(status_line(status))


class LiveBar(ProgressView):
    """A bar with rate, time left, last and best return."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[news]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            refresh_per_second=4,
        )
        self._task = self._progress.add_task("training", total=None, news="")
        self._progress.start()

    def update(self, status: Status) -> None:
        """Move the bar."""
        news = f"{status.env_steps_per_second:,.0f}/s"
        if status.last_return is not None:
            news += f" · return {status.last_return:.1f} · best {status.best_return:.1f}"
        self._progress.update(self._task, completed=status.env_steps, total=status.total_env_steps, news=news)

    def evaluated(self, status: Status) -> None:
        """Move the bar."""
        self.update(status)

    def say(self, text: str) -> None:
        """Print above the bar."""
        self._progress.console.print(text, highlight=False, markup=False)

    def close(self) -> None:
        """Stop drawing."""
        self._progress.stop()


def status_line(status: Status) -> str:
    """Return one line about where a run stands."""
    left, rate = status.total_env_steps - status.env_steps, status.env_steps_per_second
    parts = [
        f"{status.env_steps:,}/{status.total_env_steps:,} interactions",
        f"{status.updates:,} updates",
        f"{rate:,.0f} interactions/s",
    ]
    if rate > 0:
        parts.append(f"{format_duration(left / rate)} left")
    if status.last_return is not None:
        parts += [f"return {status.last_return:.1f}", f"best {status.best_return:.1f}"]
    return " · ".join(parts)


def format_duration(seconds: float) -> str:
    """Return 75 seconds as 1:15, 4000 as 1:06:40."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"
