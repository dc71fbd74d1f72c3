"""Environments: the only door to simulators, from a task's name to lanes that step side by side."""

from revalued.envs.faults import EnvFault, LaneError, read_mask, store_observation
from revalued.envs.kinds import find_task, make_env, spec_of, stored_task, task_listing, task_of, task_of_file
from revalued.envs.modules import module_of, search_working_folder
from revalued.envs.suites.custom import EnvSource
from revalued.envs.suites.toys import CountingEnv, LeverGame, MaskedLevers, TabularFMDP
from revalued.envs.task import Task, TaskInfo, TaskSpaces, TaskSpec
from revalued.envs.vector.lane_state import LaneState
from revalued.envs.vector.lanes import Lanes, lanes_from

__all__ = [
    "CountingEnv",
    "EnvFault",
    "EnvSource",
    "LaneError",
    "LaneState",
    "Lanes",
    "LeverGame",
    "MaskedLevers",
    "TabularFMDP",
    "Task",
    "TaskInfo",
    "TaskSpaces",
    "TaskSpec",
    "find_task",
    "lanes_from",
    "make_env",
    "module_of",
    "read_mask",
    "search_working_folder",
    "spec_of",
    "store_observation",
    "stored_task",
    "task_listing",
    "task_of",
    "task_of_file",
]
