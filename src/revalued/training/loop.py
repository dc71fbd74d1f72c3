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

from revalued.acting.exploration import EpisodeCritics, explore
from revalued.actions import FactorisedActions
from revalued.config import TrainConfig
from revalued.envs import LaneState, Task, lanes_from
from revalued.seeding import Stream, restore_rng, rng_state, stream_rng
from revalued.training.trainer import LoopState, Trainer

_CHOSEN = "chosen"
"""Where a checkpoint from the middle of a cycle has its actions."""


class LaneLoop:
    """Collects by stepping lanes, in this process or in workers."""

    def __init__(self, config: TrainConfig, task: Task) -> None:
        self._config, num_envs = config, config.schedule.num_envs
        self._rng = stream_rng(config.seed, Stream.EXPLORATION)
        self._lanes = lanes_from(task, range(num_envs), config.execution.workers, config.seed)
        self._interactions = num_envs * config.action_repeat
        """Of one cycle; an action counts as often as it is to be held, also where its episode ends earlier."""
        self._critics = EpisodeCritics(config.exploration, config.seed, Stream.TRAINING, range(num_envs))
        self._observations: NDArray[np.float32] | None = None
        """What to act on next; None before the first episode."""
        self._masks: NDArray[np.bool_] | None = None
        self._chosen: NDArray[np.int64] | None = None
        """The actions of the cycle under way, None between two cycles."""
        self._cut: LoopState | None = None
        """The state in which a cycle was stopped in its middle: in that of test episodes."""

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
        if self._cut is not None:
            return self._cut
        chosen = {} if self._chosen is None else {_CHOSEN: self._chosen}
        return LoopState(exploration=rng_state(self._rng), lanes={**self._lanes.state().to_arrays(), **chosen})

    def restore(self, trainer: Trainer, state: LoopState) -> None:
        """Bring the lanes back to where they were in their unfinished episodes."""
        if state.exploration is None:
            raise ValueError("it was written by a run with actors")
        if not trainer.replay.has_begun:
            raise ValueError("its replay has lanes without any observation")
        restore_rng(self._rng, state.exploration)
        restored = self._lanes.restore(LaneState.from_arrays(state.lanes))
        self._observations, self._masks = restored.observations, restored.masks
        if _CHOSEN in state.lanes and not restored.diverged_lanes:
            self._chosen = _checked(
                state.lanes[_CHOSEN], trainer.policy.shape.actions, len(restored.observations), restored.masks
            )
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
        if self._chosen is None:  # as it is in all cycles but one that was stopped in its middle
            critics = self._critics(self._lanes.episodes, policy.shape.critics)
            self._chosen, num_exploratory = explore(
                policy, observations, exploration, trainer.epsilon, self._rng, self._masks, critics
            )
            trainer.exploratory_actions += num_exploratory
        actions, updates_due = self._chosen, self._updates_due(trainer)
        state = self.state() if trainer.will_evaluate_within(updates_due) else None
        self._lanes.step_async(policy.shape.actions.to_environment(actions))
        for _ in range(updates_due):
            trainer.update()
            if trainer.owes_evaluation:
                # The checkpoint has to be of this moment: after another update the critics to test would be gone.
                self._cut = state
                return
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
        self._observations, self._masks, self._chosen = step.observations, step.masks, None
        trainer.observe(step.observations)
        trainer.episodes.add(step.rewards, step.terminated | step.truncated)
        trainer.env_steps += self._interactions

    def _updates_due(self, trainer: Trainer) -> int:
        """Return how many updates the interactions up to the end of this cycle have paid for."""
        schedule = self._config.schedule
        if trainer.env_steps < schedule.warmup_env_steps or len(trainer.replay) == 0:
            return 0
        return schedule.updates_paid(trainer.env_steps + self._interactions) - trainer.updates


def _checked(
    chosen: NDArray[Any], space: FactorisedActions, num_lanes: int, masks: NDArray[np.bool_] | None
) -> NDArray[np.int64]:
    """Return the actions of a checkpoint; refuses what the lanes could not have chosen."""
    if chosen.shape != (num_lanes, space.num_dimensions) or chosen.dtype != np.int64:
        raise ValueError("its actions do not fit the lanes")
    legal = space.exists[None] if masks is None else space.legal(masks)
    within = ((chosen >= 0) & (chosen < space.max_choices)).all()
    if not within or not np.take_along_axis(legal, chosen[..., None], axis=-1).all():
        raise ValueError("its actions are none of the choices")
    return chosen
