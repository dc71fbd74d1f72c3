"""Small environments with known answers, for tests and for teaching."""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Final, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from revalued.errors import UserError
from revalued.seeding import stream_rng

Observation = NDArray[np.float32]
Action = NDArray[np.int64]

# float32 counts exactly up to 2**24, so a fraction with this denominator survives it unharmed.
_HASH_RANGE: Final = 2**24


class Toy(gymnasium.Env[Observation, Action]):
    """An episode of so many steps, after which it terminates, or truncates where `_terminates` is false."""

    _terminates = True

    def __init__(
        self,
        sizes: tuple[int, ...],
        observation_space: spaces.Space[Observation],
        max_steps: int,
        reward_range: tuple[float, float],
    ) -> None:
        self.action_space = spaces.MultiDiscrete(np.array(sizes))
        self.observation_space = observation_space
        self.max_episode_steps: int | None = max_steps
        self.reward_range: tuple[float, float] | None = reward_range
        self._sizes = sizes
        self._step = self._episode_steps = max_steps

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin the episode that belongs to `seed`; without one, the next of the sequence the last seed began."""
        super().reset(seed=seed)
        self._step = 0
        self._draw(seed)
        return self._observe(), self._info()

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Pay for the action and show what comes next."""
        if self._step >= self._episode_steps:
            raise gymnasium.error.ResetNeeded("step() after the end of the episode: call reset() first")
        reward = self._reward(np.asarray(action))
        self._step += 1
        is_last = self._step == self._episode_steps
        terminated = is_last and self._terminates
        return self._observe(), reward, terminated, is_last and not terminated, self._info()

    def _draw(self, seed: int | None) -> None:
        """Draw what is random in a new episode."""

    @abstractmethod
    def _reward(self, action: Action) -> float:
        """Return what the action pays."""

    @abstractmethod
    def _observe(self) -> Observation:
        """Return what is seen after `_step` steps."""

    def _info(self) -> dict[str, Any]:
        return {}

    def _fraction_left(self) -> float:
        return 1.0 - self._step / self._episode_steps


class LeverGame(Toy):
    """A row of levers with unequal numbers of positions, and a colour that tells where each one belongs.

    At each step a light shows one of `num_colours` colours. Lever i is right if it stands at position
    `(colour + i) mod sizes[i]`, and the reward is the fraction of levers that are right. A reward that is a mean over
    dimensions is exactly what a mean decomposition can represent, so an agent that learns at all learns this
    perfectly: `optimal_return` is 1 per step. The colours of an episode are drawn from its seed.

    Observation: one-hot colour, then the fraction of the episode that is left. Without the latter, equal observations
    would have different values. The last step terminates.
    """

    def __init__(self, sizes: tuple[int, ...] = (2, 3, 5), num_colours: int = 4, episode_steps: int = 10) -> None:
        super().__init__(sizes, spaces.Box(0.0, 1.0, (num_colours + 1,), np.float32), episode_steps, (0.0, 1.0))
        self.optimal_return = float(episode_steps)
        # right_positions[c, i]: where lever i belongs while the light shows colour c.
        self.right_positions = (np.arange(num_colours)[:, None] + np.arange(len(sizes))) % np.array(sizes)
        self._colours = np.zeros(0, np.int64)

    def _draw(self, seed: int | None) -> None:
        # One more than there are steps: the last observation shows a colour too.
        self._colours = self.np_random.integers(len(self.right_positions), size=self._episode_steps + 1)

    def _reward(self, action: Action) -> float:
        return float(np.mean(action == self.right_positions[self._colours[self._step]]))

    def _observe(self) -> Observation:
        observation = np.zeros(len(self.right_positions) + 1, np.float32)
        observation[self._colours[self._step]] = 1.0
        observation[-1] = self._fraction_left()
        return observation


