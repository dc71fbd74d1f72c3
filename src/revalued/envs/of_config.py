"""From a configuration to its task."""

from __future__ import annotations

from revalued.config import TrainConfig
from revalued.envs import EnvSource, Task, TaskSpec, find_task


def task_spec(config: TrainConfig) -> TaskSpec:
    """Return what a configuration says about its environment."""
    return TaskSpec(config.task, config.bins, config.reward_noise, config.state_noise)


def task_of(config: TrainConfig, env: EnvSource | None = None) -> Task:
    """Return a run's task: the one its configuration names, or the environment handed over."""
    return find_task(task_spec(config), env)
