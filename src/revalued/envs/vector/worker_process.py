"""How a worker process is started, watched and ended."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Pipe

_PATIENCE_SECONDS = 5.0
"""How long a worker may take to notice that its pipe is closed before it is ended by force."""
# Until it has imported what it needs, a worker ends with its parent at once: the kernel sends SIGIO when the pipe ends.
# Modules are found where this process finds them, not in the folder a worker starts in (-P). The program that starts it
# is not imported: that may take torch, seconds, and hundreds of megabytes each.
_PROGRAM = """
import fcntl, os, select, sys
pipe, life, memory = {handles}
fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
has_ended = select.poll()
has_ended.register(life, select.POLLIN)
if not has_ended.poll(0):
    sys.path[:] = {path!r}
    from revalued.envs.vector.worker import main
    main(pipe, life, memory)
"""


class SharedMemory:
    """A block of memory that workers see as well; it has no name, so that even `kill -9` leaves nothing behind."""

    def __init__(self, num_bytes: int) -> None:
        if sys.platform == "linux":
            self.descriptor = os.memfd_create("revalued-lanes")
        else:
            with tempfile.TemporaryFile() as file:
                self.descriptor = os.dup(file.fileno())
        os.ftruncate(self.descriptor, num_bytes)
        self.block = mmap.mmap(self.descriptor, num_bytes)

    def close(self) -> None:
        """Start no more workers with it; whoever sees the block keeps it."""
        os.close(self.descriptor)


class WorkerProcess:
    """A process of ours, a pipe to it, and a second one that nobody writes to: its end tells that we are gone.

    Not `multiprocessing`'s: its processes answer with a traceback if their parent dies while they start.
    """

    def __init__(self, name: str, memory: SharedMemory) -> None:
        self.connection, theirs = Pipe()
        their_life, self._life = os.pipe()
        handles = (theirs.fileno(), their_life, memory.descriptor)
        path = [folder or os.getcwd() for folder in sys.path]
        flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        command = [sys.executable, *flags, "-P", "-c", _PROGRAM.format(handles=handles, path=path), name]
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=handles)
        except BaseException:
            self._close_pipes()
            raise
        finally:  # the worker must hold the only copies, so that its death ends the pipes
            theirs.close()
            os.close(their_life)

    def exit_code(self) -> int | None:
        """Return how a dying process ended, minus the signal that did it; None if it goes on."""
        try:
            return self._process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> None:
        """Wait for a process whose pipe has been closed; end it by force if that takes long."""
        if self.exit_code() is None:
            self._process.kill()
            self._process.wait()
        self._close_pipes()

    def _close_pipes(self) -> None:
        self.connection.close()
        os.close(self._life)


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Keep Ctrl-C and SIGTERM from workers not yet able to deal with them; the parent gets them right afterwards."""
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)
