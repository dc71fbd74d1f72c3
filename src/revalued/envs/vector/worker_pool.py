"""Lanes spread over worker processes: arrays in shared memory, one byte through a pipe per worker and step."""

from __future__ import annotations

import pickle
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import util

from revalued.envs.faults import LaneError
from revalued.envs.task import Task
from revalued.envs.vector.lane_buffers import LaneBuffers
from revalued.envs.vector.lane_state import LaneState
from revalued.envs.vector.worker import DONE, RESET, RESTORE, STEP, Assignment
from revalued.envs.vector.worker_process import SharedMemory, WorkerProcess, interrupts_held_back


@dataclass(frozen=True)
class _Worker:
    index: int
    lanes: range
    rows: slice
    process: WorkerProcess


class WorkerPool:
    """Steps lanes in worker processes, each with a contiguous part of them; looks like one big `LaneGroup`."""

    def __init__(self, task: Task, lanes: range, num_workers: int, seed: int, stream: int) -> None:
        memory = SharedMemory(LaneBuffers.num_bytes(len(lanes), task.info))
        self.buffers = LaneBuffers.over(memory.block, len(lanes), task.info)
        self._workers: list[_Worker] = []
        # a pool that nobody closes ends with Python, or when nobody knows it any more
        self._end = util.Finalize(self, _end_all, args=(self._workers,), exitpriority=10)
        try:
            with interrupts_held_back():
                for index, rows in enumerate(_split(len(lanes), num_workers)):
                    process = WorkerProcess(f"revalued-lanes-{index}", memory)
                    self._workers.append(_Worker(index, lanes[rows], rows, process))
            for worker in self._workers:
                own = Assignment(task, worker.index, worker.lanes, worker.rows, len(lanes), seed, stream)
                self._send(worker, pickle.dumps(own))
            self._receive_all()  # only now: all workers build their environments at the same time
        except BaseException:
            self.close()
            raise
        finally:
            memory.close()

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
        self._end()

    def _send_all(self, message: bytes) -> None:
        for worker in self._workers:
            self._send(worker, message)

    def _send(self, worker: _Worker, message: bytes) -> None:
        try:
            worker.process.connection.send_bytes(message)
        except OSError as error:
            raise _death(worker) from error

    def _receive_all(self) -> None:
        for worker in self._workers:
            try:
                answer = worker.process.connection.recv_bytes()
            except (EOFError, OSError) as error:
                raise _death(worker) from error
            if answer != DONE:
                raise LaneError(**pickle.loads(answer))


def _end_all(workers: list[_Worker]) -> None:
    for worker in workers:
        worker.process.connection.close()
    while workers:
        workers.pop().process.end()


def _split(num_lanes: int, num_workers: int) -> Iterator[slice]:
    """Yield contiguous parts of the rows, as even as possible."""
    for index in range(num_workers):
        yield slice(index * num_lanes // num_workers, (index + 1) * num_lanes // num_workers)


def _death(worker: _Worker) -> LaneError:
    code = worker.process.exit_code()
    cause = f"exit code {code}"
    if code is not None and code < 0:
        cause += f", {signal.Signals(-code).name}"
    lanes = f"lanes {worker.lanes.start} to {worker.lanes.stop - 1}"
    return LaneError(f"worker {worker.index} ({lanes}) died with {cause}", worker=worker.index)
