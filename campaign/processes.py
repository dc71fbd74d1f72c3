"""Real processes that start in milliseconds: forked from one that has imported everything and computed nothing."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from revalued.run.signals import end_at_once

_IMPORTED_BEFOREHAND = (
    "revalued.cli.train", "revalued.cli.evaluate", "revalued.cli.inspect", "revalued.cli.export", "revalued.cli.report",
    "revalued.cli.reproduce", "revalued.run.start", "revalued.export", "revalued.report.inspection.page",
    "gymnasium", "matplotlib.backends.backend_svg", "torch.utils.tensorboard", "campaign.environments",
)  # fmt: skip
POLL_SECONDS = 0.005


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int
    """Exit code, or minus the signal that ended it."""
    output: str
    errors: str
    was_hanging: bool
    """Whether it had to be killed because its time was up."""
    left_behind: int
    """Processes of its group that were still there some seconds later."""


class Child:
    """A command of the package in a process, and a process group, of its own."""

    def __init__(self, work: Callable[[], int], folder: Path, name: str = "command") -> None:
        self._output, self._errors = folder / f".{name}.out", folder / f".{name}.err"
        self._code: int | None = None
        for path in (self._output, self._errors):
            path.write_bytes(b"")
        interrupts = {signal.SIGINT, signal.SIGTERM}  # not before it is as far as a command is at its first line
        signal.pthread_sigmask(signal.SIG_BLOCK, interrupts)
        self.pid = os.fork()
        if self.pid == 0:
            code = 70
            try:
                os.setsid()
                _redirect(self._output, self._errors)
                os.chdir(folder)
                end_at_once()
                signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupts)
                code = work()
            except SystemExit as ending:
                code = ending.code if isinstance(ending.code, int) else 1
            except BaseException:
                sys.excepthook(*sys.exc_info())
                code = 1
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupts)

    def is_running(self) -> bool:
        """Tell whether it has not ended yet."""
        if self._code is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code is None

    def signal(self, number: int) -> None:
        """Send a signal to the process alone."""
        if self.is_running():
            os.kill(self.pid, number)

    def wait(self, seconds: float) -> Ended:
        """Wait for its end, at most so long; then it is killed."""
        deadline, was_hanging = time.monotonic() + seconds, False
        while self.is_running():
            if time.monotonic() > deadline and not was_hanging:
                was_hanging = True
                os.killpg(self.pid, signal.SIGKILL)
            time.sleep(POLL_SECONDS)
        assert self._code is not None
        left = len(left_in_group(self.pid, patience_seconds=5.0))
        if left:
            os.killpg(self.pid, signal.SIGKILL)
        output, errors = (path.read_text(errors="replace") for path in (self._output, self._errors))
        return Ended(self._code, output, errors, was_hanging, left)


def prepare() -> None:
    """Import what every attempt needs; nothing is computed, so no thread exists that a fork would lose."""
    for name in _IMPORTED_BEFOREHAND:
        import_module(name)


def start(arguments: Sequence[str | Path], folder: Path, name: str = "command") -> Child:
    """Start one command of the package in a folder."""
    from revalued.cli import main

    words = [str(argument) for argument in arguments]
    return Child(lambda: main(words), folder, name)


def _redirect(output: Path, errors: Path) -> None:
    for number, path in ((0, Path(os.devnull)), (1, output), (2, errors)):
        descriptor = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)


def left_in_group(group: int, patience_seconds: float = 120.0) -> list[int]:
    """Return who is left of a process group when those that are ending have had time to do so."""
    deadline = time.monotonic() + patience_seconds
    while found := processes_in_group(group):
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_SECONDS)
    return found


def processes_in_group(group: int) -> list[int]:
    """Return the living processes of a process group, read from /proc."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return []
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, process_group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it has just ended
            continue
        if int(process_group) == group and state != "Z":
            found.append(int(stat.parent.name))
    return found
