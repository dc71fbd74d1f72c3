"""What an environment is like, found out by playing it at random for a few seconds."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revalued.actions import FactorisedActions
from revalued.envs.faults import EnvFault, LaneError, read_mask, reason_of, store_observation
from revalued.envs.spaces.factored import FactoredEnv
from revalued.envs.task import Task
from revalued.seeding import Stream, episode_seed, stream_rng

_REPEATED_STEPS = 200
_HORIZON = 100
"""Steps that a value looks ahead: 1 / (1 - γ) with the default discount."""
_MANY_ALIKE = 3
"""Episodes of equal length that are no accident."""
_MOMENTS = (0.0, 0.5, 0.25, 0.75, 0.125, 0.625, 0.375, 0.875, 0.9375, 0.4375, 0.6875, 0.1875)
"""Where in random episodes other choices are tried; time may be up early, so what lies between others comes later."""
_LATEST_STEP, _OTHER_CHOICES = 64, 3
"""Steps that are repeated to come back to a moment, at most, and how many other choices are tried there."""
_LEAST_MOMENTS, _LEAST_SHARE = 4, 0.25
"""With fewer moments, or where rewards are so rare that choices pay at fewer of them, there is no telling."""


@dataclass(frozen=True)
class Findings:
    """What was seen; returns and lengths are of whole episodes only."""

    sizes: tuple[int, ...]
    """Choices per action dimension."""
    combinations: float
    """How many joint actions there are."""
    observation_size: int
    lowest: NDArray[np.float32]
    """[D], the smallest observation seen."""
    highest: NDArray[np.float32]
    """[D], the largest observation seen."""
    deviations: NDArray[np.float64]
    """[D], standard deviations of the observations."""
    legal_share: float | None
    """Mean share of choices that the masks allow; None in an environment without masks."""
    max_episode_steps: int | None
    """As declared."""
    lengths: list[int]
    returns: list[float]
    terminated: int
    """Episodes that ended by termination; the others were truncated."""
    rewards: tuple[float, float]
    """Smallest and largest reward of a step."""
    mean_reward_size: float
    """Mean of the rewards' absolute values."""
    reward_range: tuple[float, float] | None
    """As declared."""
    steps: int
    seconds: float
    """Spent in steps of the environment alone."""
    repeats: bool
    """Whether an episode repeats to the bit from its seed and its actions."""
    paid_at_once: float | None
    """How much of the rewards' variance in random play is due to the choice just made; None where that is unknown."""

    @property
    def steps_per_second(self) -> float:
        """Return how fast the environment steps in one process."""
        return self.steps / self.seconds if self.seconds > 0 else math.inf

    @property
    def scale_ratio(self) -> float:
        """Return how far the scales of observations lie apart, constant ones left out."""
        moving = self.deviations[self.deviations > 1e-6]
        return float(moving.max() / moving.min()) if len(moving) else 1.0

    @property
    def value_size(self) -> float:
        """Return about how large the values of random play are, in either direction."""
        return self.mean_reward_size * min([_HORIZON, *self.lengths])

    @property
    def has_suspicious_ends(self) -> bool:
        """Tell whether every episode terminated after equally many steps, as if by a time limit."""
        alike = len(set(self.lengths)) == 1 and self.lengths[0] > 1
        return alike and len(self.lengths) >= _MANY_ALIKE and self.terminated == len(self.lengths)


def examine(task: Task, *, episodes: int, seconds: float, seed: int) -> Findings:
    """Play up to so many random episodes, for about so many seconds, and look whether the first repeats."""
    player = _RandomPlayer(task, seed)
    try:
        deadline = time.monotonic() + seconds
        for number in range(episodes):
            if not player.play(number, deadline) and player.lengths:
                break  # time is up
        repeats = player.repeats(_REPEATED_STEPS)
        paid_at_once = player.paid_at_once(time.monotonic() + seconds) if repeats else None
    finally:
        player.env.close()
    seen = np.array(player.observations, np.float64)
    return Findings(
        sizes=task.info.sizes,
        combinations=math.prod(float(size) for size in task.info.sizes),
        observation_size=task.info.observation_size,
        lowest=seen.min(axis=0).astype(np.float32),
        highest=seen.max(axis=0).astype(np.float32),
        deviations=seen.std(axis=0),
        legal_share=float(np.mean(player.legal)) if player.legal else None,
        max_episode_steps=task.info.max_episode_steps,
        lengths=player.lengths,
        returns=player.returns,
        terminated=player.terminated,
        rewards=(min(player.rewards), max(player.rewards)),
        mean_reward_size=float(np.abs(player.rewards).mean()),
        reward_range=task.info.reward_range,
        steps=len(player.rewards),
        seconds=player.seconds,
        repeats=repeats,
        paid_at_once=paid_at_once,
    )


