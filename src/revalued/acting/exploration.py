"""ε-greedy exploration: when to try something at random, and what."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from revalued.acting.policy import Policy
from revalued.config import ExplorationConfig


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
    num_lanes, num_dimensions = len(observations), space.num_dimensions
    width = 1 if config.exploration == "joint" else num_dimensions
    # one call for everything random: which critic, whether to explore, what then
    draws = rng.random(num_lanes * (1 + width + num_dimensions))
    critics = (draws[:num_lanes] * policy.shape.critics).astype(np.int64)
    explores = draws[num_lanes : num_lanes * (1 + width)] < epsilon_at(config, env_steps)
    legal = None if masks is None else space.legal(masks)
    num_exploring = np.count_nonzero(explores)
    if num_exploring == 0:
        return policy.greedy_of_critics(observations, critics, legal)
    random_actions = space.uniform(draws[num_lanes * (1 + width) :].reshape(num_lanes, num_dimensions), legal)
    if num_exploring == explores.size:
        return random_actions
    return np.where(
        explores.reshape(num_lanes, width), random_actions, policy.greedy_of_critics(observations, critics, legal)
    )
