"""Workers end within seconds of their parent, in silence, even while they start or are blocked in a step."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from campaign.processes import left_in_group, processes_in_group

from revalued.envs import Lanes, TaskSpec, find_task, lanes_from
from run_helpers import end, wait_for

TASK = find_task(TaskSpec("toy-counting"))
PROGRAM = """
import re
import time
import gymnasium
import numpy as np
from gymnasium import spaces
from pathlib import Path
from revalued.envs import TaskSpec, find_task, lanes_from

class Blocking(gymnasium.Env):
    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.MultiDiscrete([2, 2])

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        Path(f"blocked-{time.monotonic_ns()}").touch()
        while True:
            HOW

if __name__ == "__main__":
    lanes = lanes_from(find_task(TaskSpec("custom:it"), Blocking), range(2), 2, 0)
    lanes.reset()
    lanes.step_async(np.zeros((2, 2), np.int64))
    lanes.step_wait()
"""


# the last one keeps Python's lock, so that no thread of the worker's gets to run
@pytest.mark.parametrize("how", ["time.sleep(3600)", "pass", "re.match('(a+)+$', 'a' * 99 + 'b')"])
def test_a_blocked_worker_ends_with_its_parent(how: str, tmp_path: Path) -> None:
    program = PROGRAM.replace("HOW", how)
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert wait_for(lambda: len(list(tmp_path.glob("blocked-*"))) == 2, process), process.communicate()
        assert len(processes_in_group(process.pid)) >= 3
        process.kill()
        killed_at = time.monotonic()
        assert left_in_group(process.pid) == []
        assert time.monotonic() - killed_at < 20, "2 seconds, and as many as a busy machine takes"
        assert process.stderr is not None
        assert process.stderr.read() == ""
    finally:
        end(process)


STARTING = """
import os, signal, sys, time
from revalued.envs import TaskSpec, find_task, lanes_from
from revalued.envs.vector.worker_pool import WorkerPool

def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.01)

def send(pool, worker, message):
    pipe = worker.process.connection.fileno()
    WHEN
    os.kill(os.getpid(), signal.SIGKILL)

WorkerPool._send = send
task = find_task(TaskSpec("toy-counting"))
if "importing" in MOMENT:
    sys.path.insert(0, os.getcwd())  # workers find a module there that takes its time
lanes_from(task, range(2), 2, 0)
"""
SLOW = "import time; open('importing', 'w').close(); time.sleep(3600)"


@pytest.mark.parametrize(
    "when",
    [
        "pass",  # while Python starts
        "wait_for('importing')",  # while it imports, for an hour
        "time.sleep(3)",  # while it waits for its orders
        "os.write(pipe, (1000).to_bytes(4, 'big') + message[:500])",  # in the middle of them
        "os.write(pipe, len(message).to_bytes(4, 'big') + message)",  # right after them
    ],
)
def test_an_orphan_that_is_still_starting_says_nothing(when: str, tmp_path: Path) -> None:
    (tmp_path / "gymnasium.py").write_text(SLOW)
    program = STARTING.replace("WHEN", when).replace("MOMENT", repr(when))
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", program], cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.wait(60) == -signal.SIGKILL
        assert process.stderr is not None
        assert process.stderr.read() == "", "its end is there when the last worker is gone"
        assert left_in_group(process.pid) == []
    finally:
        end(process)


def test_a_thread_that_ends_does_not_end_the_workers_it_started() -> None:
    made: list[Lanes] = []
    thread = threading.Thread(target=lambda: made.append(lanes_from(TASK, range(2), 2, 0)))
    thread.start()
    thread.join()
    with made[0] as lanes:
        time.sleep(0.3)
        lanes.reset()


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 1300, reason="so many files cannot be open here")
def test_workers_of_a_process_with_many_open_files_start() -> None:
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]  # beyond what select() can take
    try:
        with lanes_from(TASK, range(2), 1, 0) as lanes:
            lanes.reset()
    finally:
        for file in files:
            os.close(file)


def test_workers_import_nothing_from_the_folder_they_start_in(tmp_path: Path) -> None:
    """Whoever starts them from Python may stand in a folder of somebody else's; there `sys.path` is his own."""
    for name in ("pickle", "mmap", "runpy", "socket", "numpy", "revalued", "multiprocessing"):
        (tmp_path / f"{name}.py").write_text("from pathlib import Path\nPath('canary').touch()\n")
    program = """
from revalued.envs import TaskSpec, find_task, lanes_from
lanes_from(find_task(TaskSpec("toy-counting")), range(2), 2, 0).reset()
"""
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "canary").exists()
