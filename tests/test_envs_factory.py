"""From names to environments."""

from __future__ import annotations

import json
import pickle
from dataclasses import asdict
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from revalued.envs import TaskInfo, TaskSpec, find_task, make_env, task_listing
from revalued.envs.kinds import KINDS, Kind, task_info, task_names
from revalued.envs.spaces.factored import FactoredEnv
from revalued.envs.suites.control_suite import ALL_TASKS, BENCHMARK_TASKS, UNBOUNDED_TASKS
from revalued.errors import UserError


def test_names_begin_with_the_benchmark_and_end_with_the_toys() -> None:
    names = task_names()
    assert names[:16] == list(BENCHMARK_TASKS)
    assert names[-4:] == ["toy-levers", "toy-counting", "toy-masked", "toy-fmdp"]
    assert len(names) == len(set(names)) == 53
    assert "humanoid_CMU-run" in names


@pytest.mark.slow
@pytest.mark.parametrize("task", task_names())
def test_every_name_can_be_made_and_stepped(task: str) -> None:
    env = make_env(TaskSpec(task))
    observation, _ = env.reset(seed=0)
    info = task_info(TaskSpec(task))
    assert isinstance(env.action_space, spaces.MultiDiscrete)
    for _ in range(3):
        assert observation.dtype == np.float32
        assert observation.shape == (info.observation_size,)
        assert env.observation_space.contains(observation)
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            observation, _ = env.reset(seed=1)
        assert info.reward_range is not None
        assert info.reward_range[0] <= float(reward) <= info.reward_range[1]


def test_toys_describe_themselves() -> None:
    assert task_info(TaskSpec("toy-levers")) == TaskInfo(5, (2, 3, 5), (0.0, 1.0), 10)
    assert task_info(TaskSpec("toy-counting")) == TaskInfo(4, (2, 3), (1.0, 12.0), 12)
    assert task_info(TaskSpec("toy-masked")) == TaskInfo(11, (2, 3, 5), (-1.0, 1.0), 10, masked=True)
    assert task_info(TaskSpec("toy-masked")).mask_size == 10
    assert task_info(TaskSpec("toy-fmdp")) == TaskInfo(1, (3, 3, 3), (-1.0, 1.0), 1)
    assert task_info(TaskSpec("toy-fmdp")).mask_size == 0


def test_a_control_task_describes_itself() -> None:
    assert task_info(TaskSpec("quadruped-walk", bins=5)) == TaskInfo(78, (5,) * 12, (0.0, 1.0), 1000)


def test_bins_reach_the_action_space() -> None:
    assert task_info(TaskSpec("cartpole-balance", bins=7)).sizes == (7,)


def test_every_name_belongs_to_one_kind() -> None:
    names = [*ALL_TASKS, *task_names(), "gym:CartPole-v1", "metaworld:reach-v3", "problem:sepsis", "custom:mine"]
    assert [name for name in names if [kind.owns(name) for kind in KINDS].count(True) != 1] == []
    assert set(ALL_TASKS) - set(task_names()) == set(UNBOUNDED_TASKS) == {"lqr-lqr_2_1", "lqr-lqr_6_2"}
    assert [line.split()[0] for line in task_listing()] == [
        *task_names(),
        "gym:ID",
        "metaworld:NAME",
        "pettingzoo:MODULE",
        "problem:NAME",
    ]


def test_a_new_kind_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(task: str, render_mode: str | None) -> gymnasium.Env[Any, Any]:
        return gymnasium.make("Pendulum-v1", g=float(task.removeprefix("pendulum:")))

    for keeps_spaces in (False, True):
        kind = Kind(make, prefix="pendulum:", listing="pendulum:GRAVITY", keeps_spaces=keeps_spaces)
        with monkeypatch.context() as patch:
            patch.setattr("revalued.envs.kinds.KINDS", [*KINDS, kind])
            task = find_task(TaskSpec("pendulum:9.81", bins=5, reward_noise=0.1))
            assert task.info == TaskInfo(3, (5,), None, 200)
            assert "revalued.true_reward" in _stepped(task.make())
            assert isinstance(task.make_user_env().action_space, spaces.Box if keeps_spaces else spaces.MultiDiscrete)
            assert task_listing()[-1] == "pendulum:GRAVITY"


def _stepped(env: FactoredEnv) -> dict[str, Any]:
    env.reset(seed=0)
    return env.step(np.zeros(1, np.int64))[-1]


def test_an_unknown_task_names_its_neighbours() -> None:
    with pytest.raises(UserError, match=r"unknown task 'cheeta-run': did you mean cheetah-run"):
        make_env(TaskSpec("cheeta-run"))


def test_a_task_that_cannot_be_discretised_says_why() -> None:
    with pytest.raises(UserError, match="without bounds cannot be cut into bins"):
        make_env(TaskSpec("lqr-lqr_2_1"))


def test_a_spec_survives_pickle_and_json() -> None:
    spec = TaskSpec("walker-walk", bins=5)
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert TaskSpec(**json.loads(json.dumps(asdict(spec)))) == spec
