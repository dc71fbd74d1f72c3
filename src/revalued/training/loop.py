"""The training loop on one machine.

One cycle: choose actions with the current weights → start the environments → update on replay → collect the results →
store them. The order is the same whether the environments step in this process or in others, so results do not depend
on the number of workers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from revalued.acting.exploration import epsilon_at, explore
from revalued.config import TrainConfig
from revalued.envs import LaneState, Task, lanes_from
from revalued.run.checkpoint import Checkpoint, CheckpointWriter
from revalued.run.folder import RunFolder
from revalued.run.loggers import DEFAULT_LOGGING, Logging
from revalued.run.progress import ProgressView
from revalued.run.provenance import versions
from revalued.run.recorder import Recorder
from revalued.run.save import stated_spaces
from revalued.seeding import Stream, restore_rng, rng_state, stream_rng
from revalued.training.build import agent_shape, make_learner, make_replay, resolve_device
from revalued.training.callbacks import Callbacks


@dataclass(frozen=True)
class Outcome:
    """How a call of `Trainer.run` ended."""

    finished: bool
    summary: dict[str, Any]


class Trainer:
    """One run: owns the lanes, replay, learner and evaluation environment, and writes the run folder."""

    def __init__(
        self,
        config: TrainConfig,
        folder: RunFolder,
        progress: ProgressView,
        task: Task,
        *,
        logging: Logging = DEFAULT_LOGGING,
        callbacks: Callbacks | None = None,
    ) -> None:
        self.config, self.folder, self.progress = config, folder, progress
        shape = agent_shape(config, task.info)
        device = resolve_device(config.execution.device)
        self.learner = make_learner(config, shape, device)
        self.replay = make_replay(config, shape)
        self.policy = self.learner.policy()
        self._explore_rng = stream_rng(config.seed, Stream.EXPLORATION)
        self._replay_rng = stream_rng(config.seed, Stream.REPLAY)
        self.env_steps = 0
        schedule, execution = config.schedule, config.execution
        self._lanes = lanes_from(task, range(schedule.num_envs), execution.workers, config.seed)
        self._record = Recorder(
            config,
            folder,
            progress,
            self.policy,
            task.make(),
            schedule.num_envs,
            logging=logging,
            callbacks=callbacks,
        )
        self._checkpoints = CheckpointWriter(folder.checkpoints)
        self._saved_at, self._saved_updates = -1, 0
        self._is_resumed = False

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint: everything is as it was, down to the unfinished episodes."""
        meta = checkpoint.meta
        self.learner.load_tensors(checkpoint.tensors, meta["updates"])
        self.replay.load_state(checkpoint.group("replay"))
        self.env_steps = self._saved_at = meta["env_steps"]
        self._saved_updates = self.learner.updates
        restore_rng(self._explore_rng, meta["rng"]["exploration"])
        restore_rng(self._replay_rng, meta["rng"]["replay"])
        self._record.load_state(meta["record"], self.learner.updates)
        self._observations = self._restore_lanes(LaneState.from_arrays(checkpoint.group("lanes")))
        self._is_resumed = True

    def run(self, should_stop: Callable[[], bool] = lambda: False) -> Outcome:
        """Train until the configured number of interactions, or until `should_stop`; always leaves a checkpoint."""
        self._record.begin(self.learner.updates, self.env_steps, is_resumed=self._is_resumed)
        try:
            if not self._is_resumed:
                self._observations = self._lanes.reset()
                self._masks = self._lanes.masks
                self.replay.begin(self._observations, masks=self._masks)
            total = self.config.schedule.env_steps
            while self.env_steps < total and not self._record.stop_requested and not should_stop():
                self._cycle()
                self._record.tick(self.learner.updates, self.env_steps)
                if self._passed(self.config.execution.checkpoint_every):
                    self._save()
            finished = self.env_steps >= total
            if finished and not self._record.was_evaluated(self.learner.updates):
                self._record.evaluate(self.learner.updates, self.env_steps)
                self._saved_at = -1  # a checkpoint of this moment lacks this evaluation
            self._save()
            self._checkpoints.wait()
            return Outcome(finished, self._record.finish(self.learner.updates, self.env_steps, finished=finished))
        finally:
            self.close()
            self._checkpoints.wait()

    def close(self) -> None:
        """Close the environments and end the workers; `run` does so by itself."""
        self._lanes.close()
        self._record.close()

    def _restore_lanes(self, state: LaneState) -> np.ndarray:
        restored = self._lanes.restore(state)
        self._masks = restored.masks
        if restored.diverged_lanes:
            lanes = np.asarray(restored.diverged_lanes)
            self.replay.begin(
                restored.observations[lanes], lanes, None if restored.masks is None else restored.masks[lanes]
            )
            self._record.episodes.forget_running(restored.diverged_lanes)
            self.progress.say(
                f"warning: the environment is not deterministic, lanes {restored.diverged_lanes} begin a new episode; "
                "the resumed run will differ from an uninterrupted one"
            )
        return restored.observations

    def _cycle(self) -> None:
        actions = explore(
            self.policy, self._observations, self.config.exploration, self.env_steps, self._explore_rng, self._masks
        )
        self._lanes.step_async(self.policy.shape.actions.to_environment(actions))
        for _ in range(self._updates_due()):
            self._update()
        step = self._lanes.step_wait()
        self.replay.append(
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
        self._record.add_step(step.rewards, step.terminated | step.truncated)
        self.env_steps += self._lanes.num_lanes

    def _updates_due(self) -> int:
        """Return how many updates the interactions up to the end of this cycle have paid for."""
        schedule = self.config.schedule
        if self.env_steps < schedule.warmup_env_steps or len(self.replay) == 0:
            return 0
        paid = self.env_steps - schedule.warmup_env_steps + schedule.num_envs
        return paid // schedule.env_steps_per_update - self.learner.updates

    def _update(self) -> None:
        batch = self.replay.sample(self.config.learner.batch_size, self._replay_rng)
        priorities, figures = self.learner.update(batch)
        self.replay.update_priorities(batch.rows, priorities)
        self._record.add_update(figures, self.learner.updates, self.env_steps)

    def _passed(self, every_updates: int) -> bool:
        # counted from the last save, so that several updates in one cycle cannot jump over a checkpoint
        return self.learner.updates // every_updates > self._saved_updates // every_updates

    def _save(self) -> None:
        if self._saved_at == self.env_steps:
            return
        self.learner.check_finite()
        meta = {
            "updates": self.learner.updates,
            "rng": {"exploration": rng_state(self._explore_rng), "replay": rng_state(self._replay_rng)},
            "record": self._record.state(),
            "epsilon": epsilon_at(self.config.exploration, self.env_steps),
            "task": self.config.task,
            "spaces": stated_spaces(self.policy.shape),
            "versions": versions(),
        }
        arrays = {f"replay.{name}": array for name, array in self.replay.state().items()}
        arrays |= {f"lanes.{name}": array for name, array in self._lanes.state().to_arrays().items()}
        self._checkpoints.save(self.env_steps, meta, self.learner.tensors(), arrays)
        self._saved_at, self._saved_updates = self.env_steps, self.learner.updates
