"""Environments of Gymnasium's registry and of the user's own: they train, resume to the bit, and fail in one line."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv

from gym_envs import Broken, Kitchen
from revalued.envs import LaneError, TaskSpec, find_task, lanes_from, make_env
from revalued.envs.kinds import task_info
from revalued.errors import UserError
from revalued.run.start import evaluate, resume, start
from run_helpers import assert_same_run, call, newest, quick_config, rows, stop_after

KITCHEN = "gym:gym_envs:tests/Kitchen-v0"


def test_a_registered_environment_describes_itself() -> None:
    info = task_info(TaskSpec("gym:CartPole-v1"))
    assert (info.observation_size, info.sizes, info.max_episode_steps) == (4, (2,), 500)
    assert not info.masked
    # one-hot observations and masks: Gymnasium's taxi
    taxi = task_info(TaskSpec("gym:Taxi-v4"))
    assert (taxi.observation_size, taxi.sizes, taxi.masked, taxi.mask_size) == (500, (6,), True, 6)
    assert task_info(TaskSpec("gym:Pendulum-v1", bins=7)).sizes == (7,)
    assert task_info(TaskSpec("gym:Blackjack-v1")).observation_size == 32 + 11 + 2
    kitchen = task_info(TaskSpec(KITCHEN))
    assert (kitchen.observation_size, kitchen.sizes) == (1 + 3, (3, 3, 2, 2, 2, 4))
    assert kitchen.max_episode_steps == 8


def test_the_time_limit_truncates_and_the_environment_terminates() -> None:
    """An episode of the kitchen is 3 to 14 steps long, and cut after 8."""
    env = make_env(TaskSpec(KITCHEN))
    endings = []
    for seed in range(40):
        env.reset(seed=seed)
        for step in range(1, 9):
            *_, terminated, truncated, _ = env.step(np.zeros(6, np.int64))
            if terminated or truncated:
                endings.append((step, terminated, truncated))
                break
    assert len(endings) == 40
    assert {step for step, terminated, _ in endings if terminated} == set(range(3, 9))
    assert {step for step, _, truncated in endings if truncated} == {8}
    assert any(truncated and not terminated for _, terminated, truncated in endings)


def test_lanes_of_a_registered_environment_do_not_depend_on_workers() -> None:
    streams = []
    for workers in (0, 2):
        rng = np.random.default_rng(0)
        with lanes_from(find_task(TaskSpec(KITCHEN)), range(3), workers, 1) as lanes:
            stream = [lanes.reset().tobytes()]
            for _ in range(40):
                lanes.step_async(rng.integers((3, 3, 2, 2, 2, 4), size=(3, 6)))
                step = lanes.step_wait()
                stream += [step.rewards.tobytes(), step.terminated.tobytes(), step.next_observations.tobytes()]
        streams.append(stream)
    assert streams[0] == streams[1]


@pytest.mark.parametrize("task", ["gym:CartPole-v1", KITCHEN, "gym:Taxi-v4"])
def test_a_run_resumes_to_the_bit(task: str, tmp_path: Path) -> None:
    config = quick_config(task)
    start(config, tmp_path / "whole")
    start(config, tmp_path / "resumed", should_stop=stop_after(41))
    resume(tmp_path / "resumed")
    assert_same_run(tmp_path / "whole", tmp_path / "resumed")


def test_cartpole_is_learnt_from_episodes_of_unequal_length(tmp_path: Path) -> None:
    """A random policy keeps the pole up for about 20 steps."""
    config = quick_config(
        "gym:CartPole-v1", "decqn", hidden_size=64, batch_size=64, learning_rate=1e-3, env_steps=6000,
        warmup_env_steps=500, epsilon_decay=0.999, target_update_rate=0.02, eval_every=10_000, eval_episodes=10,
    )  # fmt: skip
    path, outcome = start(config, tmp_path / "run")
    assert outcome.summary["train_episodes"] > 50
    assert float(rows(path, "eval.csv")[-1]["return"]) > 100


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("gym:CartPol-v1", "unknown Gymnasium environment 'CartPol-v1': did you mean CartPole-v1"),
        ("gym:CartPole-v9", "unknown Gymnasium environment 'CartPole-v9': did you mean CartPole-v1"),
        ("gym:nowhere/Foo-v0", "unknown Gymnasium environment 'nowhere/Foo-v0'"),
        ("gym:no_such_module:Foo-v0", "module 'no_such_module' cannot be imported: ModuleNotFoundError"),
        ("gym:gym_envs:tests/Kitchn-v0", "did you mean tests/Kitchen-v0"),
        ("gym:", "gym: cannot be built"),
        ("custom:mine", "custom:mine is an environment of your own: hand it over from Python, as env="),
    ],
)
def test_a_name_that_means_nothing_is_answered_in_one_line(task: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        make_env(TaskSpec(task))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_dependency_is_answered_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Box2D", None)
    monkeypatch.delitem(sys.modules, "gymnasium.envs.box2d.lunar_lander", raising=False)
    with pytest.raises(UserError, match=r"gym:LunarLander-v3 cannot be built: .*pip install"):
        make_env(TaskSpec("gym:LunarLander-v3"))


class Unbounded(CartPoleEnv):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(-np.inf, np.inf, (2,))


def test_mistakes_leave_nothing_on_disk(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="actions without bounds"):
        start(quick_config("custom:free"), tmp_path / "run", env=Unbounded)
    refused = call("train", "gym:CartPol-v1", "--out", "run", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.count("\n") == 1
    assert "CartPole-v1" in refused.stderr
    assert list(tmp_path.iterdir()) == []


# --- environments of the user's own


@pytest.mark.parametrize("env", [Kitchen(), Kitchen, partial(gymnasium.make, "gym_envs:tests/Kitchen-v0")])
@pytest.mark.parametrize("workers", [0, 2])
def test_objects_and_functions_train_and_resume(env: Any, workers: int, tmp_path: Path) -> None:
    config = quick_config("custom:kitchen", num_envs=3)
    start(config, tmp_path / "whole", env=env)
    start(config, tmp_path / "resumed", should_stop=stop_after(60), env=env)
    resume(tmp_path / "resumed", workers=workers, env=env)
    assert_same_run(tmp_path / "whole", tmp_path / "resumed")
    first, second = ([e.total_reward for e in evaluate(tmp_path / "whole", 2, 0, env=env)] for _ in range(2))
    assert first == second


def test_an_object_stays_untouched() -> None:
    env = Kitchen()
    env.reset(seed=5)
    before = env.np_random.bit_generator.state
    task = find_task(TaskSpec("custom:kitchen"), env)
    task.make().reset(seed=1)
    assert env.np_random.bit_generator.state == before


def test_an_environment_of_ones_own_is_asked_for_again(tmp_path: Path) -> None:
    config = quick_config("custom:kitchen")
    start(config, tmp_path / "run", should_stop=stop_after(50), env=Kitchen)
    for attempt in (lambda: resume(tmp_path / "run"), lambda: list(evaluate(tmp_path / "run", 1, 0))):
        with pytest.raises(UserError, match="custom:kitchen is an environment of your own"):
            attempt()
    assert call("resume", tmp_path / "run").returncode == 2


class Uncopyable(Kitchen):
    def __deepcopy__(self, memo: dict[int, Any]) -> Uncopyable:
        raise TypeError("cannot pickle the connection to the stove")


@pytest.mark.parametrize(
    ("task", "env", "message"),
    [
        ("walker-walk", Kitchen, "env= and the task 'walker-walk' contradict each other"),
        ("custom:x", lambda: "kitchen", "must return a Gymnasium environment, it returned 'kitchen'"),
        ("custom:x", "kitchen", "env= must be a Gymnasium environment or a function that makes one"),
        ("custom:x", Uncopyable(), "cannot be copied .*hand over a function that makes one"),
    ],
)
def test_what_cannot_be_an_environment_is_refused(task: str, env: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        find_task(TaskSpec(task), env)


# A class that only the script knows, no guard around its main part, and workers.
SCRIPT = """
import gymnasium, numpy as np
from gymnasium import spaces
from pathlib import Path
from revalued.run.start import evaluate, resume, start
from revalued.config import ExecutionConfig, ScheduleConfig, TrainConfig

