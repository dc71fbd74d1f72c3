"""Signals turned into a question that a training loop asks, so that Ctrl-C leaves a checkpoint."""

from __future__ import annotations

import os
import signal
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
