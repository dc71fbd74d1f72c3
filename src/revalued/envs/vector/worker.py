"""What runs inside a worker process: a `LaneGroup` that obeys one-byte commands until its parent is gone."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any, Final

from revalued.envs.faults import LaneError
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


def run_worker(
    connection: Connection,
    task: Task,
    worker: int,
    lanes: range,
    rows: slice,
    num_lanes: int,
    memory: Any,
    seed: int,
    stream: int,
) -> None:
    """Step the lanes of one worker, on command, until the parent closes the pipe or is gone.

    `memory` holds `num_lanes` lanes, of which this worker steps `rows`.
    """
    # Ctrl-C in a terminal and a scheduler's SIGTERM reach every process of the group, but what they mean is for the
    # parent to decide. The parent held the signals back until here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end_soon)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    threading.Thread(target=_end_with_parent, name="revalued-watch", daemon=True).start()
    try:
        try:
            buffers = LaneBuffers.over(memory, num_lanes, task.info).select(rows)
            group = LaneGroup(task, lanes, buffers, seed, stream)
            connection.send_bytes(DONE)
            _serve(connection, group)
        except LaneError as error:
            details = {"lane": error.lane, "episode": error.episode, "step": error.step}
            arguments = {"message": str(error), "worker": worker, "traceback_text": error.traceback_text, **details}
            connection.send_bytes(pickle.dumps(arguments))
    except (EOFError, OSError):
        return  # the parent is gone, or has closed the lanes; whatever environments raise is a LaneError by now


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


def _end_with_parent() -> None:
    """End this process soon after its parent, even while an environment is blocked in a step.

    Not by the kernel's signal for it (`PR_SET_PDEATHSIG`), which also comes when only the thread that started us ends.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        time.sleep(_PARTING_SECONDS)  # a worker that waits for commands is leaving in an orderly manner
        os._exit(1)


def _end_soon(number: int, frame: FrameType | None) -> None:
    """Leave the parent time to finish its step and close the pipe; SIGALRM ends this process if it never does."""
    signal.alarm(_GRACE_SECONDS)
