"""Two small environments with known answers: one to learn in seconds, one in which a lost step shows."""

from __future__ import annotations

import zlib
from typing import Any, Final, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from revalued.seeding import stream_rng

Observation = NDArray[np.float32]
Action = NDArray[np.int64]

# float32 counts exactly up to 2**24, so a fraction with this denominator survives it unharmed.
_HASH_RANGE: Final = 2**24


class LeverGame(gymnasium.Env[Observation, Action]):
    """A row of levers with unequal numbers of positions, and a colour that tells where each one belongs.

    At each step a light shows one of `num_colours` colours. Lever i is right if it stands at position
    `(colour + i) mod sizes[i]`, and the reward is the fraction of levers that are right. A reward that is a mean over
    dimensions is exactly what a mean decomposition can represent, so an agent that learns at all learns this
    perfectly: `optimal_return` is 1 per step. The colours of an episode are drawn from its seed.

    Observation: one-hot colour, then the fraction of the episode that is left. Without the latter, equal observations
    would have different values. The last step terminates.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - the base class declares it as a plain attribute

    def __init__(self, sizes: tuple[int, ...] = (2, 3, 5), num_colours: int = 4, episode_steps: int = 10) -> None:
        self.action_space = spaces.MultiDiscrete(np.array(sizes))
        self.observation_space = spaces.Box(0.0, 1.0, (num_colours + 1,), np.float32)
        self.max_episode_steps: int | None = episode_steps
        self.reward_range: tuple[float, float] | None = (0.0, 1.0)
        self.optimal_return = float(episode_steps)
        colours = np.arange(num_colours)
        # right_positions[c, i]: where lever i belongs while the light shows colour c.
        self.right_positions = (colours[:, None] + np.arange(len(sizes))) % np.array(sizes)
        self._num_colours = num_colours
        self._episode_steps = episode_steps
        self._colours = np.zeros(0, np.int64)
        self._step = episode_steps

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Draw the colours of a new episode and show the first."""
        super().reset(seed=seed)
        # One more than there are steps: the last observation shows a colour too.
        self._colours = self.np_random.integers(self._num_colours, size=self._episode_steps + 1)
        self._step = 0
        return self._observe(), {}

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Compare the levers with the colour shown, then show the next."""
        if self._step >= self._episode_steps:
            raise gymnasium.error.ResetNeeded("step() after the end of the episode: call reset() first")
        right = self.right_positions[self._colours[self._step]]
        reward = float(np.mean(np.asarray(action) == right))
        self._step += 1
        return self._observe(), reward, self._step == self._episode_steps, False, {}

    def _observe(self) -> Observation:
        observation = np.zeros(self._num_colours + 1, np.float32)
        observation[self._colours[self._step]] = 1.0
        observation[-1] = 1.0 - self._step / self._episode_steps
        return observation


class CountingEnv(gymnasium.Env[Observation, Action]):
    """Says in each observation which episode, which step and which action it belongs to.

    Observation: a fingerprint of the episode's seed in [0, 1) (`fingerprint`), the number of steps taken, and the last
    action (-1 before the first). The reward is the number of steps taken. So a transition that was dropped, repeated,
    reordered, or put together from two lanes or episodes contradicts itself. The length of the episode lies between
    `min_steps` and `max_steps`, and with `ending="either"` its kind of end varies too; both follow from the seed.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - the base class declares it as a plain attribute

    def __init__(
        self,
        sizes: tuple[int, ...] = (2, 3),
        min_steps: int = 3,
        max_steps: int = 12,
        ending: Literal["terminate", "truncate", "either"] = "either",
    ) -> None:
        self.action_space = spaces.MultiDiscrete(np.array(sizes))
        low = np.array([0, 0, *(-1 for _ in sizes)], np.float32)
        high = np.array([1, max_steps, *(size - 1 for size in sizes)], np.float32)
        self.observation_space = spaces.Box(low, high, dtype=np.float32)
        self.max_episode_steps: int | None = max_steps
        self.reward_range: tuple[float, float] | None = (1.0, float(max_steps))
        self._sizes = np.array(sizes)
        self._min_steps = min_steps
        self._max_steps = max_steps
        self._ending = ending
        self._fingerprint = 0.0
        self._step = 0
        self._episode_steps = 0
        self._terminates = True

    @staticmethod
    def fingerprint(seed: int) -> float:
        """Return the number in [0, 1), exact in float32, by which the observations of this seed can be told."""
        return zlib.crc32(seed.to_bytes(8, "little")) % _HASH_RANGE / _HASH_RANGE

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin the episode that belongs to `seed`."""
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(2**32))
        self._fingerprint = self.fingerprint(seed)
        shape = stream_rng(seed)
        self._episode_steps = int(shape.integers(self._min_steps, self._max_steps + 1))
        self._terminates = bool(shape.integers(2)) if self._ending == "either" else self._ending == "terminate"
        self._step = 0
        return self._observe(np.full(len(self._sizes), -1)), {}

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Count one step and show the action taken."""
        if self._step >= self._episode_steps:
            raise gymnasium.error.ResetNeeded("step() after the end of the episode: call reset() first")
        action = np.asarray(action)
        if action.shape != self._sizes.shape or (action < 0).any() or (action >= self._sizes).any():
            raise ValueError(f"action {action.tolist()} is none of {self.action_space}")
        self._step += 1
        is_last = self._step == self._episode_steps
        terminated = is_last and self._terminates
        return self._observe(action), float(self._step), terminated, is_last and not terminated, {}

    def _observe(self, last_action: Action) -> Observation:
        return np.array([self._fingerprint, self._step, *last_action], np.float32)
