"""Greedy test episodes on an environment of their own, with seeds of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import gymnasium
import numpy as np

from revalued.acting import Policy
from revalued.envs import episode_seed

EVALUATION_STREAM = "evaluation"


@dataclass(frozen=True)
class Episode:
    """How one episode went."""

    total_reward: float
    length: int


def evaluation_seed(seed: int, updates: int, episode: int) -> int:
    """Return the seed of a test episode: it depends on the run's seed, when it is held, and its number."""
    return episode_seed(seed, EVALUATION_STREAM, updates, episode)


def greedy_episodes(env: gymnasium.Env[np.ndarray, np.ndarray], policy: Policy, seeds: list[int]) -> Iterator[Episode]:
    """Play one greedy episode per seed."""
    for seed in seeds:
        observation, _ = env.reset(seed=seed)
        total_reward, length, over = 0.0, 0, False
        while not over:
            action = policy.shape.actions.to_environment(policy.greedy(observation[None]))[0]
            observation, reward, terminated, truncated, _ = env.step(action)
            total_reward += float(reward)
            length += 1
            over = terminated or truncated
        yield Episode(total_reward, length)
