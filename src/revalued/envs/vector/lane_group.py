"""The loop that steps some environments and begins new episodes where old ones end."""

from __future__ import annotations

import math
import traceback
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revalued.envs.faults import (
    ENV_ERRORS,
    EnvFault,
    LaneError,
    are_finite,
    check_finite,
    copy_observation,
    read_mask,
    reason_of,
    store_observation,
)
from revalued.envs.spaces.factored import FactoredEnv
from revalued.envs.task import Task
from revalued.envs.vector.lane_buffers import LaneBuffers
from revalued.envs.vector.lane_state import LaneState
from revalued.seeding import episode_seed


class LaneGroup:
    """Steps some lanes in a plain loop, in whatever process it lives.

    Actions are read from the buffers and results written there, a row for each lane. Each episode is seeded from the
    run's seed, its stream, the number of its lane and its own number alone, so it does not matter how the lanes are
    grouped.
    """

    def __init__(self, task: Task, lanes: range, buffers: LaneBuffers, seed: int, stream: int) -> None:
        self.buffers = buffers
        self._lanes = lanes
        self._sizes = task.info.sizes
        self._next_observations = list(buffers.next_observations)  # a view for each lane, made once
        self._is_masked = buffers.masks.shape[1] > 0
        self._seed = seed
        self._stream = stream
        self._envs: list[FactoredEnv] = []
        for lane in lanes:
            try:
                self._envs.append(task.make())
            except ENV_ERRORS as error:
                reason = f"lane {lane} could not be built: {reason_of(error)}"
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
        steps = buffers.steps.tolist()
        ended = []
        for row, action in enumerate(actions):
            try:
                has_ended = self._step(row, action, steps[row] + 1)
            except LaneError:
                self._check_observations(0, row + 1)  # the first fault is the one to be told
                raise
            if has_ended:
                self._check_observations(0, row + 1)  # before the next episode and its number take their place
                self._begin(row, int(buffers.episodes[row]) + 1)
                ended.append(row)
        self._check_observations(0, len(self._envs))
        if not ended:  # in nearly every step, and then one copy does for all lanes
            self._go_on(slice(None))
        else:
            for row in range(len(self._envs)):
                if row not in ended:
                    self._go_on(row)

    def restore(self, state: LaneState) -> None:
        """Repeat each lane's unfinished episode up to where it stood."""
        for row, actions in enumerate(state.actions):
            episode = int(state.episodes[row])
            has_diverged = not self._replay(row, episode, actions, state.observations[row], state.masks[row])
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
            observation, info = self._envs[row].reset(seed=seed)
            store_observation(self.buffers.observations[row], observation)
            self._store_mask(self.buffers.masks, row, info)
        except ENV_ERRORS as error:
            raise self._failure(row, 0, error) from error

    def _step(self, row: int, action: NDArray[np.int64], step: int) -> bool:
        """Take one step, number `step` of the episode, and store what it brought; return whether the episode ended.

        Two things are left to the caller: whether the observation is finite, and what to act on next.
        """
        buffers = self.buffers
        buffers.steps[row] = step
        try:
            observation, reward, terminated, truncated, info = self._envs[row].step(action)
            copy_observation(self._next_observations[row], observation)
            buffers.rewards[row] = reward = float(reward)
            if not math.isfinite(reward):
                raise EnvFault(f"the reward is {reward}")
            if not terminated:  # a terminal state has no actions, and few environments mask there with care
                self._store_mask(buffers.next_masks, row, info)
        except ENV_ERRORS as error:
            raise self._failure(row, step, error) from error
        buffers.terminated[row] = terminated = bool(terminated)
        buffers.truncated[row] = truncated = bool(truncated)
        return terminated or truncated

    def _check_observations(self, start: int, stop: int) -> None:
        """Find NaN and infinity in what the last step of these lanes led to: all at once, which is much faster."""
        if are_finite(self.buffers.next_observations[start:stop]):
            return
        for row in range(start, stop):
            try:
                check_finite(self._next_observations[row])
            except EnvFault as error:
                raise self._failure(row, int(self.buffers.steps[row]), error) from error

    def _store_mask(self, destination: NDArray[np.bool_], row: int, info: dict[str, Any]) -> None:
        if self._is_masked:
            destination[row] = read_mask(info, self._sizes)
        elif "action_mask" in info:
            raise EnvFault("there is an action_mask in info, but there was none at the first reset")

    def _go_on(self, rows: int | slice) -> None:
        """Make what the last step led to the observations to act on next."""
        self.buffers.observations[rows] = self.buffers.next_observations[rows]
        if self._is_masked:
            self.buffers.masks[rows] = self.buffers.next_masks[rows]

    def _replay(
        self,
        row: int,
        episode: int,
        actions: NDArray[Any],
        observation: NDArray[np.float32],
        mask: NDArray[np.bool_],
    ) -> bool:
        """Return whether the episode came out the same, to the bit."""
        self._begin(row, episode)
        for step, action in enumerate(actions.astype(np.int64), start=1):
            has_ended = self._step(row, action, step)
            self._check_observations(row, row + 1)
            if has_ended:  # the episode that was recorded went on
                return False
        if len(actions) > 0:
            self._go_on(row)
        now = self.buffers.observations[row].tobytes(), self.buffers.masks[row].tobytes()
        return now == (observation.tobytes(), mask.tobytes())

    def _failure(self, row: int, step: int, error: BaseException) -> LaneError:
        lane, episode = self._lanes[row], int(self.buffers.episodes[row])
        is_told = isinstance(error, EnvFault)
        return LaneError(
            f"lane {lane}, episode {episode}, step {step}: {reason_of(error)}",
            lane=lane,
            episode=episode,
            step=step,
            traceback_text="" if is_told else traceback.format_exc(),
        )
