"""What goes wrong in an environment or a worker is said clearly, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from revalued.envs import CountingEnv, LaneError, Lanes, Task, TaskInfo, TaskSpec, find_task, lanes_from
from revalued.seeding import Stream, episode_seed
from test_lanes import SEED, advance, random_actions

INFO = TaskInfo(4, (2, 3), None, 5)
# The fault sits in the second episode of lane 3, in its third step.
BROKEN_SEED = episode_seed(SEED, Stream.TRAINING, 3, 1)
Fault = Literal["raise", "nan", "reward", "shape", "exit", "raise-in-reset", "raise-in-init"]


class Faulty(CountingEnv):
    """Fails in one way at one step of one episode."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(min_steps=5, max_steps=5)
        self._fault = fault
        self._is_broken = False
        if fault == "raise-in-init":
            raise FileNotFoundError("no model here")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        self._is_broken = seed == BROKEN_SEED
        if self._is_broken and self._fault == "raise-in-reset":
            raise ZeroDivisionError("bad start")
        return super().reset(seed=seed, options=options)

    def step(self, action: NDArray[np.int64]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        if self._is_broken and self._step == 3:
            if self._fault == "raise":
                raise ZeroDivisionError("the ground is gone")
            if self._fault == "nan":
                observation[2] = np.nan
            if self._fault == "reward":
                reward = float("inf")
            if self._fault == "shape":
                observation = observation[:, None]
            if self._fault == "exit":
                os._exit(7)
        return observation, reward, terminated, truncated, info


def faulty_lanes(fault: Fault, workers: int) -> Lanes:
    return lanes_from(Task(INFO, partial(Faulty, fault)), range(5), workers, SEED)


def lane_workers() -> list[int]:
    """Return the processes of this one's workers, in order, read from /proc."""
    found: dict[str, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = (stat.parent / "cmdline").read_text().split("\0")
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            continue
        name = next((word for word in words if word.startswith("revalued-lanes-")), "")
        if parent == os.getpid() and name:
            found[name] = int(stat.parent.name)
    return [found[name] for name in sorted(found)]


@pytest.mark.parametrize(
    ("fault", "step", "reason", "workers"),
    [
        ("raise", 3, "ZeroDivisionError: the ground is gone", 0),
        ("raise", 3, "ZeroDivisionError: the ground is gone", 2),
        ("nan", 3, "entry 2 of the observation is nan", 0),
        ("nan", 3, "entry 2 of the observation is nan", 2),
        ("reward", 3, "the reward is inf", 0),
        ("shape", 3, r"the observation has shape \(4, 1\) instead of \(4,\)", 0),
        ("raise-in-reset", 0, "ZeroDivisionError: bad start", 0),
    ],
)
def test_a_fault_names_lane_episode_and_step(fault: Fault, step: int, reason: str, workers: int) -> None:
    with faulty_lanes(fault, workers) as lanes:
        lanes.reset()
        num_good_steps = 4 if step == 0 else 7
        advance(lanes, random_actions(INFO, num_good_steps))
        with pytest.raises(LaneError, match=f"lane 3, episode 1, step {step}: {reason}") as caught:
            advance(lanes, random_actions(INFO, 1))
        error = caught.value
        assert (error.lane, error.episode, error.step) == (3, 1, step)
        assert error.worker == (1 if workers else None)
        if "ZeroDivision" in reason:
            assert "raise ZeroDivisionError" in error.traceback_text  # the line of the environment that failed
            assert error.traceback_text in error.__notes__
        with pytest.raises(RuntimeError, match="after close\\(\\) or an error"):
            lanes.state()
    assert lane_workers() == []


class Moment(CountingEnv):
    """Fails in some lanes, each in its own ways, in one step of its second episode."""

    def __init__(self, faults: dict[int, str], step: int) -> None:
        super().__init__(min_steps=5, max_steps=5)
        self._faults = {episode_seed(SEED, Stream.TRAINING, lane, 1): fault for lane, fault in faults.items()}
        self._moment = step
        self._fault = ""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        self._fault = "" if seed is None else self._faults.get(seed, "")
        return super().reset(seed=seed, options=options)

    def step(self, action: NDArray[np.int64]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        if self._step == self._moment:
            if "raise" in self._fault:
                raise ZeroDivisionError("the ground is gone")
            if "nan" in self._fault:
                observation[1] = np.nan
            if "infinite" in self._fault:
                observation[3] = -np.inf
            if "reward" in self._fault:
                reward = float("nan")
            if "mask" in self._fault:
                info = {"action_mask": [True] * 5}
        return observation, reward, terminated, truncated, info


@pytest.mark.parametrize("step", [1, 3, 5])  # the last one ends the episode
@pytest.mark.parametrize(
    ("faults", "lane", "reason"),
    [
        ({1: "infinite"}, 1, "entry 3 of the observation is -inf"),
        ({1: "nan, infinite", 3: "nan"}, 1, "entry 1 of the observation is nan"),
        ({0: "nan", 3: "raise"}, 0, "entry 1 of the observation is nan"),
        ({0: "raise", 3: "nan"}, 0, "ZeroDivisionError: the ground is gone"),
        ({2: "nan", 4: "reward"}, 2, "entry 1 of the observation is nan"),
        ({2: "reward", 4: "nan"}, 2, "the reward is nan"),
        ({4: "nan, reward"}, 4, "entry 1 of the observation is nan"),
        ({3: "reward, mask"}, 3, "the reward is nan"),
    ],
)
def test_of_several_faults_in_a_step_the_first_is_told(
    faults: dict[int, str], lane: int, reason: str, step: int
) -> None:
    with lanes_from(Task(INFO, partial(Moment, faults, step)), range(5), 0, SEED) as lanes:
        lanes.reset()
        advance(lanes, random_actions(INFO, 5 + step - 1))
        with pytest.raises(LaneError, match=f"^lane {lane}, episode 1, step {step}: {reason}") as caught:
            advance(lanes, random_actions(INFO, 1))
        assert (caught.value.lane, caught.value.episode, caught.value.step) == (lane, 1, step)


def test_an_environment_that_cannot_be_built_is_an_error() -> None:
    for workers in (0, 2):
        with pytest.raises(LaneError, match=r"lane 0 could not be built: FileNotFoundError: no model here") as caught:
            faulty_lanes("raise-in-init", workers)
        assert caught.value.lane == 0
    assert lane_workers() == []


def test_a_worker_that_exits_is_named_with_its_exit_code() -> None:
    with faulty_lanes("exit", workers=2) as lanes:
        lanes.reset()
        with pytest.raises(LaneError, match=r"worker 1 \(lanes 2 to 4\) died with exit code 7$") as caught:
            advance(lanes, random_actions(INFO, 8))
        assert caught.value.worker == 1
    assert lane_workers() == []


def test_a_worker_that_is_killed_is_named_with_the_signal() -> None:
    with lanes_from(find_task(TaskSpec("toy-counting")), range(5), 3, SEED) as lanes:
        lanes.reset()
        advance(lanes, random_actions(INFO, 3))
        os.kill(lane_workers()[2], signal.SIGKILL)
        with pytest.raises(LaneError, match=r"worker 2 \(lanes 3 to 4\) died with exit code -9, SIGKILL"):
            advance(lanes, random_actions(INFO, 1))
    assert lane_workers() == []


def test_workers_leave_ctrl_c_to_the_parent() -> None:
    with lanes_from(find_task(TaskSpec("toy-counting")), range(4), 2, SEED) as lanes:
        lanes.reset()
        for worker in lane_workers():
            os.kill(worker, signal.SIGINT)
        advance(lanes, random_actions(INFO, 5, num_lanes=4))


def interrupt_this_process() -> type[CountingEnv]:
    os.kill(os.getpid(), signal.SIGINT)
    return CountingEnv


class InterruptedOnArrival:
    """A maker of environments that gets its process a Ctrl-C while it is unpickled: before a worker's first line."""

    def __call__(self) -> CountingEnv:
        raise NotImplementedError

    def __reduce__(self) -> tuple[Callable[[], type[CountingEnv]], tuple[()]]:
        return interrupt_this_process, ()


def test_ctrl_c_does_no_harm_to_workers_that_are_still_starting() -> None:
    with lanes_from(Task(INFO, InterruptedOnArrival()), range(2), 1, SEED) as lanes:
        lanes.reset()


def test_close_in_the_middle_of_a_step_leaves_nothing_behind() -> None:
    lanes = lanes_from(find_task(TaskSpec("toy-counting")), range(4), 2, SEED)
    lanes.reset()
    lanes.step_async(np.zeros((4, 2), np.int64))
    lanes.close()
    lanes.close()
    assert lane_workers() == []


# Without the guard that multiprocessing would ask for: workers must not import the program.
PROGRAM = """
import os, sys, time
from pathlib import Path
import numpy as np
from revalued.envs import TaskSpec, find_task, lanes_from
print("program", flush=True)
lanes = lanes_from(find_task(TaskSpec("toy-counting")), range(4), 2, 0)
lanes.reset()
lanes.step_async(np.zeros((4, 2), np.int64))
lanes.step_wait()
print(Path(f"/proc/self/task/{os.getpid()}/children").read_text(), flush=True)
if sys.argv[1] == "close":
    lanes.close()
elif sys.argv[1] == "hang":
    time.sleep(600)
"""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("ending", ["close", "forget"])
def test_a_program_ends_without_warnings_or_leftovers(ending: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    finished = subprocess.run([sys.executable, "-W", "error", program, ending], capture_output=True, text=True)
    assert (finished.returncode, finished.stderr) == (0, "")
    first_line, pids = finished.stdout.splitlines()  # "program" only once: no worker ran it again
    assert first_line == "program"
    assert len(pids.split()) == 2
    assert not any(is_running(int(pid)) for pid in pids.split())


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with subprocess.Popen([sys.executable, program, "hang"], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "program\n"
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        assert all(is_running(pid) for pid in pids)
        parent.kill()
    for _ in range(600):
        if not any(is_running(pid) for pid in pids):
            return
        time.sleep(0.05)
    raise AssertionError("workers outlived their parent")
