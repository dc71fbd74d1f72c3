"""Environments in a process of their own: the same episodes, silent, and no process that outlives us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from revalued.envs.suites.own_process import OwnProcess


class Loud(gymnasium.Env[Any, Any]):
    """Draws from its generator, prints from this and another process, and breaks on demand."""

    observation_space = spaces.Box(0.0, 1.0, (2,), np.float64)
    action_space = spaces.MultiDiscrete([3, 4])
    action_names = ("left", "right")
    max_episode_steps = 7

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        print("Retrying in 1 seconds")
        os.system("echo Step 0.0")
        return self.np_random.random(2), {"pid": os.getpid()}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if action[1] == 3:
            raise ValueError("no such phase")
        if action[0] == 2:
            os._exit(9)
        return self.np_random.random(2), float(action[1]), False, True, {}


def unable() -> gymnasium.Env[Any, Any]:
    raise OSError("no net file")


@pytest.fixture
def env() -> Iterator[OwnProcess]:
    made = OwnProcess(f"{__name__}:Loud")
    yield made
    made.close()


def _ends(pid: int) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_it_is_the_same_environment_elsewhere_and_silent(env: OwnProcess, capfd: pytest.CaptureFixture[str]) -> None:
    assert (env.observation_space, env.action_space) == (Loud.observation_space, Loud.action_space)
    assert (env.action_names, env.max_episode_steps) == (("left", "right"), 7)
    observation, info = env.reset(seed=5)
    following, reward, terminated, truncated, _ = env.step(np.array([0, 2]))
    assert info["pid"] != os.getpid()
    assert capfd.readouterr().out == ""
    here = Loud()
    assert observation.tolist() == here.reset(seed=5)[0].tolist()
    assert following.tolist() == here.step(np.array([0, 2]))[0].tolist()
    assert (reward, terminated, truncated) == (2.0, False, True)


def test_two_of_them_do_not_know_each_other(env: OwnProcess) -> None:
    other = OwnProcess(f"{__name__}:Loud")
    first, info = env.reset(seed=1)
    second, other_info = other.reset(seed=1)
    other.close()
    assert first.tolist() == second.tolist()
    assert info["pid"] != other_info["pid"]
    assert _ends(other_info["pid"])


def test_its_faults_are_told_and_it_goes_on(env: OwnProcess) -> None:
    env.reset(seed=1)
    with pytest.raises(RuntimeError, match="ValueError: no such phase"):
        env.step(np.array([0, 3]))
    assert env.step(np.array([0, 1]))[1] == 1.0


def test_a_process_that_dies_is_a_fault(env: OwnProcess) -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError, match="has ended with code 9"):
            env.step(np.array([2, 0]))


def test_a_process_that_is_killed_is_a_fault(env: OwnProcess) -> None:
    os.kill(env.reset(seed=1)[1]["pid"], signal.SIGKILL)
    with pytest.raises(RuntimeError, match="has ended with code -9"):
        env.step(np.array([0, 1]))


def test_what_cannot_be_made_says_why() -> None:
    with pytest.raises(RuntimeError, match="OSError: no net file"):
        OwnProcess(f"{__name__}:unable")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_asks_a_whole_group_to_stop_does_not_reach_it(env: OwnProcess, number: signal.Signals) -> None:
    _, info = env.reset(seed=1)
    os.kill(info["pid"], number)
    assert env.step(np.array([0, 1]))[1] == 1.0


def test_it_ends_with_a_parent_that_is_killed() -> None:
    program = f"""
import os
from revalued.envs.suites.own_process import OwnProcess
env = OwnProcess("{__name__}:Loud")
print(env.reset(seed=1)[1]["pid"], flush=True)
os.kill(os.getpid(), 9)
"""
    path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert _ends(int(told.stdout))
