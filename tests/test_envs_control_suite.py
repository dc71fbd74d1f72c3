"""Control-suite tasks: sizes, bounds, endings, and episodes that follow from their seed alone."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from functools import cache
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray

from revalued.envs.suites.control_suite import ALL_TASKS, BENCHMARK_TASKS, ControlSuiteEnv
from revalued.errors import UserError

# Observation size and action dimensions of the benchmark, as published for the suite.
SIZES = {
    "cartpole-swingup_sparse": (5, 1),
    "reacher-hard": (6, 2),
    "ball_in_cup-catch": (8, 2),
    "finger-spin": (9, 2),
    "fish-swim": (24, 5),
    "cheetah-run": (17, 6),
    "walker-walk": (24, 6),
    "walker-run": (24, 6),
    "quadruped-walk": (78, 12),
    "quadruped-run": (78, 12),
    "humanoid-stand": (67, 21),
    "humanoid-walk": (67, 21),
    "humanoid-run": (67, 21),
    "dog-walk": (223, 38),
    "dog-trot": (223, 38),
    "dog-run": (223, 38),
}


@cache
def shared(task: str) -> ControlSuiteEnv:
    """Return one environment per task for all tests here: a dog takes a second to build."""
    return ControlSuiteEnv(task)


def trajectory(env: ControlSuiteEnv, seed: int, num_steps: int) -> NDArray[np.float32]:
    """Return observations and rewards under actions that follow from the seed, [T + 1, D + 1]."""
    rng = np.random.default_rng(seed)
    rows = [np.append(env.reset(seed=seed)[0], np.float32(0))]
    low, high = (np.clip(bound, -1, 1) for bound in (env.action_space.low, env.action_space.high))  # type: ignore[attr-defined]
    for _ in range(num_steps):
        observation, reward, terminated, truncated, _ = env.step(rng.uniform(low, high))
        rows.append(np.append(observation, np.float32(reward)))
        if terminated or truncated:
            break
    return np.array(rows)


def assert_used_and_fresh_agree(task: str, num_steps: int) -> None:
    used = shared(task)
    trajectory(used, seed=1, num_steps=num_steps // 2)
    used.reset()
    fresh = ControlSuiteEnv(task)
    from_used, from_fresh = trajectory(used, 2, num_steps), trajectory(fresh, 2, num_steps)
    assert from_used.tobytes() == from_fresh.tobytes()
    assert from_used.tobytes() != trajectory(fresh, 3, num_steps).tobytes()


def test_the_list_of_tasks_is_the_suites() -> None:
    os.environ.setdefault("MUJOCO_GL", "disabled")
    from dm_control import suite

    assert sorted(ALL_TASKS) == sorted(f"{domain}-{task}" for domain, task in suite.ALL_TASKS)
    assert ALL_TASKS[:16] == BENCHMARK_TASKS == tuple(SIZES)


@pytest.mark.parametrize("task", BENCHMARK_TASKS)
def test_sizes_and_bounds(task: str) -> None:
    env = shared(task)
    observation_size, num_dimensions = SIZES[task]
    assert env.observation_space.shape == (observation_size,)
    assert env.reset(seed=0)[0].shape == (observation_size,)
    assert isinstance(env.action_space, gymnasium.spaces.Box)
    assert env.action_space.shape == (num_dimensions,)
    if task.startswith("quadruped-"):  # yaw, lift and extension of each of four legs
        assert env.action_space.low.tolist() == [-1.0, -1.0, -0.8] * 4
        assert env.action_space.high.tolist() == [1.0, 1.1, 0.8] * 4
    else:
        assert set(env.action_space.low) == {-1.0}
        assert set(env.action_space.high) == {1.0}
    assert env.reward_range == (0.0, 1.0)
    assert env.max_episode_steps == 1000


def test_an_actuator_without_limits_has_infinite_bounds() -> None:
    space = ControlSuiteEnv("lqr-lqr_2_1").action_space
    assert isinstance(space, gymnasium.spaces.Box)
    assert not space.is_bounded("below")
    assert not space.is_bounded("above")


@pytest.mark.parametrize("task", BENCHMARK_TASKS)
def test_an_episode_does_not_depend_on_what_came_before(task: str) -> None:
    assert_used_and_fresh_agree(task, num_steps=20 if task.startswith("dog-") else 60)


@pytest.mark.slow
@pytest.mark.parametrize("task", ALL_TASKS)
def test_a_long_episode_does_not_depend_on_what_came_before(task: str) -> None:
    assert_used_and_fresh_agree(task, num_steps=400)


@pytest.mark.parametrize("task", ["walker-walk", "fish-swim", "stacker-stack_2", "quadruped-escape"])
def test_the_observation_is_the_dictionary_in_its_own_order(task: str) -> None:
    env = ControlSuiteEnv(task)
    action = env.action_space.sample()
    env.reset(seed=5)
    observation = env.step(action)[0]
    entries = env._simulation.task.get_observation(env._simulation.physics)
    expected = np.concatenate([np.ravel(entry) for entry in entries.values()]).astype(np.float32)
    assert observation.dtype == np.float32
    assert observation.tolist() == expected.tolist()


def test_rewards_and_observations_are_those_of_the_bare_suite() -> None:
    env = ControlSuiteEnv("cheetah-run")
    from dm_control import suite

    bare = suite.load("cheetah", "run", task_kwargs={"random": 9})
    time_step = bare.reset()
    observation, _ = env.reset(seed=9)
    rng = np.random.default_rng(0)
    for _ in range(50):
        expected = np.concatenate([np.ravel(entry) for entry in time_step.observation.values()]).astype(np.float32)
        assert observation.tobytes() == expected.tobytes()
        action = rng.uniform(-1, 1, 6)
        time_step = bare.step(action)
        observation, reward, *_ = env.step(action)
        assert reward == time_step.reward


def test_the_time_limit_truncates_and_then_a_reset_is_needed() -> None:
    env = ControlSuiteEnv("cartpole-swingup_sparse")
    env.reset(seed=0)
    ends = [env.step(np.zeros(1))[2:4] for _ in range(1000)]
    assert ends == [(False, False)] * 999 + [(False, True)]
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(1))
    env.reset()
    env.step(np.zeros(1))


def test_a_discount_of_zero_terminates() -> None:
    # lqr ends when everything is at rest; it is the only task of the suite that ends by itself.
    env = ControlSuiteEnv("lqr-lqr_2_1")
    env.reset(seed=0)
    physics = env._simulation.physics
    with physics.reset_context():
        physics.data.qpos[:], physics.data.qvel[:] = 0.0, 0.0
    _, _, terminated, truncated, _ = env.step(np.zeros(1))
    assert (terminated, truncated) == (True, False)


def test_observations_may_be_kept() -> None:
    env = ControlSuiteEnv("reacher-hard")
    first, _ = env.reset(seed=0)
    copy = first.copy()
    env.step(np.ones(2))
    env.reset(seed=1)
    assert first.tolist() == copy.tolist()


def test_resets_without_a_seed_go_on_from_the_last_seed() -> None:
    def starts(env: ControlSuiteEnv) -> list[Any]:
        return [env.reset(seed=4)[0].tolist(), env.reset()[0].tolist(), env.reset()[0].tolist()]

    first = starts(ControlSuiteEnv("reacher-hard"))
    assert first == starts(ControlSuiteEnv("reacher-hard"))
    assert first[0] != first[1] != first[2]


@pytest.mark.parametrize("task", ["walker-walk", "finger-turn_hard"])
def test_gymnasium_finds_nothing_to_complain_about(task: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # A render mode can only be tried on registered environments, and there is none to try.
        check_env(ControlSuiteEnv(task), skip_render_check=True)


def test_an_unknown_task_names_its_neighbours() -> None:
    with pytest.raises(UserError, match=r"unknown control-suite task 'waker-walk': did you mean walker-walk"):
        ControlSuiteEnv("waker-walk")


def test_neither_torch_nor_the_simulator_is_imported_before_it_is_needed() -> None:
    program = """
import sys
from revalued.envs import TaskSpec, make_env
from revalued.envs.kinds import task_names
import revalued.envs.vector.worker
task_names()
make_env(TaskSpec("toy-levers"))
assert "dm_control" not in sys.modules and "mujoco" not in sys.modules
make_env(TaskSpec("cartpole-balance"))
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
