"""Environments side by side, in this process or in workers, with a state that can be stored at any moment."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from revalued.envs.task import Task, TaskInfo
from revalued.envs.vector.lane_buffers import LaneBuffers
from revalued.envs.vector.lane_group import LaneGroup
from revalued.envs.vector.lane_state import LaneState, LaneStep, Restored
from revalued.envs.vector.worker_pool import WorkerPool
from revalued.errors import UserError
from revalued.seeding import Stream

# Room for the actions of an episode whose length is not known beforehand, or is known to be enormous; doubled whenever
# it runs out.
_INITIAL_LOG_STEPS = 256
_MAX_INITIAL_LOG_STEPS = 10_000

Stepper: TypeAlias = LaneGroup | WorkerPool
"""What steps the lanes: one group in this process, or a pool of processes with a group in each."""

_WHY_NOT = {
    "new": "before reset() or restore()",
    "ready": "before step_async()",
    "stepping": "between step_async() and step_wait()",
    "over": "after close() or an error",
}


class Lanes:
    """L environments that step together, each beginning a new episode in the step in which the old one ends.

    Use: `reset` or `restore` once, then `step_async` and `step_wait` in turn. Results do not depend on the number of
    workers, to the bit.
    """

    def __init__(self, stepper: Stepper, info: TaskInfo) -> None:
        self._stepper = stepper
        self._buffers = stepper.buffers
        self.num_lanes = len(self._buffers.rewards)
        self._sizes, self._smallest_size = np.array(info.sizes, np.int64), min(info.sizes)
        # The actions of the running episodes, [L, T, N], in the smallest type that can hold them.
        dtype = np.min_scalar_type(max(info.sizes) - 1)
        num_log_steps = min(info.max_episode_steps or _INITIAL_LOG_STEPS, _MAX_INITIAL_LOG_STEPS)
        self._log = np.zeros((self.num_lanes, num_log_steps, len(info.sizes)), dtype)
        self._rows = np.arange(self.num_lanes)
        self._is_masked = info.masked
        self._mask_offsets = np.cumsum([0, *info.sizes[:-1]])
        self._phase: Literal["new", "ready", "stepping", "over"] = "new"

    def reset(self) -> NDArray[np.float32]:
        """Begin episode 0 in every lane and return the observations, [L, D]."""
        self._check("reset", "new", "ready")
        self._run(self._stepper.reset)
        return self._buffers.observations.copy()

    @property
    def masks(self) -> NDArray[np.bool_] | None:
        """What is legal now, [L, Σ sizes], all dimensions laid end to end; None in a task without masks."""
        self._check("masks", "ready")
        return self._buffers.masks.copy() if self._is_masked else None

    @property
    def episodes(self) -> NDArray[np.int64]:
        """The numbers of the running episodes, [L]."""
        self._check("episodes", "ready")
        return self._buffers.episodes.copy()

    def step_async(self, actions: NDArray[np.int64]) -> None:
        """Hand over one action per lane, [L, N]; with workers, they start at once."""
        self._check("step_async", "ready")
        buffers = self._buffers
        if actions.shape != buffers.actions.shape:
            raise ValueError(f"actions have shape {actions.shape} instead of {buffers.actions.shape}")
        # The places of the extremes are found in a fraction of the time that a comparison of all takes.
        is_large = actions.item(actions.argmax()) >= self._smallest_size
        if actions.item(actions.argmin()) < 0 or (is_large and (actions >= self._sizes).any()):
            raise ValueError(f"actions {actions.tolist()} do not fit {self._sizes.tolist()} choices per dimension")
        if self._is_masked and not buffers.masks[self._rows[:, None], self._mask_offsets + actions].all():
            raise ValueError(f"actions {actions.tolist()} are illegal under the action masks")
        buffers.actions[:] = actions
        steps = buffers.steps.tolist()
        if max(steps) >= self._log.shape[1]:
            self._log = np.concatenate([self._log, np.zeros_like(self._log)], axis=1)
        if steps.count(steps[0]) == len(steps):  # as with episodes of equal length; found faster than by a list
            self._log[:, steps[0]] = actions
        else:
            self._log[self._rows, steps] = actions
        self._run(self._stepper.start_step, to="stepping")

    def step_wait(self) -> LaneStep:
        """Return what the step begun with `step_async` brought."""
        self._check("step_wait", "stepping")
        self._run(self._stepper.finish_step)
        buffers = self._buffers
        return LaneStep(
            rewards=buffers.rewards.copy(),
            terminated=buffers.terminated.copy(),
            truncated=buffers.truncated.copy(),
            next_observations=buffers.next_observations.copy(),
            observations=buffers.observations.copy(),
            next_masks=buffers.next_masks.copy() if self._is_masked else None,
            masks=buffers.masks.copy() if self._is_masked else None,
        )

    def state(self) -> LaneState:
        """Return where the lanes stand; allowed between `step_wait` and the next `step_async`."""
        self._check("state", "ready")
        buffers = self._buffers
        return LaneState(
            episodes=buffers.episodes.copy(),
            actions=[self._log[row, :length].copy() for row, length in enumerate(buffers.steps)],
            observations=buffers.observations.copy(),
            masks=buffers.masks.copy(),
        )

    def restore(self, state: LaneState) -> Restored:
        """Bring every lane to where `state` says, by repeating the actions of its unfinished episode.

        A lane whose observation then differs from the recorded one, by as little as a bit, has an environment that is
        not a function of its seed. It begins the next episode, and the result names it.
        """
        self._check("restore", "new", "ready")
        buffers = self._buffers
        if state.observations.shape != buffers.observations.shape:
            shapes = f"{state.observations.shape} instead of {buffers.observations.shape}"
            raise ValueError(f"the state belongs to other lanes: its observations have shape {shapes}")
        if state.masks.shape != buffers.masks.shape:
            shapes = f"{state.masks.shape} instead of {buffers.masks.shape}"
            raise ValueError(f"the state belongs to other lanes: its action masks have shape {shapes}")
        if not all(taken.shape[1:] == self._sizes.shape and (taken < self._sizes).all() for taken in state.actions):
            raise ValueError(f"the state has actions that do not fit {self._sizes.tolist()} choices per dimension")
        self._run(partial(self._stepper.restore, state))
        longest = int(buffers.steps.max())
        while self._log.shape[1] < longest:
            self._log = np.concatenate([self._log, np.zeros_like(self._log)], axis=1)
        for row, length in enumerate(buffers.steps):
            self._log[row, :length] = state.actions[row][:length]
        diverged_lanes = tuple(int(lane) for lane in np.flatnonzero(buffers.diverged))
        return Restored(buffers.observations.copy(), diverged_lanes, self.masks)

    def close(self) -> None:
        """Close the environments and end the workers; may be called twice."""
        self._phase = "over"
        self._stepper.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self, method: str, *allowed: str) -> None:
        if self._phase not in allowed:
            raise RuntimeError(f"{method}() {_WHY_NOT[self._phase]}")

    def _run(self, work: Callable[[], None], to: Literal["ready", "stepping"] = "ready") -> None:
        """Go to the next phase, or to the end if anything goes wrong: half a step cannot be continued."""
        self._phase = "over"
        work()
        self._phase = to


def lanes_from(task: Task, lanes: range, workers: int, seed: int, stream: int = Stream.TRAINING) -> Lanes:
    """Build lanes of a task, in this process (`workers=0`) or spread over worker processes.

    The numbers of the lanes, with the seed and the stream, decide which episodes they play. More workers than lanes
    would have nothing to do, so there are at most as many as lanes.
    """
    if len(lanes) < 1:
        raise UserError(f"there must be at least 1 environment, got {len(lanes)}")
    if workers < 0:
        raise UserError(f"the number of workers cannot be negative, got {workers}")
    if workers > 0:
        return Lanes(WorkerPool(task, lanes, min(workers, len(lanes)), seed, stream), task.info)
    memory = bytearray(LaneBuffers.num_bytes(len(lanes), task.info))
    buffers = LaneBuffers.over(memory, len(lanes), task.info)
    return Lanes(LaneGroup(task, lanes, buffers, seed, stream), task.info)
