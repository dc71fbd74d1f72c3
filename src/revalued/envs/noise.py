"""The paper's stochastic variants: Gaussian noise on the rewards and observations that the agent gets."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from revalued.envs.spaces.factored import FactoredEnv
from revalued.seeding import noise_rng

TRUE_REWARD = "revalued.true_reward"
"""Where `info` tells the reward without noise: a name that no environment has for something of its own."""


class Noisy(gymnasium.Wrapper[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]):
    """Adds noise to rewards and to every number of the observations, that of `reset` included.

    The simulation itself stays exact: noise never changes what happens, only what is seen of it. Noise is drawn from
    the episode's seed, so that an episode stays a pure function of seed and actions. The reward without noise is
    `info[TRUE_REWARD]`.
    """

    def __init__(self, env: FactoredEnv, reward_noise: float, state_noise: float) -> None:
        super().__init__(env)
        self._reward_noise, self._state_noise = reward_noise, state_noise
        self._rng = noise_rng(None)
        if state_noise > 0:
            limit = np.finfo(np.float32).max
            self.observation_space = spaces.Box(-limit, limit, env.observation_space.shape, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode; without a seed, noise goes on where it was."""
        if seed is not None:
            self._rng = noise_rng(seed)
        observation, info = self.env.reset(seed=seed, options=options)
        return self._blurred(observation), info

    def step(self, action: NDArray[np.int64]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Take one step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        # Drawn in any case, so that equal seeds have equal state noise with and without noise on the reward.
        noise = self._rng.standard_normal()
        told = float(reward) + self._reward_noise * noise
        return self._blurred(observation), told, terminated, truncated, {**info, TRUE_REWARD: float(reward)}

    def _blurred(self, observation: NDArray[np.float32]) -> NDArray[np.float32]:
        if self._state_noise == 0:
            return observation
        noise = self._rng.standard_normal(observation.shape, np.float32)
        blurred: NDArray[np.float32] = observation + np.float32(self._state_noise) * noise
        return blurred