class CountingEnv(Toy):
    """Says in each observation which episode, which step and which action it belongs to.

    Observation: a fingerprint of the episode's seed in [0, 1) (`fingerprint`), the number of steps taken, and the last
    action (-1 before the first). The reward is the number of steps taken. So a transition that was dropped, repeated,
    reordered, or put together from two lanes or episodes contradicts itself. The length of the episode lies between
    `min_steps` and `max_steps`, and with `ending="either"` its kind of end varies too; both follow from the seed.
    """

    def __init__(
        self,
        sizes: tuple[int, ...] = (2, 3),
        min_steps: int = 3,
        max_steps: int = 12,
        ending: Literal["terminate", "truncate", "either"] = "either",
    ) -> None:
        low = np.array([0, 0, *(-1 for _ in sizes)], np.float32)
        high = np.array([1, max_steps, *(size - 1 for size in sizes)], np.float32)
        super().__init__(sizes, spaces.Box(low, high, dtype=np.float32), max_steps, (1.0, float(max_steps)))
        self._min_steps, self._max_steps, self._ending = min_steps, max_steps, ending
        self._fingerprint = 0.0
        self._last_action: Action = np.full(len(sizes), -1)

    @staticmethod
    def fingerprint(seed: int) -> float:
        """Return the number in [0, 1), exact in float32, by which the observations of this seed can be told."""
        return zlib.crc32(seed.to_bytes(8, "little")) % _HASH_RANGE / _HASH_RANGE

    def _draw(self, seed: int | None) -> None:
        seed = int(self.np_random.integers(2**32)) if seed is None else seed
        self._fingerprint = self.fingerprint(seed)
        shape = stream_rng(seed)
        self._episode_steps = int(shape.integers(self._min_steps, self._max_steps + 1))
        self._terminates = bool(shape.integers(2)) if self._ending == "either" else self._ending == "terminate"
        self._last_action = np.full(len(self._sizes), -1)

    def _reward(self, action: Action) -> float:
        if action.shape != (len(self._sizes),) or (action < 0).any() or (action >= self._sizes).any():
            raise ValueError(f"action {action.tolist()} is none of {self.action_space}")
        self._last_action = action
        return float(self._step + 1)

    def _observe(self) -> Observation:
        return np.array([self._fingerprint, self._step, *self._last_action], np.float32)


class MaskedLevers(Toy):
    """A row of levers of which some positions are blocked, others at every step.

    A lever at position j pays `(j + 1) / sizes[i]`, so the best is always the highest position that is not blocked; the
    reward is the mean over levers. What would pay most is often blocked: an agent that maximises over blocked positions
    overestimates. One that chooses them is fined, −1 for each such lever, or with `strict` stopped by a `ValueError`.
    `best_return` is what the running episode pays at most.

    Observation: one number per position, 1 where it is free, then the fraction of the episode that is left. The mask in
    `info["action_mask"]` is the flat vector of the free positions. The last step terminates.
    """

    def __init__(self, sizes: tuple[int, ...] = (2, 3, 5), episode_steps: int = 10, *, strict: bool = False) -> None:
        super().__init__(sizes, spaces.Box(0.0, 1.0, (sum(sizes) + 1,), np.float32), episode_steps, (-1.0, 1.0))
        self.best_return = 0.0
        self._strict = strict
        self._pay = np.concatenate([(np.arange(size) + 1) / size for size in sizes]) / len(sizes)
        self._starts = np.cumsum([0, *sizes[:-1]])
        self._free = np.zeros((episode_steps + 1, sum(sizes)), bool)

    def _draw(self, seed: int | None) -> None:
        self._free = self.np_random.random(self._free.shape) < 0.5
        for start, size in zip(self._starts, self._sizes, strict=True):
            # One position of each lever is always free.
            spared = start + self.np_random.integers(size, size=len(self._free))
            self._free[np.arange(len(self._free)), spared] = True
        best = np.maximum.reduceat(np.where(self._free[:-1], self._pay, 0.0), self._starts, axis=1)
        self.best_return = float(best.sum())

    def _reward(self, action: Action) -> float:
        positions = self._starts + action
        is_free = self._free[self._step, positions]
        if self._strict and not is_free.all():
            raise ValueError(f"action {action.tolist()} is illegal in step {self._step + 1}")
        return float(np.where(is_free, self._pay[positions], -1 / len(self._sizes)).sum())

    def _observe(self) -> Observation:
        return np.array([*self._free[self._step], self._fraction_left()], np.float32)

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self._free[self._step].copy()}


class TabularFMDP(Toy):
    """One state and N dimensions with n choices each; every action ends the episode.

    The reward is +1 if all dimensions choose their optimal sub-action at once (choice 0, in each of them) and −1
    otherwise. Its point is credit assignment: a dimension that chose right gets −1 because of the others. Choosing
    uniformly gives an expected return of `2 / n**N − 1`, choosing optimally gives `optimal_return`, 1.

    Observation: a single 1. An agent sees nothing else, there is nothing else to see.
    """

    optimal_return = 1.0

    def __init__(self, num_dimensions: int = 3, num_choices: int = 3) -> None:
        super().__init__((num_choices,) * num_dimensions, spaces.Box(0.0, 1.0, (1,), np.float32), 1, (-1.0, 1.0))

    def _reward(self, action: Action) -> float:
        return 1.0 if (action == 0).all() else -1.0

    def _observe(self) -> Observation:
        return np.ones(1, np.float32)


TOYS: Final[dict[str, Callable[[], Toy]]] = {
    "toy-levers": LeverGame,
    "toy-counting": CountingEnv,
    "toy-masked": MaskedLevers,
    "toy-fmdp": TabularFMDP,
}


def make_toy(task: str, render_mode: str | None) -> Toy:
    """Build the toy of that name, in its usual size."""
    if render_mode is not None:
        raise UserError(f"{task} has no pictures")
    return TOYS[task]()