class _RandomPlayer:
    """Plays at random among what is legal, and remembers what it saw."""

    def __init__(self, task: Task, seed: int) -> None:
        self.env: FactoredEnv = task.make()
        self._task, self._seed, self._space = task, seed, FactorisedActions(task.info.sizes)
        self._rng = stream_rng(seed, Stream.EXPLORATION)
        self.observations: list[NDArray[np.float32]] = []
        self.legal: list[float] = []
        self.lengths: list[int] = []
        self.returns: list[float] = []
        self.terminated, self.seconds = 0, 0.0
        self._actions: list[list[NDArray[np.int64]]] = []
        self._rewards: list[list[float]] = []

    @property
    def rewards(self) -> list[float]:
        """Return the rewards of all steps."""
        return [reward for episode in self._rewards for reward in episode]

    def play(self, number: int, deadline: float) -> bool:
        """Play one episode; return False if time was up before its end."""
        step, total = 0, 0.0
        self._actions.append([])
        self._rewards.append([])
        try:
            mask = self._look(*self.env.reset(seed=self._episode_seed(number)))
            while step == 0 or time.monotonic() < deadline:
                step += 1
                action = self._choose(mask)
                self._actions[number].append(action)
                began = time.perf_counter()
                observation, reward, terminated, truncated, info = self.env.step(action)
                self.seconds += time.perf_counter() - began
                if not math.isfinite(reward):
                    raise EnvFault(f"the reward is {reward}")
                self._rewards[number].append(float(reward))
                total += float(reward)
                mask = self._look(observation, info, is_terminal=terminated)
                if terminated or truncated:
                    self.lengths.append(step)
                    self.returns.append(total)
                    self.terminated += terminated
                    return True
        except Exception as error:
            where = f"random episode {number}, step {step}"
            raise LaneError(f"{where}: {reason_of(error)}", episode=number, step=step) from error
        return False

    def repeats(self, steps: int) -> bool:
        """Play the first steps of the first episode again, twice, and compare to the bit."""
        return self._trace(steps) == self._trace(steps)

    def paid_at_once(self, deadline: float) -> float | None:
        """Come back to some moments, try several choices at each, and compare rewards at one moment and between them.

        Return the share of the variance that lies within a moment, where nothing but the choice differs.
        """
        rewards: list[list[float]] = []
        for number, moment in enumerate(_MOMENTS):
            episode = number % len(self._actions)
            step = int(moment * min(len(self._actions[episode]), _LATEST_STEP))
            others = [self._try_another(episode, step) for _ in range(_OTHER_CHOICES)]
            rewards.append([self._rewards[episode][step], *others])
            if time.monotonic() >= deadline:
                break
        own = np.var(rewards, axis=1, ddof=1)
        is_rare = 0 < np.mean(own > 0) < _LEAST_SHARE
        if len(rewards) < _LEAST_MOMENTS or is_rare or np.ptp(rewards) == 0:
            return None
        within = float(own.mean())
        between = max(float(np.var(np.mean(rewards, axis=1), ddof=1)) - within / len(rewards[0]), 0.0)
        return within / (within + between)

    def _try_another(self, episode: int, step: int) -> float:
        """Return the reward of another random choice at this step of an episode."""
        try:
            _, info = self.env.reset(seed=self._episode_seed(episode))
            for action in self._actions[episode][:step]:
                *_, info = self.env.step(action)
            mask = read_mask(info, self._task.info.sizes) if self._task.info.masked else None
            reward = float(self.env.step(self._choose(mask))[1])
            if not math.isfinite(reward):
                raise EnvFault(f"the reward is {reward}")
        except Exception as error:
            where = f"random episode {episode}, step {step + 1}, with another choice"
            raise LaneError(f"{where}: {reason_of(error)}", episode=episode, step=step + 1) from error
        return reward

    def _trace(self, steps: int) -> bytes:
        observation, _ = self.env.reset(seed=self._episode_seed(0))
        seen = [np.asarray(observation, np.float32).tobytes()]
        for action in self._actions[0][:steps]:
            observation, reward, terminated, truncated, _ = self.env.step(action)
            seen += [np.asarray(observation, np.float32).tobytes(), np.float64(reward).tobytes()]
            if terminated or truncated:
                break
        return b"".join(seen)

    def _episode_seed(self, number: int) -> int:
        return episode_seed(self._seed, Stream.EVALUATE, 0, number)

    def _look(self, observation: Any, info: Any, *, is_terminal: bool = False) -> NDArray[np.bool_] | None:
        kept = np.zeros(self._task.info.observation_size, np.float32)
        store_observation(kept, observation)
        self.observations.append(kept)
        if not self._task.info.masked or is_terminal:
            return None
        mask = read_mask(info, self._task.info.sizes)
        self.legal.append(float(mask.mean()))
        return mask

    def _choose(self, mask: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        legal = None if mask is None else self._space.legal(mask)
        return self._space.uniform(self._rng.random(self._space.num_dimensions), legal)
