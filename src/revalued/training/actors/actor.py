"""One actor: its own lanes, its own copy of the weights, its own random stream. Knows neither Ray nor the learner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from revalued.acting.exploration import EpisodeCritics, epsilon_at, explore
from revalued.acting.normalisation import ObservationNormaliser
from revalued.acting.policy import Policy
from revalued.config import EngineName, ExplorationConfig
from revalued.envs import Lanes, Task, lanes_from
from revalued.native.choice import native_critics
from revalued.networks import NetworkShape, zeros
from revalued.seeding import episode_stream, exploration_rng
from revalued.training.actors.block import Arrays, BlockShape


@dataclass(frozen=True)
class ActorPlan:
    """What all actors of a run are made from."""

    task: Task
    network: NetworkShape
    support: tuple[float, float] | None
    exploration: ExplorationConfig
    seed: int
    num_lanes: int
    """Of each actor."""
    engine: EngineName = "auto"
    normalises: bool = False
    """Whether observations are normalised; the learner says how, along with the weights."""
    action_repeat: int = 1

    @property
    def block_shape(self) -> BlockShape:
        """Return what all blocks have in common."""
        info, actions = self.task.info, self.network.actions
        return BlockShape(
            self.num_lanes, info.observation_size, actions.num_dimensions, actions.max_choices, info.mask_size
        )


def lanes_of(actor: int, num_lanes: int) -> range:
    """Return the numbers of an actor's lanes among those of all actors."""
    return range(actor * num_lanes, (actor + 1) * num_lanes)


class Actor:
    """Steps its lanes and says what happened, a block at a time."""

    def __init__(self, plan: ActorPlan, actor: int, incarnation: int) -> None:
        torch.set_num_threads(1)  # tiny batches, and as many actors on a machine as it has cores
        self._plan, self._actor, self._incarnation = plan, actor, incarnation
        parameters = zeros(plan.network, torch.device("cpu"))
        support = None if plan.support is None else torch.linspace(*plan.support, plan.network.atoms)
        critics = native_critics(plan.engine, plan.network, parameters)
        normaliser = ObservationNormaliser(plan.network.observation_size) if plan.normalises else None
        self._policy = Policy(plan.network, parameters, support, critics, normaliser)
        self._rng = exploration_rng(plan.seed, actor, incarnation)
        lanes, self._stream = lanes_of(actor, plan.num_lanes), episode_stream(incarnation)
        self._critics = EpisodeCritics(plan.exploration, plan.seed, self._stream, lanes)
        self._version: int | None = None
        self._lanes: Lanes | None = None
        self._observations: NDArray[np.float32]
        self._masks: NDArray[np.bool_] | None = None

    def prepare(self) -> Arrays:
        """Build the environments and begin an episode in each; apart from the constructor, so that it may fail."""
        plan, lanes = self._plan, lanes_of(self._actor, self._plan.num_lanes)
        self._lanes = lanes_from(plan.task, lanes, 0, plan.seed, self._stream)
        self._observations = self._lanes.reset()
        self._masks = self._lanes.masks
        return {}

    def collect(self, weights: Arrays, number: int, version: int, env_steps: int, num_steps: int) -> Arrays:
        """Return a block of so many steps; `env_steps` interactions came before it."""
        assert self._lanes is not None
        if version != self._version:
            self._policy.load_tensors({name: torch.tensor(array) for name, array in weights.items()})
            self._version = version
        arrays = {name: np.zeros(*kind) for name, kind in self._plan.block_shape.layout(num_steps, 0).items()}
        arrays["header"][:] = self._actor, self._incarnation, number, version
        arrays["first_observations"][:] = self._observations
        if self._masks is not None:
            arrays["first_masks"][:] = self._masks
        observations, masks = np.zeros_like(arrays["next_observations"]), np.zeros_like(arrays["next_masks"])
        for row in range(num_steps):
            before = env_steps + row * self._plan.num_lanes * self._plan.action_repeat
            critics = self._critics(self._lanes.episodes, self._plan.network.critics)
            epsilon = epsilon_at(self._plan.exploration, before)
            actions, _ = explore(
                self._policy, self._observations, self._plan.exploration, epsilon, self._rng, self._masks, critics
            )
            self._lanes.step_async(self._plan.network.actions.to_environment(actions))
            step = self._lanes.step_wait()
            arrays["actions"][row], arrays["rewards"][row] = actions, step.rewards
            arrays["terminated"][row], arrays["truncated"][row] = step.terminated, step.truncated
            arrays["next_observations"][row], observations[row] = step.next_observations, step.observations
            if step.next_masks is not None and step.masks is not None:
                arrays["next_masks"][row], masks[row] = step.next_masks, step.masks
            self._observations, self._masks = step.observations, step.masks
        ended = arrays["terminated"] | arrays["truncated"]
        return {**arrays, "reset_observations": observations[ended], "reset_masks": masks[ended]}
