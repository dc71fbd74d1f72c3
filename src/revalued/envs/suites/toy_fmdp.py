"""The tabular factorisable MDP of the paper's appendix H: one state, one step, one rewarded combination."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Observation = NDArray[np.float32]
Action = NDArray[np.int64]


class TabularFMDP(gymnasium.Env[Observation, Action]):
    """One state and N dimensions with n choices each; every action ends the episode.

    The reward is +1 if all dimensions choose their optimal sub-action at once (choice 0, in each of them) and −1
    otherwise. Its point is credit assignment: a dimension that chose right gets −1 because of the others. Choosing
    uniformly gives an expected return of `2 / n**N − 1`, choosing optimally gives `optimal_return`, 1.

    Observation: a single 1. An agent sees nothing else, there is nothing else to see.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - the base class declares it as a plain attribute

    def __init__(self, num_dimensions: int = 3, num_choices: int = 3) -> None:
        self.action_space = spaces.MultiDiscrete(np.full(num_dimensions, num_choices))
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.max_episode_steps: int | None = 1
        self.reward_range: tuple[float, float] | None = (-1.0, 1.0)
        self.optimal_return = 1.0
        self._is_running = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Return to the one state there is."""
        super().reset(seed=seed)
        self._is_running = True
        return np.ones(1, np.float32), {}

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Pay the reward and end the episode."""
        if not self._is_running:
            raise gymnasium.error.ResetNeeded("step() after the end of the episode: call reset() first")
        self._is_running = False
        reward = 1.0 if (np.asarray(action) == 0).all() else -1.0
        return np.ones(1, np.float32), reward, True, False, {}
