"""Workers end within seconds of their parent, even while their environment is blocked in a step."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from run_helpers import end, left_in_group, processes_in_group, wait_for

PROGRAM = """
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


@pytest.mark.parametrize("how", ["time.sleep(3600)", "pass"])
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
    finally:
        end(process)
