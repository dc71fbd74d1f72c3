"""ε-greedy exploration: when to try something at random, and what."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from revalued.acting.policy import Policy
from revalued.config import ExplorationConfig
from revalued.seeding import critic_of_episode, episode_seed


class Explored(NamedTuple):
    """What lanes do next."""

    actions: NDArray[np.int64]
    """[L, N]"""
    num_exploratory: int
    """How many of these actions are random, in all dimensions or in some."""


def epsilon_at(config: ExplorationConfig, env_steps: int, exploratory_actions: int = 0) -> float:
    """Return ε = max(minimum, decay^t); t counts interactions or exploratory actions, as the schedule says."""
    steps = env_steps if config.epsilon_schedule == "interactions" else exploratory_actions
    return max(config.epsilon_min, config.epsilon_decay**steps)


def explore(
    policy: Policy,
    observations: NDArray[np.float32],
    config: ExplorationConfig,
    epsilon: float,
    rng: np.random.Generator,
    masks: NDArray[np.bool_] | None = None,
    critics: NDArray[np.int64] | None = None,
) -> Explored:
    """Return ε-greedy actions [L, N] for L lanes.

    Greedy actions are the ensemble's or those of one critic for each lane, drawn here unless `critics` [L] says which.
    With the environment's masks [L, Σ sizes], random and greedy choices alike are made among the legal ones.
    Every call draws the same amount of randomness, whatever comes of it, so streams never depend on outcomes.
    """
    space = policy.shape.actions
    num_lanes, num_dimensions = len(observations), space.num_dimensions
    width = 1 if config.exploration == "joint" else num_dimensions
    # one call for everything random: which critic, whether to explore, what then
    draws = rng.random(num_lanes * (1 + width + num_dimensions))
    if critics is None:
        critics = (draws[:num_lanes] * policy.shape.critics).astype(np.int64)
    explores = draws[num_lanes : num_lanes * (1 + width)] < epsilon
    legal = None if masks is None else space.legal(masks)
    num_exploring = np.count_nonzero(explores)
    if num_exploring == 0:
        return Explored(_greedy(policy, observations, config, critics, legal), 0)
    random_actions = space.uniform(draws[num_lanes * (1 + width) :].reshape(num_lanes, num_dimensions), legal)
    if num_exploring == explores.size:
        return Explored(random_actions, num_lanes)
    greedy_actions = _greedy(policy, observations, config, critics, legal)
    is_random = explores.reshape(num_lanes, width)
    return Explored(np.where(is_random, random_actions, greedy_actions), int(is_random.any(axis=1).sum()))


def _greedy(
    policy: Policy,
    observations: NDArray[np.float32],
    config: ExplorationConfig,
    critics: NDArray[np.int64],
    legal: NDArray[np.bool_] | None,
) -> NDArray[np.int64]:
    if config.act_with == "ensemble-mean":
        return policy.greedy_of_mean(observations, legal)
    return policy.greedy_of_critics(observations, critics, legal)


class EpisodeCritics:
    """Which critic acts in each lane, where `act_with` wants one to act throughout an episode.

    It follows from the episode's seed, so lanes and episodes have the same critic whatever process they are in, and a
    resumed run goes on with the critics that its unfinished episodes began with.
    """

    def __init__(self, config: ExplorationConfig, seed: int, stream: int, lanes: Iterable[int]) -> None:
        self._is_asked_for = config.act_with == "critic-per-episode"
        self._seed, self._stream, self._lanes = seed, stream, tuple(lanes)

    def __call__(self, episodes: NDArray[np.int64], critics: int) -> NDArray[np.int64] | None:
        """Return which of so many critics acts in each lane [L], in these episodes [L]; None if it is not asked for."""
        if not self._is_asked_for:
            return None
        running = zip(self._lanes, episodes.tolist(), strict=True)
        return np.array([_critic(self._seed, self._stream, *which, critics) for which in running], np.int64)


@lru_cache(maxsize=1024)  # asked for in every step, and new only with a new episode
def _critic(seed: int, stream: int, lane: int, episode: int, critics: int) -> int:
    return critic_of_episode(episode_seed(seed, stream, lane, episode), critics)
