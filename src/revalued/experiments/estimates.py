"""How long runs take, roughly: a formula with a few measured figures, scaled by runs that finished on this machine."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from revalued.config import TrainConfig


@dataclass(frozen=True)
class TaskSize:
    """What a task's cost depends on."""

    observation: int
    dimensions: int
    step_ms: float
    """One environment step on one core."""
    episode_steps: int = 1000


_SIZES: dict[str, TaskSize] = {
    "cartpole": TaskSize(5, 1, 0.09),
    "reacher": TaskSize(6, 2, 0.08),
    "ball_in_cup": TaskSize(8, 2, 0.15),
    "finger": TaskSize(9, 2, 0.11),
    "fish": TaskSize(24, 5, 0.19),
    "cheetah": TaskSize(17, 6, 0.08),
    "walker": TaskSize(24, 6, 0.23),
    "quadruped": TaskSize(78, 12, 0.29),
    "humanoid": TaskSize(67, 21, 0.42),
    "dog": TaskSize(223, 38, 1.1),
    "metaworld": TaskSize(39, 4, 0.35, 500),
    "toy": TaskSize(5, 3, 0.02, 10),
}
_ELSEWHERE = _SIZES["walker"]

START_SECONDS = 5.0
_UPDATE_MS = 6.0
"""Replay, acting and bookkeeping of one update, whatever the network."""
_CRITIC_MS, _CRITIC_MS_PER_UNIT = 6.5, 0.025
"""One critic's share of an update on one core, with 512 hidden units and 256 transitions: fixed, and per unit of input
and output. Together with the above: 330 interactions/s for DecQN and 165 for three critics at walker sizes."""
_ACT_MS = 0.25
_THREADS_POWER = 0.6


def task_size(task: str) -> TaskSize:
    """Return the size of a task; one that is not known counts as a walker."""
    return _SIZES.get(task.split(":")[0].split("-")[0], _ELSEWHERE)


def estimate_seconds(config: TrainConfig, threads: int) -> float:
    """Return about how long a run takes on the machine where the figures were measured."""
    size, schedule, algorithm = task_size(config.task), config.schedule, config.algorithm
    outputs = size.dimensions * config.bins * (algorithm.atoms if algorithm.head == "categorical" else 1)
    per_critic = _CRITIC_MS + _CRITIC_MS_PER_UNIT * (size.observation + outputs)
    scaling: float = (config.learner.hidden_size / 512) ** 2.0 * config.learner.batch_size / 256
    update_ms: float = _UPDATE_MS + algorithm.critics * per_critic * scaling / float(threads) ** _THREADS_POWER
    episodes = schedule.eval_episodes / schedule.eval_every
    update_ms += episodes * size.episode_steps * (size.step_ms + _ACT_MS)
    updates = max(schedule.env_steps - schedule.warmup_env_steps, 0) / schedule.env_steps_per_update
    return START_SECONDS + (updates * update_ms + schedule.env_steps * size.step_ms) / 1000


def calibration(pairs: Iterable[tuple[float, float]]) -> float:
    """Return how many times slower this machine is than the formula, from (measured, estimated) seconds of runs."""
    ratios = [measured / estimated for measured, estimated in pairs if measured > 0 and estimated > 0]
    return statistics.median(ratios) if ratios else 1.0
