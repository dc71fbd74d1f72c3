"""Environments: the only door to simulators, from a task's name to lanes that step side by side."""

from revalued.envs.control_suite import BENCHMARK_TASKS, ControlSuiteEnv, all_task_names
from revalued.envs.discretise import Discretise
from revalued.envs.factory import FactoredEnv, TaskInfo, TaskSpec, describe, make_env, task_names
from revalued.envs.lane_types import LaneError, LaneState, LaneStep, Restored, episode_seed
from revalued.envs.lanes import Lanes, lanes_from, make_lanes
from revalued.envs.toy import CountingEnv, LeverGame

__all__ = [
    "BENCHMARK_TASKS",
    "ControlSuiteEnv",
    "CountingEnv",
    "Discretise",
    "FactoredEnv",
    "LaneError",
    "LaneState",
    "LaneStep",
    "Lanes",
    "LeverGame",
    "Restored",
    "TaskInfo",
    "TaskSpec",
    "all_task_names",
    "describe",
    "episode_seed",
    "lanes_from",
    "make_env",
    "make_lanes",
    "task_names",
]