class Coin(gymnasium.Env):
    action_space = spaces.MultiDiscrete([2, 3])
    observation_space = spaces.Box(0, 1, (1,))
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.random(1, np.float32), {}
    def step(self, action):
        return self.np_random.random(1, np.float32), float(action.sum()), bool(self.np_random.random() < 0.2), False, {}

schedule, execution = ScheduleConfig(env_steps=100, num_envs=2), ExecutionConfig(workers=2)
config = TrainConfig("custom:coin", schedule=schedule, execution=execution)
path, outcome = start(config, Path("run"), env=lambda: Coin())
print(outcome.finished, outcome.summary["env_steps"])
"""


def test_workers_get_a_class_that_only_a_script_knows(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    finished = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert finished.stdout == "True 100\n", finished.stderr


class BadStart(Kitchen):
    """Begins every episode in a way it should not."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self._fault = fault

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        observation, _ = super().reset(seed=seed)
        if self._fault == "raise":
            raise ZeroDivisionError("no stove")
        if self._fault == "nan":
            observation["clock"][:] = np.nan
        if self._fault == "old api":
            return observation
        return observation, {"action_mask": [0] * 16} if self._fault == "mask" else {}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("raise", "ZeroDivisionError: no stove"),
        ("nan", "entry 0 of the observation is nan"),
        ("old api", r"reset\(\) must return an observation and an info dictionary"),
        ("mask", "the action mask leaves no legal choice in dimension 0"),
    ],
)
def test_what_is_wrong_from_the_start_is_said_before_anything_is_written(
    fault: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=f"the environment fails at its first reset: {reason}"):
        start(quick_config("custom:x"), tmp_path / "run", env=partial(BadStart, fault))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("nan", "entry 0 of the observation is nan"),
        ("shape", r"the observation has shape \(3,\) instead of \(4,\)"),
        ("reward", "the reward should be a number, it is None"),
    ],
)
def test_a_broken_environment_ends_the_run_and_keeps_the_checkpoint(fault: str, reason: str, tmp_path: Path) -> None:
    config = quick_config("custom:broken", checkpoint_every=5, eval_every=10_000)
    with pytest.raises(LaneError, match=rf"lane 0, episode \d+, step \d+: {reason}"):
        start(config, tmp_path / "run", env=partial(Broken, fault))
    assert 100 < newest(tmp_path / "run").meta["env_steps"] <= 59 * 5


def test_a_test_episode_that_breaks_says_where(tmp_path: Path) -> None:
    config = quick_config("custom:broken", num_envs=5, eval_every=2, eval_episodes=3)
    # few steps in each lane, many in the one environment of the test episodes
    with pytest.raises(LaneError, match=r"test episode with seed \d+, step \d+: entry 0 of the observation is nan"):
        start(config, tmp_path / "run", env=partial(Broken, "nan", after=75))


def test_the_module_may_lie_in_the_working_folder(tmp_path: Path) -> None:
    (tmp_path / "my_package.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('MyEnv-v0', 'gymnasium.envs.classic_control:CartPoleEnv', max_episode_steps=50)\n"
    )
    program = "import sys; from revalued.cli import main; sys.exit(main())"
    words = ["train", "gym:my_package:MyEnv-v0", "--out", "run", "--quiet", "--env-steps", "60", "--workers", "1"]
    # -P, as for the installed command: the working folder is not on the path
    finished = subprocess.run(
        [sys.executable, "-P", "-c", program, *words], cwd=tmp_path, capture_output=True, text=True
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    assert float(rows(tmp_path / "run", "eval.csv")[-1]["length"]) <= 50
