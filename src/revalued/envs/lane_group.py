"""The heart of the lanes: one loop that steps a few environments and begins new episodes where old ones end."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revalued.envs.factory import FactoredEnv
from revalued.envs.lane_types import LaneBuffers, LaneError, LaneState, episode_seed


class LaneGroup:
    """Steps a contiguous set of lanes in a plain loop, in whatever process it lives.

    Actions are read from the buffers and results written there. Each episode is seeded from the run's seed, its lane
    and its number alone, so it does not matter how the lanes are grouped.
    """

    def __init__(
        self,
        make: Callable[[], FactoredEnv],
        lanes: range,
        buffers: LaneBuffers,
        seed: int,
        stream: int | str,
    ) -> None:
        self.buffers = buffers
        self._lanes = lanes
        self._seed = seed
        self._stream = stream
        self._observation_shape = buffers.observations.shape[1:]
        self._envs: list[FactoredEnv] = []
        for lane in lanes:
            try:
                self._envs.append(make())
            except Exception as error:
                reason = f"lane {lane} could not be built: {type(error).__name__}: {error}"
                raise LaneError(reason, lane=lane, traceback_text=traceback.format_exc()) from error

    def reset(self) -> None:
        """Begin episode 0 in every lane."""
        for row in range(len(self._envs)):
            self._begin(row, 0)

    def start_step(self) -> None:
        """Do nothing: in one process there is nobody to start."""

    def finish_step(self) -> None:
        """Take the actions in the buffers, one step in every lane."""
        buffers = self.buffers
        actions = buffers.actions.copy()  # an environment may keep its action; the buffer is about to be reused
        for row, env in enumerate(self._envs):
            terminated, truncated = self._step(row, env, actions[row])
            buffers.terminated[row] = terminated
            buffers.truncated[row] = truncated
            if terminated or truncated:
                self._begin(row, int(buffers.episodes[row]) + 1)
            else:
                buffers.observations[row] = buffers.next_observations[row]

    def restore(self, state: LaneState) -> None:
        """Repeat each lane's unfinished episode up to where it stood."""
        for row, actions in enumerate(state.actions):
            episode = int(state.episodes[row])
            has_diverged = not self._replay(row, episode, actions, state.observations[row])
            self.buffers.diverged[row] = has_diverged
            if has_diverged:
                self._begin(row, episode + 1)

    def close(self) -> None:
        """Close all environments."""
        for env in self._envs:
            env.close()
        self._envs = []

    def _begin(self, row: int, episode: int) -> None:
        self.buffers.episodes[row] = episode
        self.buffers.steps[row] = 0
        seed = episode_seed(self._seed, self._stream, self._lanes[row], episode)
        try:
            observation, _ = self._envs[row].reset(seed=seed)
        except Exception as error:
            raise self._failure(row, 0, f"{type(error).__name__}: {error}", traceback.format_exc()) from error
        self._store(self.buffers.observations, row, 0, observation)

    def _step(self, row: int, env: FactoredEnv, action: NDArray[np.int64]) -> tuple[bool, bool]:
        """Take one step and store what it brought, all but the observation to act on next."""
        buffers = self.buffers
        step = int(buffers.steps[row]) + 1
        try:
            observation, reward, terminated, truncated, _ = env.step(action)
        except Exception as error:
            raise self._failure(row, step, f"{type(error).__name__}: {error}", traceback.format_exc()) from error
        self._store(buffers.next_observations, row, step, observation)
        buffers.rewards[row] = reward
        if not np.isfinite(buffers.rewards[row]):
            raise self._failure(row, step, f"the reward is {reward}")
        buffers.steps[row] = step
        return bool(terminated), bool(truncated)

    def _store(self, destination: NDArray[np.float32], row: int, step: int, observation: Any) -> None:
        if np.shape(observation) != self._observation_shape:
            shapes = f"{np.shape(observation)} instead of {self._observation_shape}"
            raise self._failure(row, step, f"the observation has shape {shapes}")
        stored = destination[row]
        stored[:] = observation
        is_finite = np.isfinite(stored)
        if not is_finite.all():
            entry = int(np.argmin(is_finite))
            raise self._failure(row, step, f"entry {entry} of the observation is {stored[entry]}")

    def _replay(self, row: int, episode: int, actions: NDArray[Any], expected: NDArray[np.float32]) -> bool:
        """Return whether the episode came out the same, to the bit."""
        self._begin(row, episode)
        for action in actions.astype(np.int64):
            terminated, truncated = self._step(row, self._envs[row], action)
            if terminated or truncated:  # the episode that was recorded went on
                return False
        if len(actions) > 0:
            self.buffers.observations[row] = self.buffers.next_observations[row]
        return bool(self.buffers.observations[row].tobytes() == expected.tobytes())

    def _failure(self, row: int, step: int, reason: str, traceback_text: str = "") -> LaneError:
        lane, episode = self._lanes[row], int(self.buffers.episodes[row])
        where = f"lane {lane}, episode {episode}, step {step}"
        return LaneError(f"{where}: {reason}", lane=lane, episode=episode, step=step, traceback_text=traceback_text)
