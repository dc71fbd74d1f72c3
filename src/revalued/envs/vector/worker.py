"""What runs inside a worker process: a `LaneGroup` that obeys one-byte commands until its parent is gone."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import FrameType
from typing import Final

from revalued.envs.faults import ENV_ERRORS, LaneError, reason_of
from revalued.envs.task import Task
from revalued.envs.vector.lane_buffers import LaneBuffers
from revalued.envs.vector.lane_group import LaneGroup

RESET: Final = b"r"
STEP: Final = b"s"
RESTORE: Final = b"l"
"""Followed by the pickled `LaneState` of this worker's lanes."""
DONE: Final = b"k"
"""The only answer but a failure, which is the pickled arguments of a `LaneError`."""
_GRACE_SECONDS: Final = 10
_PARTING_SECONDS: Final = 2


@dataclass(frozen=True)
class Assignment:
    """What a worker has to do; the first thing it is told."""

    task: Task
    worker: int
    lanes: range
    rows: slice
    """Which of all lanes in the shared memory are its own."""
    num_lanes: int
    seed: int
    stream: int


def main(pipe: int, life: int, memory: int) -> None:
    """Step the lanes of one worker, on command, until the parent closes the pipe or is gone.

    All are file descriptors: of the commands, of a pipe that ends with the parent, and of the memory of all lanes.
    """
    # Ctrl-C in a terminal and a scheduler's SIGTERM reach every process of the group, but what they mean is for the
    # parent to decide. The parent held the signals back until here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end_soon)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    _end_with_parent(life)
    connection = Connection(pipe)
    try:
        told = connection.recv_bytes()
        try:
            _work(connection, _read(told), memory)
        except LaneError as error:
            where = {"lane": error.lane, "episode": error.episode, "step": error.step, "worker": error.worker}
            arguments = {"message": str(error), "traceback_text": error.traceback_text, **where}
            connection.send_bytes(pickle.dumps(arguments))
    except (EOFError, OSError):
        return  # the parent is gone, or has closed the lanes; whatever environments raise is a LaneError by now


def _read(told: bytes) -> Assignment:
    try:
        assignment = pickle.loads(told)
    except ENV_ERRORS as error:  # it may import modules of the environment's
        message = f"a worker cannot make the environment: {reason_of(error)}"
        raise LaneError(message, traceback_text=traceback.format_exc()) from error
    assert isinstance(assignment, Assignment)
    return assignment


def _work(connection: Connection, own: Assignment, memory: int) -> None:
    try:
        block = mmap.mmap(memory, LaneBuffers.num_bytes(own.num_lanes, own.task.info))
        buffers = LaneBuffers.over(block, own.num_lanes, own.task.info).select(own.rows)
        group = LaneGroup(own.task, own.lanes, buffers, own.seed, own.stream)
        connection.send_bytes(DONE)
        _serve(connection, group)
    except LaneError as error:
        error.worker = own.worker
        raise


def _serve(connection: Connection, group: LaneGroup) -> None:
    while True:
        message = connection.recv_bytes()
        if message == STEP:
            group.finish_step()
        elif message == RESET:
            group.reset()
        else:
            group.restore(pickle.loads(message[len(RESTORE) :]))
        connection.send_bytes(DONE)


def _end_with_parent(life: int) -> None:
    """End this process soon after its parent, even while an environment is blocked in a step.

    Not by the kernel's signal for it (`PR_SET_PDEATHSIG`), which also comes when only the thread that started us ends.
    """
    threading.Thread(target=_watch, args=(life,), name="revalued-watch", daemon=True).start()
    if sys.platform == "linux":
        # No thread runs while C code keeps Python's lock, but the kernel does. It sends a signal when the pipe ends;
        # C's alarm() itself is the handler: called with the signal's number, 5, it ends this process in 5 seconds.
        c = ctypes.CDLL(None)
        c.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
        c.signal(signal.SIGTRAP, ctypes.cast(c.alarm, ctypes.c_void_p))
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGTRAP)
    else:
        signal.signal(signal.SIGIO, signal.SIG_IGN)


def _watch(life: int) -> None:
    os.read(life, 1)
    time.sleep(_PARTING_SECONDS)  # a worker that waits for commands is leaving in an orderly manner
    os._exit(1)


def _end_soon(number: int, frame: FrameType | None) -> None:
    """Leave the parent time to finish its step and close the pipe; SIGALRM ends this process if it never does."""
    signal.alarm(_GRACE_SECONDS)
