"""Greedy test episodes on an environment of their own, with seeds of their own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from numpy.typing import NDArray

from revalued.acting.policy import Policy
from revalued.config import ScheduleConfig
from revalued.envs import EnvFault, LaneError, Task, read_mask, store_observation
from revalued.envs.faults import ENV_ERRORS, reason_of
from revalued.envs.noise import TRUE_REWARD
from revalued.envs.repeat import STEPS
from revalued.errors import UserError
from revalued.seeding import evaluate_seeds

Watch: TypeAlias = Callable[[float], None]
"""Looks at an environment at the start of an episode and after each action, given the return so far."""
Video: TypeAlias = Callable[[gymnasium.Env[Any, Any]], AbstractContextManager[Watch]]
"""Opens a video of an environment that draws pictures; the video is complete when the context ends."""

MAX_EVAL_STEPS = ScheduleConfig.max_eval_steps
SECONDS_BETWEEN_QUESTIONS = 0.5
"""How often, within an episode, it is asked whether to stop; asking may take as long as a step."""


class StoppedError(Exception):
    """A test episode was stopped in its middle, because somebody asked for it."""


def _unwatched(total_reward: float) -> None:
    """Look away."""


@dataclass(frozen=True)
class Episode:
    """How one episode went."""

    total_reward: float
    """Without noise, also where the agent was told noisy rewards."""
    length: int
    """In steps of the environment, also where actions are repeated."""
    success: bool | None = None
    """Whether the task was solved at any moment; None in an environment that does not tell."""
    is_cut_off: bool = False
    """Whether it went on when the largest number of steps was reached."""


def cut_off_note(max_steps: int) -> str:
    """Return what to say about an episode that was cut off."""
    return f"a test episode was cut off after {max_steps:,} steps, it had not ended (--max-eval-steps)"


def success_rate(episodes: list[Episode]) -> float | None:
    """Return the fraction of episodes that solved the task; None in an environment that does not tell."""
    known = [episode.success for episode in episodes if episode.success is not None]
    return float(np.mean(known)) if known else None


def mean_metrics(episodes: list[Episode]) -> dict[str, float]:
    """Return mean return, mean length and, where the environment tells, the success rate."""
    metrics = {
        "return": float(np.mean([episode.total_reward for episode in episodes])),
        "length": float(np.mean([episode.length for episode in episodes])),
    }
    success = success_rate(episodes)
    return metrics if success is None else {**metrics, "success": success}


def checked_seeds(seed: int, episodes: int) -> Iterator[int]:
    """Return the seeds of the episodes that `revalued evaluate` and `revalued inspect` play."""
    if episodes < 1:
        raise UserError(f"episodes = {episodes} is not possible: it must be at least 1")
    if seed < 0:
        raise UserError(f"seed = {seed} is not possible: it must be at least 0")
    return evaluate_seeds(seed, episodes)


def play(
    task: Task,
    policy: Policy,
    episodes: int,
    seed: int,
    *,
    video: Video | None = None,
    max_steps: int = MAX_EVAL_STEPS,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Episode]:
    """Play greedy episodes in a new environment, as `revalued evaluate` does; a `video` is shown all of them."""
    seeds = checked_seeds(seed, episodes)
    env = task.make(None if video is None else "rgb_array")
    try:
        with nullcontext(_unwatched) if video is None else video(env) as watch:
            yield from greedy_episodes(env, policy, seeds, watch, max_steps=max_steps, should_stop=should_stop)
    finally:
        env.close()


def greedy_episodes(
    env: gymnasium.Env[np.ndarray, np.ndarray],
    policy: Policy,
    seeds: Iterable[int],
    watch: Watch = _unwatched,
    *,
    max_steps: int = MAX_EVAL_STEPS,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Episode]:
    """Play one greedy episode per seed; raises `StoppedError` as soon as it shall stop."""
    asked_at = time.monotonic()

    def look(total_reward: float) -> None:
        nonlocal asked_at
        watch(total_reward)
        if time.monotonic() - asked_at >= SECONDS_BETWEEN_QUESTIONS:
            if should_stop():
                raise StoppedError
            asked_at = time.monotonic()

    for seed in seeds:
        yield _GreedyEpisode(env, policy, seed).play(look, max_steps)


class _GreedyEpisode:
    """One episode, with everything that the environment says checked as in the lanes."""

    def __init__(self, env: gymnasium.Env[np.ndarray, np.ndarray], policy: Policy, seed: int) -> None:
        self._env, self._policy, self._seed = env, policy, seed
        self._sizes = policy.shape.actions.environment_sizes
        self._observations = np.zeros((1, policy.shape.observation_size), np.float32)
        self._observation = self._observations[0]
        self._mask: NDArray[np.bool_] | None = None
        self._is_masked = False
        self._total_reward, self._length = 0.0, 0
        self._success: bool | None = None

    def play(self, watch: Watch, max_steps: int) -> Episode:
        over = False
        try:
            self._reset()
            watch(self._total_reward)
            while not over and self._length < max_steps:
                self._length += 1
                over = self._step()
                watch(self._total_reward)
        except EnvFault as fault:
            raise self._failure(reason_of(fault)) from fault
        return Episode(self._total_reward, self._length, self._success, is_cut_off=not over)

    def _reset(self) -> None:
        try:
            observation, info = self._env.reset(seed=self._seed)
        except ENV_ERRORS as error:
            raise _fault(error) from error
        self._is_masked = "action_mask" in info
        self._look(observation, info)

    def _step(self) -> bool:
        masks = None if self._mask is None else self._mask[None]
        actions = self._policy.greedy(self._observations, masks)
        action = self._policy.shape.actions.to_environment(actions)[0]
        try:
            observation, reward, terminated, truncated, info = self._env.step(action)
        except ENV_ERRORS as error:
            raise _fault(error) from error
        self._length += info.get(STEPS, 1) - 1
        self._look(observation, info, is_terminal=bool(terminated))
        reward = float(info.get(TRUE_REWARD, reward))
        if not math.isfinite(reward):
            raise EnvFault(f"the reward is {reward}")
        self._total_reward += reward
        solved = info.get("success", info.get("is_success"))
        if isinstance(solved, bool | int | float | np.bool_ | np.number):  # anything else means something else by it
            self._success = bool(self._success) or bool(solved)
        return bool(terminated or truncated)

    def _look(self, observation: Any, info: dict[str, Any], *, is_terminal: bool = False) -> None:
        store_observation(self._observation, observation)
        if self._is_masked and not is_terminal:
            self._mask = read_mask(info, self._sizes)

    def _failure(self, reason: str) -> LaneError:
        where = f"test episode with seed {self._seed}, step {self._length}"
        return LaneError(f"{where}: {reason}", step=self._length)


def _fault(error: BaseException) -> EnvFault:
    """Return what an environment did wrong by raising this."""
    return error if isinstance(error, EnvFault) else EnvFault(reason_of(error))
