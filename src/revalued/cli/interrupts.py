"""Ctrl-C while the command line is still importing: one line and code 130, from the first of our own lines on."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType


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
