"""The sizes that are measured, and learners, batches and replays of those sizes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from revalued.actions import FactorisedActions
from revalued.algorithms.presets import preset
from revalued.config import AlgorithmConfig, EngineName, ExecutionConfig, LearnerConfig, ReplayConfig, TrainConfig
from revalued.learner.learner import Learner
from revalued.networks import NetworkShape
from revalued.replay import Batch, Replay
from revalued.run.prepare import resolve_threads
from revalued.training import build

REVALUED, DECQN = preset("revalued"), preset("decqn")


@dataclass(frozen=True)
class Size:
    """Everything that the time of an update depends on."""

    observation_size: int
    num_dimensions: int
    bins: int = 3
    critics: int = 10
    beta: float = REVALUED.beta
    batch_size: int = 256
    hidden_size: int = 512

    @property
    def shape(self) -> NetworkShape:
        """Return the networks' sizes."""
        actions = FactorisedActions((self.bins,) * self.num_dimensions)
        return NetworkShape(self.observation_size, self.hidden_size, actions, self.critics, "utilities")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `Size(**values)` understands."""
        return asdict(self)


TASKS = {"walker": (24, 6), "quadruped": (78, 12), "humanoid": (67, 21), "dog": (223, 38)}
"""Observations and action dimensions."""


LEAN = (10, 160)
"""Critics and hidden units of an ensemble that costs about as much as one critic of 512."""


def task_size(task: str, **changes: Any) -> Size:
    """Return the size of a task of the control suite, by default with REValueD's 10 critics and 3 bins."""
    return Size(*TASKS[task], **changes)


def cores() -> int:
    """Return how many threads a run uses by default: one per core."""
    return resolve_threads(None)


def make_learner(size: Size, engine: EngineName = "auto", threads: int | None = None) -> Learner:
    """Return a learner as a run would build it on a CPU, by default with one thread per core."""
    threads = threads or cores()
    torch.set_num_threads(threads)
    config = TrainConfig(
        task="",
        algorithm=AlgorithmConfig(critics=size.critics, beta=size.beta),
        learner=LearnerConfig(hidden_size=size.hidden_size, batch_size=size.batch_size),
        execution=ExecutionConfig(threads=threads, engine=engine),
    )
    return build.make_learner(config, build.AgentShape(size.shape, None), torch.device("cpu"))


def random_batch(size: Size, rng: np.random.Generator) -> Batch:
    """Return a batch of made-up transitions, as the replay hands them out."""
    return filled_replay(size, 2_000, rng).sample(size.batch_size, rng)


def filled_replay(size: Size, capacity: int, rng: np.random.Generator) -> Replay:
    """Return a full replay of made-up episodes of 1000 steps, with priorities that differ."""
    config = TrainConfig(task="", replay=ReplayConfig(replay_capacity=capacity))
    replay = build.make_replay(config, build.AgentShape(size.shape, None))
    lanes = config.schedule.num_envs
    replay.begin(rng.standard_normal((lanes, size.observation_size), np.float32))
    terminated = np.zeros(lanes, np.bool_)
    for step in range(capacity // lanes):
        observations = rng.standard_normal((lanes, size.observation_size), np.float32)
        actions = rng.integers(size.bins, size=(lanes, size.num_dimensions))
        truncated = np.full(lanes, step % 1000 == 999)
        replay.append(actions, rng.random(lanes), terminated, truncated, observations, observations)
    for _ in range(50):
        batch = replay.sample(4096, rng)
        rows = np.unique(batch.rows)
        replay.update_priorities(rows, rng.exponential(size=len(rows)))
    return replay
