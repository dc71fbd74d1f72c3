"""Actors that do no work, and the learner's side of a run with actors in pieces that can be timed."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from benchmarks.sizes import filled_replay, make_learner, task_size
from revalued.config import ExplorationConfig
from revalued.envs import Task, TaskInfo
from revalued.native.sum_tree import native_tree
from revalued.replay import Replay
from revalued.training.actors.actor import ActorPlan
from revalued.training.actors.block import Arrays, read_block
from revalued.training.actors.fleet import Fleet
from revalued.training.actors.loop import store_block
from revalued.training.actors.pacing import Pace
from revalued.training.actors.ray_link import RayLink
from revalued.training.trainer import Counts

SIZE = task_size("dog")
LANES, BLOCK_STEPS, UPDATES_PER_BLOCK = 5, 20, 20
BLOCK_INTERACTIONS = LANES * BLOCK_STEPS


def no_env(*arguments: Any) -> Any:
    """Stand where environments are made; these actors have none."""
    raise RuntimeError("actors of this benchmark have no environments")


def make_plan() -> ActorPlan:
    """Return what actors at dog sizes are made from."""
    info = TaskInfo(SIZE.observation_size, (SIZE.bins,) * SIZE.num_dimensions, None, None)
    return ActorPlan(Task(info, no_env), SIZE.shape, None, ExplorationConfig(), seed=0, num_lanes=LANES)


def made_up_block(plan: ActorPlan, rng: np.random.Generator) -> Arrays:
    """Return the arrays of a block in which no episode ends."""
    arrays: Arrays = {}
    for name, (shape, dtype) in plan.block_shape.layout(BLOCK_STEPS, num_ends=0).items():
        arrays[name] = rng.standard_normal(shape).astype(dtype) if dtype.kind == "f" else np.zeros(shape, dtype)
    arrays["actions"] = rng.integers(SIZE.bins, size=arrays["actions"].shape).astype(arrays["actions"].dtype)
    return arrays


def make_replay(actors: int) -> Replay:
    """Return an empty replay for the lanes of so many actors."""
    return Replay(
        capacity=100_000, num_lanes=actors * LANES, observation_size=SIZE.observation_size, n_step=3, discount=0.99,
        num_dimensions=SIZE.num_dimensions, max_choices=SIZE.bins, faster_tree=native_tree(),
    )  # fmt: skip


class IdleActor:
    """Answers at once with the same made-up block; loads weights as a real actor does."""

    def __init__(self, plan: ActorPlan, actor: int, incarnation: int) -> None:
        torch.set_num_threads(1)
        self._identity = [actor, incarnation]
        self._block = made_up_block(plan, np.random.default_rng(actor))
        self._tensors: dict[str, torch.Tensor] = {}
        self._version: int | None = None

    def prepare(self) -> Arrays:
        return {}

    def collect(self, weights: Arrays, number: int, version: int, env_steps: int, num_steps: int) -> Arrays:
        self.load(weights, version)
        return {**self._block, "header": np.array([*self._identity, number, version], np.int64)}

    def load(self, weights: Arrays, version: int) -> None:
        """Copy weights that are new."""
        if version != self._version:
            self._tensors = {name: torch.tensor(array) for name, array in weights.items()}
            self._version = version


class LearnerSide:
    """A learner with idle actors: takes and stores their blocks, publishes weights by the rules of a run."""

    def __init__(self, ray: Any, actors: int, *, filled: int) -> None:
        self._plan = make_plan()
        self._learner, self._rng = make_learner(SIZE), np.random.default_rng(0)
        self._filled = filled_replay(SIZE, filled, self._rng)  # what updates sample from
        self._replay = make_replay(actors)  # what blocks go into
        self._env_steps = 0
        pace = Pace(
            actors, LANES, BLOCK_STEPS, env_steps=10**12, warmup_env_steps=0, update_ratio=Fraction(1, 5),
            max_staleness=2 * actors * UPDATES_PER_BLOCK, in_order=False,
        )  # fmt: skip
        self._fleet = Fleet(RayLink(ray, self._plan, IdleActor), pace, [0] * actors, print)
        self._fleet.start()
        for _ in range(4 * actors):
            self.take_block()

    def weights(self) -> Arrays:
        """Return the online critics' parameters."""
        return {name: tensor.numpy() for name, tensor in self._learner.online.items()}

    def take_block(self) -> None:
        """Take a block, store it, ask for the next; as if all updates paid for had been made."""
        taken = None
        while taken is None:
            self._fleet.ask(self._counts(), self.weights)
            taken = self._fleet.take(self._counts(), 10.0)
        ticket, arrays = taken
        store_block(self._replay, read_block(arrays, self._plan.block_shape, ticket))
        self._env_steps += BLOCK_INTERACTIONS
        self._fleet.ask(self._counts(), self.weights)

    def milliseconds_per_update(self, *, with_block: bool) -> float:
        """Return the time of the updates that one block pays for, divided by their number."""
        start = time.perf_counter()
        if with_block:
            self.take_block()
        for _ in range(UPDATES_PER_BLOCK):
            batch = self._filled.sample(SIZE.batch_size, self._rng)
            priorities, _ = self._learner.update(batch)
            self._filled.update_priorities(batch.rows, priorities)
        return 1000 * (time.perf_counter() - start) / UPDATES_PER_BLOCK

    def close(self) -> None:
        """End the actors."""
        self._fleet.close()

    def _counts(self) -> Counts:
        return Counts(self._env_steps // 5, self._env_steps)
