"""Choosing actions: ε-greedy with one critic drawn per lane, and greedy on the ensemble's mean."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from revalued.config import ExplorationConfig
from revalued.networks import NetworkShape, Parameters, predict
from revalued.ops.categorical import expected_values
from revalued.ops.utilities import greedy_actions


class Policy:
    """Per-dimension values of every choice, from whatever parameters it is given."""

    def __init__(self, shape: NetworkShape, parameters: Parameters, support: Tensor | None) -> None:
        self.shape, self.parameters, self.support = shape, parameters, support
        self.device = parameters["input"].device
        self.exists = torch.from_numpy(shape.actions.exists).to(self.device) if shape.actions.is_padded else None

    @torch.no_grad()
    def utilities(self, observations: NDArray[np.float32]) -> Tensor:
        """Return utilities [K, B, N, A] for observations [B, D]; a categorical head's expected values."""
        output = predict(self.parameters, torch.tensor(observations, device=self.device), self.shape, self.exists)
        return output if self.support is None else expected_values(output, self.support)

    @torch.no_grad()
    def greedy(self, observations: NDArray[np.float32], masks: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return the greedy actions [B, N] of the ensemble's mean utilities, legal under the masks [B, Σ sizes]."""
        mean = self.utilities(observations).mean(dim=0)
        legal = None if masks is None else self.shape.actions.legal(masks)
        actions: NDArray[np.int64] = greedy_actions(mean, self._allowed(legal)).cpu().numpy()
        return actions

    @torch.no_grad()
    def greedy_of_critics(
        self,
        observations: NDArray[np.float32],
        critics: NDArray[np.int64],
        legal: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.int64]:
        """Return for every lane the greedy action [N] of the critic drawn for it, among those `legal` [L, N, A]."""
        lanes = torch.arange(len(critics), device=self.device)
        own = self.utilities(observations)[torch.from_numpy(critics).to(self.device), lanes]
        actions: NDArray[np.int64] = greedy_actions(own, self._allowed(legal)).cpu().numpy()
        return actions

    def _allowed(self, legal: NDArray[np.bool_] | None) -> Tensor | None:
        # what is legal exists too, so nothing has to be combined
        return self.exists if legal is None else torch.from_numpy(legal).to(self.device)


def epsilon_at(config: ExplorationConfig, env_steps: int) -> float:
    """Return ε = max(minimum, decay^t) after t environment interactions."""
    return max(config.epsilon_min, config.epsilon_decay**env_steps)


def explore(
    policy: Policy,
    observations: NDArray[np.float32],
    config: ExplorationConfig,
    env_steps: int,
    rng: np.random.Generator,
    masks: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64]:
    """Return ε-greedy actions [L, N] for L lanes that have made `env_steps` interactions together.

    With the environment's masks [L, Σ sizes], random and greedy choices alike are made among the legal ones.
    Every call draws the same amount of randomness, whatever comes of it, so streams never depend on outcomes.
    """
    space = policy.shape.actions
    num_lanes = len(observations)
    critics = (rng.random(num_lanes) * policy.shape.critics).astype(np.int64)
    width = 1 if config.exploration == "joint" else space.num_dimensions
    explores = rng.random((num_lanes, width)) < epsilon_at(config, env_steps)
    legal = None if masks is None else space.legal(masks)
    random_actions = space.uniform(rng.random((num_lanes, space.num_dimensions)), legal)
    if explores.all():
        return random_actions
    return np.where(explores, random_actions, policy.greedy_of_critics(observations, critics, legal))
