"""The training loop on one machine.

One cycle: choose actions with the current weights → start the environments → update on replay → collect the results →
store them. The order is the same whether the environments step in this process or in others, so results do not depend
on the number of workers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revalued.acting.exploration import explore
from revalued.config import TrainConfig
from revalued.envs import LaneState, Task, lanes_from
from revalued.seeding import Stream, restore_rng, rng_state, stream_rng
from revalued.training.trainer import LoopState, Trainer


class LaneLoop:
    """Collects by stepping lanes, in this process or in workers."""

    def __init__(self, config: TrainConfig, task: Task) -> None:
        self._config, num_envs = config, config.schedule.num_envs
        self._rng = stream_rng(config.seed, Stream.EXPLORATION)
        self._lanes = lanes_from(task, range(num_envs), config.execution.workers, config.seed)
        self._observations: NDArray[np.float32] | None = None
        """What to act on next; None before the first episode."""
        self._masks: NDArray[np.bool_] | None = None

    def collect(self, trainer: Trainer, should_stop: Callable[[], bool]) -> None:
        """Step all lanes until the run is complete or shall stop."""
        if self._observations is None:
            self._observations = self._lanes.reset()
            self._masks = self._lanes.masks
            trainer.replay.begin(self._observations, masks=self._masks)
            trainer.observe(self._observations)
        while trainer.env_steps < self._config.schedule.env_steps and not should_stop():
            self._cycle(trainer, self._observations)
            trainer.record.tick(trainer.counts)
            trainer.save_if_due()

    def state(self) -> LoopState:
        """Return what the lanes need to go on in the middle of their episodes."""
        return LoopState(exploration=rng_state(self._rng), lanes=self._lanes.state().to_arrays())

    def restore(self, trainer: Trainer, state: LoopState) -> None:
        """Bring the lanes back to where they were in their unfinished episodes."""
        if state.exploration is None:
            raise ValueError("it was written by a run with actors")
        if not trainer.replay.has_begun:
            raise ValueError("its replay has lanes without any observation")
        restore_rng(self._rng, state.exploration)
        restored = self._lanes.restore(LaneState.from_arrays(state.lanes))
        self._observations, self._masks = restored.observations, restored.masks
        if restored.diverged_lanes:
            lanes = np.asarray(restored.diverged_lanes)
            masks = None if restored.masks is None else restored.masks[lanes]
            trainer.replay.begin(restored.observations[lanes], lanes, masks)
            trainer.episodes.forget_running(restored.diverged_lanes)
            trainer.say(
                f"warning: the environment is not deterministic, lanes {restored.diverged_lanes} begin a new episode; "
                "the resumed run will differ from an uninterrupted one"
            )

    def facts(self) -> dict[str, Any]:
        """Return nothing: the configuration says it all."""
        return {}

    def close(self) -> None:
        """Close the environments and end the workers."""
        self._lanes.close()

    def _cycle(self, trainer: Trainer, observations: NDArray[np.float32]) -> None:
        policy, exploration = trainer.policy, self._config.exploration
        actions = explore(policy, observations, exploration, trainer.env_steps, self._rng, self._masks)
        self._lanes.step_async(policy.shape.actions.to_environment(actions))
        for _ in range(self._updates_due(trainer)):
            trainer.update()
        step = self._lanes.step_wait()
        trainer.replay.append(
            actions,
            step.rewards,
            step.terminated,
            step.truncated,
            step.next_observations,
            step.observations,
            next_masks=step.next_masks,
            reset_masks=step.masks,
        )
        self._observations, self._masks = step.observations, step.masks
        trainer.observe(step.observations)
        trainer.episodes.add(step.rewards, step.terminated | step.truncated)
        trainer.env_steps += self._lanes.num_lanes

    def _updates_due(self, trainer: Trainer) -> int:
        """Return how many updates the interactions up to the end of this cycle have paid for."""
        schedule = self._config.schedule
        if trainer.env_steps < schedule.warmup_env_steps or len(trainer.replay) == 0:
            return 0
        return schedule.updates_paid(trainer.env_steps + schedule.num_envs) - trainer.updates
