"""From names to environments."""

from __future__ import annotations

import json
import pickle
from dataclasses import asdict

import numpy as np
import pytest
from gymnasium import spaces

from revalued.envs import BENCHMARK_TASKS, TaskInfo, TaskSpec, describe, make_env, task_names
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
    info = describe(TaskSpec(task))
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
    assert describe(TaskSpec("toy-levers")) == TaskInfo(5, (2, 3, 5), (0.0, 1.0), 10)
    assert describe(TaskSpec("toy-counting")) == TaskInfo(4, (2, 3), (1.0, 12.0), 12)
    assert describe(TaskSpec("toy-masked")) == TaskInfo(11, (2, 3, 5), (-1.0, 1.0), 10, masked=True)
    assert describe(TaskSpec("toy-masked")).mask_size == 10
    assert describe(TaskSpec("toy-fmdp")) == TaskInfo(1, (3, 3, 3), (-1.0, 1.0), 1)
    assert describe(TaskSpec("toy-fmdp")).mask_size == 0


def test_a_control_task_describes_itself() -> None:
    assert describe(TaskSpec("quadruped-walk", bins=5)) == TaskInfo(78, (5,) * 12, (0.0, 1.0), 1000)


def test_bins_reach_the_action_space() -> None:
    assert describe(TaskSpec("cartpole-balance", bins=7)).sizes == (7,)


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
