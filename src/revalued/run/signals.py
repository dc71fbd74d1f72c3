"""Signals: turned into a question that a training loop asks, so that Ctrl-C leaves a checkpoint; and before that.

The command line imports for seconds before it does anything. Until then Ctrl-C ends it at once, in one line.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def noted_signals(*numbers: int, say: bool, second_one_kills: bool) -> Iterator[list[int]]:
    """Collect signals in a list instead of being interrupted by them.

    A second signal of the same kind ends the process at once, or is handled as it was before. Outside of the main
    thread, where Python delivers no signals, nothing is changed.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    previous = {number: signal.getsignal(number) for number in numbers}

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, signal.SIG_DFL if second_one_kills else previous[number])
        if say:
            # not print: the signal may have come in the middle of another one
            os.write(2, b"\nstopping: writing a checkpoint ...\n")

    for number in numbers:
        signal.signal(number, note)
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def is_command() -> bool:
    """Tell whether this process is the command `revalued`, or `python -m revalued`, and not somebody else's program."""
    program, words = sys.argv[0] if sys.argv else "", sys.orig_argv
    if program == "-m":  # as long as Python looks for the module
        return words[words.index("-m") + 1 : words.index("-m") + 2] == ["revalued"] if "-m" in words else False
    return os.path.basename(program) == "revalued"


def end_at_once() -> None:
    """Let Ctrl-C end the process at once: an exception in the middle of an import would show libraries' insides."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is to be ignored
        signal.signal(signal.SIGINT, _leave)


def raise_again() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again; what a command has begun by now wants to be closed."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"revalued: interrupted\n")
    os._exit(130)
