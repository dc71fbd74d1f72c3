"""Environments: the only door to simulators, from a task's name to lanes that step side by side."""

from revalued.envs.faults import EnvFault, read_mask, store_observation
from revalued.envs.kinds import TaskInfo, TaskSpec, describe, make_env, task_names
from revalued.envs.noise import Noisy
from revalued.envs.spaces.discretise import Discretise
from revalued.envs.spaces.factored import Factored, FactoredEnv
from revalued.envs.suites.control_suite import BENCHMARK_TASKS, ControlSuiteEnv, all_task_names
from revalued.envs.suites.toy_fmdp import TabularFMDP
from revalued.envs.suites.toy_masked import MaskedLevers
from revalued.envs.suites.toys import CountingEnv, LeverGame
from revalued.envs.task import EnvSource, Task, find_task
from revalued.envs.vector.lane_types import LaneError, LaneState, LaneStep, Restored, episode_seed
from revalued.envs.vector.lanes import Lanes, lanes_from, make_lanes

__all__ = [
    "BENCHMARK_TASKS",
    "ControlSuiteEnv",
    "CountingEnv",
    "Discretise",
    "EnvFault",
    "EnvSource",
    "Factored",
    "FactoredEnv",
    "LaneError",
    "LaneState",
    "LaneStep",
    "Lanes",
    "LeverGame",
    "MaskedLevers",
    "Noisy",
    "Restored",
    "TabularFMDP",
    "Task",
    "TaskInfo",
    "TaskSpec",
    "all_task_names",
    "describe",
    "episode_seed",
    "find_task",
    "lanes_from",
    "make_env",
    "make_lanes",
    "read_mask",
    "store_observation",
    "task_names",
]
