"""Lanes spread over worker processes: arrays in shared memory, one byte through a pipe per worker and step."""

from __future__ import annotations

import ctypes
import multiprocessing
import pickle
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker, util
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from types import ModuleType

from revalued.envs.faults import LaneError
from revalued.envs.task import Task
from revalued.envs.vector.lane_buffers import LaneBuffers
from revalued.envs.vector.lane_state import LaneState
from revalued.envs.vector.worker import DONE, RESET, RESTORE, STEP, run_worker

# How long a worker may take to notice that the pipe is closed before it is ended by force.
_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True)
class _Worker:
    index: int
    lanes: range
    rows: slice
    process: SpawnProcess
    connection: Connection


class WorkerPool:
    """Steps lanes in worker processes, each with a contiguous part of them; looks like one big `LaneGroup`."""

    def __init__(self, task: Task, lanes: range, num_workers: int, seed: int, stream: int) -> None:
        context = multiprocessing.get_context("spawn")
        # A RawArray lives in a file that is unlinked as soon as it is open: even kill -9 leaves nothing behind.
        memory = context.RawArray(ctypes.c_byte, LaneBuffers.num_bytes(len(lanes), task.info))
        self.buffers = LaneBuffers.over(memory, len(lanes), task.info)
        self._workers: list[_Worker] = []
        # a pool that nobody closes: the pipes have to end before Python waits for the workers at its own end
        pipes: list[Connection] = []
        util.Finalize(self, _close_all, args=(pipes,), exitpriority=10)
        try:
            with _interrupts_held_back(), _main_module_hidden():
                for index, rows in enumerate(_split(len(lanes), num_workers)):
                    here, there = context.Pipe()
                    process = context.Process(
                        target=run_worker,
                        args=(there, task, index, lanes[rows], rows, len(lanes), memory, seed, stream),
                        name=f"revalued-lanes-{index}",
                        daemon=True,
                    )
                    process.start()
                    there.close()  # the worker must hold the only copy, so that its death ends the pipe
                    self._workers.append(_Worker(index, lanes[rows], rows, process, here))
                    pipes.append(here)
            self._receive_all()  # only now: all workers build their environments at the same time
        except BaseException:
            self.close()
            raise

    def reset(self) -> None:
        """Begin episode 0 in every lane."""
        self._send_all(RESET)
        self._receive_all()

    def start_step(self) -> None:
        """Let all workers begin with the actions in the buffers."""
        self._send_all(STEP)

    def finish_step(self) -> None:
        """Wait until all workers have taken their step."""
        self._receive_all()

    def restore(self, state: LaneState) -> None:
        """Let all workers repeat the unfinished episodes of their lanes."""
        for worker in self._workers:
            self._send(worker, RESTORE + pickle.dumps(state.select(worker.rows)))
        self._receive_all()

    def close(self) -> None:
        """End all workers; may be called twice."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.connection.close()
        for worker in workers:
            worker.process.join(_PATIENCE_SECONDS)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.process.close()

    def _send_all(self, message: bytes) -> None:
        for worker in self._workers:
            self._send(worker, message)

    def _send(self, worker: _Worker, message: bytes) -> None:
        try:
            worker.connection.send_bytes(message)
        except OSError as error:
            raise _death(worker) from error

    def _receive_all(self) -> None:
        for worker in self._workers:
            try:
                answer = worker.connection.recv_bytes()
            except (EOFError, OSError) as error:
                raise _death(worker) from error
            if answer != DONE:
                raise LaneError(**pickle.loads(answer))


def _close_all(pipes: list[Connection]) -> None:
    for pipe in pipes:
        pipe.close()


def _split(num_lanes: int, num_workers: int) -> Iterator[slice]:
    """Yield contiguous parts of the rows, as even as possible."""
    for index in range(num_workers):
        yield slice(index * num_lanes // num_workers, (index + 1) * num_lanes // num_workers)


def _death(worker: _Worker) -> LaneError:
    worker.process.join(_PATIENCE_SECONDS)
    code = worker.process.exitcode
    cause = f"exit code {code}"
    if code is not None and code < 0:
        cause += f", {signal.Signals(-code).name}"
    lanes = f"lanes {worker.lanes.start} to {worker.lanes.stop - 1}"
    return LaneError(f"worker {worker.index} ({lanes}) died with {cause}", worker=worker.index)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Keep Ctrl-C and SIGTERM from workers not yet able to deal with them; the parent gets them right afterwards."""
    # A tracker that starts later would end the blocking early.
    resource_tracker.ensure_running()
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


@contextmanager
def _main_module_hidden() -> Iterator[None]:
    """Keep workers from importing the program that starts them.

    They need nothing from it, it may import torch (seconds, and hundreds of megabytes each), and a script without the
    `if __name__ == "__main__"` guard would start itself all over again.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
