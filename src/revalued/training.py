"""The training loop on one machine.

One cycle: choose actions with the current weights → start the environments → update on replay → collect the results →
store them. The order is the same whether the environments step in this process or in others, so results do not depend
on the number of workers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.utils.tensorboard.writer import SummaryWriter

from revalued.acting import Policy, epsilon_at, explore
from revalued.build import agent_shape, make_learner, make_replay, resolve_device
from revalued.checkpoint import Checkpoint, CheckpointWriter
from revalued.config import TrainConfig
from revalued.envs import LaneState, Task, lanes_from
from revalued.evaluation import evaluation_seed, greedy_episodes, success_rate
from revalued.metrics import EpisodeLog, MetricWindow
from revalued.progress import ProgressView, Status
from revalued.run_folder import RunFolder, machine, versions
from revalued.seeding import Stream, restore_rng, rng_state, stream_rng


@dataclass(frozen=True)
class Outcome:
    """How a call of `Trainer.run` ended."""

    finished: bool
    summary: dict[str, Any]


class Trainer:
    """One run: owns the lanes, replay, learner and evaluation environment, and writes the run folder."""

    def __init__(self, config: TrainConfig, folder: RunFolder, progress: ProgressView, task: Task) -> None:
        self.config, self.folder, self.progress = config, folder, progress
        shape = agent_shape(config, task.info)
        device = resolve_device(config.execution.device)
        self.learner = make_learner(config, shape, device)
        self.replay = make_replay(config, shape)
        self.policy = Policy(shape.network, self.learner.online, self.learner.support)
        self._explore_rng = stream_rng(config.seed, Stream.EXPLORATION)
        self._replay_rng = stream_rng(config.seed, Stream.REPLAY)
        self._window = MetricWindow()
        self._episodes = EpisodeLog(config.schedule.num_envs)
        self.env_steps = 0
        self._best: tuple[float, int] | None = None
        self._last: tuple[float, int] | None = None
        self._wall_before, self._started = 0.0, time.monotonic()
        schedule, execution = config.schedule, config.execution
        self._lanes = lanes_from(task.make, task.info, schedule.num_envs, execution.workers, config.seed, "training")
        self._eval_env = task.make()
        self._checkpoints = CheckpointWriter(folder.checkpoints)
        self._saved_at, self._saved_updates = -1, 0
        self._is_resumed = False
        self._rate_mark, self._rate = (time.monotonic(), 0, 0), 0.0

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint: everything is as it was, down to the unfinished episodes."""
        meta = checkpoint.meta
        self.learner.load_tensors(checkpoint.tensors, meta["updates"])
        self.replay.load_state(_under("replay.", checkpoint.arrays))
        self.env_steps = self._saved_at = meta["env_steps"]
        self._saved_updates = self.learner.updates
        restore_rng(self._explore_rng, meta["rng"]["exploration"])
        restore_rng(self._replay_rng, meta["rng"]["replay"])
        self._window.load_state(meta["window"], self.learner.device)
        self._episodes.load_state(meta["episodes"])
        self._best, self._last = _pair(meta["best"]), _pair(meta["last"])
        self._wall_before = meta["wall_seconds"]
        self._observations = self._restore_lanes(LaneState.from_arrays(_under("lanes.", checkpoint.arrays)))
        self._is_resumed = True
        self.folder.forget_after(self.learner.updates, self._last[1] if self._last else -1)

    def run(self, should_stop: Callable[[], bool] = lambda: False) -> Outcome:
        """Train until the configured number of interactions, or until `should_stop`; always leaves a checkpoint."""
        self._started = time.monotonic()
        self._rate_mark = (self._started, self.learner.updates, self.env_steps)
        purge = self.learner.updates + 1 if self._is_resumed else 0
        self._events = SummaryWriter(str(self.folder.events), purge_step=purge)
        try:
            if not self._is_resumed:
                self._observations = self._lanes.reset()
                self._masks = self._lanes.masks
                self.replay.begin(self._observations, masks=self._masks)
            total = self.config.schedule.env_steps
            self.progress.update(self._status())
            while self.env_steps < total and not should_stop():
                self._cycle()
                if self._passed(self.config.execution.checkpoint_every):
                    self._save()
            finished = self.env_steps >= total
            if finished and (self._last is None or self._last[1] != self.learner.updates):
                self._evaluate()
                self._saved_at = -1  # a checkpoint of this moment lacks this evaluation
            self._save()
            self._checkpoints.wait()
            summary = self._summary(finished)
            self.folder.write_summary(summary)
            self.progress.update(self._status())
            return Outcome(finished, summary)
        finally:
            self._events.close()
            self.close()
            self._checkpoints.wait()

    def close(self) -> None:
        """Close the environments and end the workers; `run` does so by itself."""
        self._lanes.close()
        self._eval_env.close()

    def _restore_lanes(self, state: LaneState) -> np.ndarray:
        restored = self._lanes.restore(state)
        self._masks = restored.masks
        if restored.diverged_lanes:
            lanes = np.asarray(restored.diverged_lanes)
            self.replay.begin(
                restored.observations[lanes], lanes, None if restored.masks is None else restored.masks[lanes]
            )
            self._episodes.forget_running(restored.diverged_lanes)
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
        self._episodes.add(step.rewards, step.terminated | step.truncated)
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
        priorities, metrics = self.learner.update(batch)
        self.replay.update_priorities(batch.rows, priorities)
        self._window.add(metrics)
        if self.learner.updates % self.config.schedule.log_every == 0:
            self._log()
        if self.learner.updates % self.config.schedule.eval_every == 0:
            self._evaluate()

    def _log(self) -> None:
        now, updates = time.monotonic(), self.learner.updates
        then, updates_then, env_steps_then = self._rate_mark
        self._rate_mark = (now, updates, self.env_steps)
        seconds = max(now - then, 1e-9)
        row = {
            **self._window.flush(),
            **self._episodes.flush(),
            "epsilon": epsilon_at(self.config.exploration, self.env_steps),
            "updates_per_second": (updates - updates_then) / seconds,
            "env_steps_per_second": (self.env_steps - env_steps_then) / seconds,
        }
        self.folder.metric_table.add(
            {"updates": updates, "env_steps": self.env_steps, **row, "wall_seconds": round(self._wall_seconds(), 3)}
        )
        for name, value in row.items():
            self._events.add_scalar(f"train/{name}", value, updates)
        self._rate = row["env_steps_per_second"]
        self.progress.update(self._status())

    def _evaluate(self) -> None:
        updates, schedule = self.learner.updates, self.config.schedule
        seeds = [evaluation_seed(self.config.seed, updates, number) for number in range(schedule.eval_episodes)]
        episodes = list(greedy_episodes(self._eval_env, self.policy, seeds))
        mean_return = float(np.mean([episode.total_reward for episode in episodes]))
        success = success_rate(episodes)
        self._last = (mean_return, updates)
        if self._best is None or mean_return > self._best[0]:
            self._best = self._last
        self.folder.eval_table.add(
            {
                "updates": updates,
                "env_steps": self.env_steps,
                "return": mean_return,
                "length": float(np.mean([episode.length for episode in episodes])),
                "success": "" if success is None else success,
                "wall_seconds": round(self._wall_seconds(), 3),
            }
        )
        self._events.add_scalar("eval/return", mean_return, updates)
        if success is not None:
            self._events.add_scalar("eval/success", success, updates)
        self.progress.evaluated(self._status())

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
            "window": self._window.state(),
            "episodes": self._episodes.state(),
            "best": self._best,
            "last": self._last,
            "wall_seconds": self._wall_seconds(),
            "epsilon": epsilon_at(self.config.exploration, self.env_steps),
            "task": self.config.task,
            "versions": versions(),
        }
        arrays = {f"replay.{name}": array for name, array in self.replay.state().items()}
        arrays |= {f"lanes.{name}": array for name, array in self._lanes.state().to_arrays().items()}
        self._checkpoints.save(self.env_steps, meta, self.learner.tensors(), arrays)
        self._saved_at, self._saved_updates = self.env_steps, self.learner.updates

    def _wall_seconds(self) -> float:
        return self._wall_before + time.monotonic() - self._started

    def _status(self) -> Status:
        return Status(
            env_steps=self.env_steps,
            total_env_steps=self.config.schedule.env_steps,
            updates=self.learner.updates,
            env_steps_per_second=self._rate,
            last_return=self._last[0] if self._last else None,
            best_return=self._best[0] if self._best else None,
        )

    def _summary(self, finished: bool) -> dict[str, Any]:
        return {
            "finished": finished,
            "task": self.config.task,
            "algo": self.config.algo,
            "seed": self.config.seed,
            "updates": self.learner.updates,
            "env_steps": self.env_steps,
            "train_episodes": self._episodes.total_episodes,
            "final_return": self._last[0] if self._last else None,
            "best_return": self._best[0] if self._best else None,
            "best_at_updates": self._best[1] if self._best else None,
            "wall_seconds": round(self._wall_seconds(), 3),
            "versions": versions(),
            "machine": machine(),
        }


def _under(prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _pair(value: Any) -> tuple[float, int] | None:
    return None if value is None else (float(value[0]), int(value[1]))
