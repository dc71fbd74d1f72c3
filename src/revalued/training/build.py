"""From a configuration and a task's description to the pieces that a run is made of."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from revalued.actions import FactorisedActions
from revalued.config import TrainConfig
from revalued.envs import TaskInfo
from revalued.errors import UserError
from revalued.learner.learner import Learner
from revalued.native.rows import native_rows
from revalued.native.sum_tree import native_tree
from revalued.networks import NetworkShape
from revalued.replay import Replay
from revalued.seeding import Stream, stream_seed


@dataclass(frozen=True)
class AgentShape:
    """Sizes of the networks, the ends of the support of categorical heads, the length of action masks."""

    network: NetworkShape
    support: tuple[float, float] | None
    mask_size: int = 0


def agent_shape(config: TrainConfig, task: TaskInfo) -> AgentShape:
    """Work out all sizes; refuses action spaces and supports that the algorithm cannot have."""
    algorithm = config.algorithm
    atomic = algorithm.decomposition == "atomic"
    actions = FactorisedActions.atomic(task.sizes) if atomic else FactorisedActions(task.sizes)
    categorical = algorithm.head == "categorical"
    network = NetworkShape(
        observation_size=task.observation_size,
        hidden_size=config.learner.hidden_size,
        actions=actions,
        critics=algorithm.critics,
        head=algorithm.head,
        atoms=algorithm.atoms if categorical else 1,
        torso=config.learner.torso,
        blocks=config.learner.blocks,
    )
    return AgentShape(network, _support(config, task) if categorical else None, task.mask_size)


def _support(config: TrainConfig, task: TaskInfo) -> tuple[float, float]:
    algorithm = config.algorithm
    low, high = algorithm.value_min, algorithm.value_max
    if low is None or high is None:
        if task.reward_range is None or algorithm.discount >= 1:
            raise UserError(
                "a categorical head needs the range of possible returns, which this task does not tell: "
                "give --value-min and --value-max"
            )
        horizon = config.learner.reward_scale * config.action_repeat / (1 - algorithm.discount)
        # the paper's [0, 100] must not become 99.99999 by rounding
        low = round(task.reward_range[0] * horizon, 6) if low is None else low
        high = round(task.reward_range[1] * horizon, 6) if high is None else high
    if not low < high:
        raise UserError(f"value_min {low} must lie below value_max {high}")
    return low, high


def make_learner(config: TrainConfig, shape: AgentShape, device: torch.device) -> Learner:
    """Return a learner with freshly initialised critics."""
    seed = stream_seed(config.seed, Stream.INITIALISATION)
    return Learner(
        config.algorithm,
        config.learner,
        shape.network,
        shape.support,
        seed,
        device,
        engine=config.execution.engine,
        compile_update=config.execution.compile,
    )


def make_replay(config: TrainConfig, shape: AgentShape) -> Replay:
    """Return an empty replay."""
    return Replay(
        capacity=config.replay.replay_capacity,
        num_lanes=config.schedule.num_envs * max(1, config.execution.actors),
        observation_size=shape.network.observation_size,
        num_dimensions=shape.network.actions.num_dimensions,
        max_choices=shape.network.actions.max_choices,
        mask_size=shape.mask_size,
        reward_scale=config.learner.reward_scale,
        n_step=config.algorithm.n_step,
        discount=config.algorithm.discount,
        prioritised=config.replay.prioritised,
        priority_exponent=config.replay.priority_exponent,
        importance_exponent=config.replay.importance_exponent,
        faster_tree=native_tree(),
        faster_rows=native_rows(),
    )
