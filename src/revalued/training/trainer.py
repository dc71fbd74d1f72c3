"""One run, however it collects: it owns the learner and its replay, and decides when to update, evaluate, log and save.

A loop collects: `training.loop` steps lanes on this machine, `training.actors.loop` takes blocks of steps from actors.
What is written down, and where, is handed in by `revalued.run.start`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from revalued.acting.exploration import epsilon_at
from revalued.config import TrainConfig
from revalued.envs import Task
from revalued.seeding import Stream, evaluation_seed, stream_rng
from revalued.training.averages import EpisodeLog, MetricWindow
from revalued.training.build import AgentShape, make_learner, make_replay
from revalued.training.callbacks import Callbacks, Event, EventKind
from revalued.training.evaluation import StoppedError, cut_off_note, greedy_episodes, mean_metrics


class Counts(NamedTuple):
    """How far a run has come."""

    updates: int
    """Gradient updates made."""
    env_steps: int
    """Environment interactions stored, over all lanes."""


@dataclass(frozen=True)
class RunResult:
    """How a run ended, or the part of it that was asked for."""

    finished: bool
    summary: dict[str, Any]
    """What summary.json says."""


@dataclass(frozen=True)
class LoopState:
    """What a loop adds to a checkpoint; each kind of loop has parts of its own."""

    exploration: dict[str, Any] | None = None
    """State of the random stream that lanes on this machine explore by."""
    lanes: dict[str, NDArray[Any]] = field(default_factory=dict)
    """The unfinished episodes of lanes on this machine."""
    fleet: dict[str, Any] | None = None
    """What is known of the actors."""


class Loop(Protocol):
    """A way to collect."""

    def collect(self, trainer: Trainer, should_stop: Callable[[], bool]) -> None:
        """Fill the replay and let the trainer update, until the run is complete or shall stop."""

    def state(self) -> LoopState:
        """Return what a checkpoint needs."""

    def restore(self, trainer: Trainer, state: LoopState) -> None:
        """Go on from `state`; called after everything else is restored."""

    def facts(self) -> dict[str, Any]:
        """Return what the summary says about this way to collect."""

    def close(self) -> None:
        """End environments or actors; again, it does nothing."""


class Record(Protocol):
    """Writes down what happens in a run."""

    def begin(self, at: Counts, *, is_resumed: bool) -> None:
        """Start the clock and open the logs."""

    def log(self, at: Counts, metrics: Mapping[str, float]) -> None:
        """Write a row of the metrics of training."""

    def add_evaluation(self, at: Counts, metrics: Mapping[str, float]) -> bool:
        """Write the metrics of test episodes; return whether their mean return is the run's best so far."""

    def was_evaluated(self, updates: int) -> bool:
        """Tell whether there was an evaluation after that update."""

    def tick(self, at: Counts) -> None:
        """Show a person that the run is alive; called in every cycle."""

    def finish(self, at: Counts, *, finished: bool, **facts: Any) -> dict[str, Any]:
        """Write the summary and return it."""

    def state(self) -> dict[str, Any]:
        """Return plain values for a checkpoint."""

    def load_state(self, state: dict[str, Any], updates: int) -> None:
        """Go on from `state`, after so many updates."""

    def close(self) -> None:
        """Close the logs; again, it does nothing."""


class Checkpoints(Protocol):
    """Saves runs."""

    def save_run(self, trainer: Trainer) -> None:
        """Write a checkpoint of everything that the run needs to go on."""

    def wait(self) -> None:
        """Return when the checkpoint in progress is safely on disk."""


class Trainer:
    """One run from its first interaction, or from a checkpoint, to its end."""

    def __init__(
        self,
        config: TrainConfig,
        task: Task,
        shape: AgentShape,
        loop: Loop,
        record: Record,
        checkpoints: Checkpoints,
        *,
        folder: Path,
        say: Callable[[str], None],
        callbacks: Callbacks | None = None,
    ) -> None:
        self.config, self.task, self.loop, self.record, self.say = config, task, loop, record, say
        self.learner = make_learner(config, shape, torch.device(config.execution.device))
        self.replay = make_replay(config, shape)
        self.policy = self.learner.policy()
        self.replay_rng = stream_rng(config.seed, Stream.REPLAY)
        self.window = MetricWindow()
        self.episodes = EpisodeLog(config.schedule.num_envs * max(1, config.execution.actors))
        self.env_steps = self.exploratory_actions = 0
        self._eval_env = task.make()
        self._folder, self._checkpoints, self._callbacks = folder, checkpoints, callbacks
        self._is_resumed = self._has_told_of_cut_off = False
        self._should_stop: Callable[[], bool] = lambda: False
        self.owes_evaluation = False
        """Whether test episodes were stopped in their middle; they are held when the run goes on from a checkpoint."""
        self._saved: Counts | None = None
        self._saved_updates = 0

    @property
    def updates(self) -> int:
        """Return the gradient updates made."""
        return self.learner.updates

    @property
    def epsilon(self) -> float:
        """Return the present probability of a random action."""
        return epsilon_at(self.config.exploration, self.env_steps, self.exploratory_actions)

    @property
    def counts(self) -> Counts:
        """Return how far the run has come."""
        return Counts(self.learner.updates, self.env_steps)

    def resume_at(self, env_steps: int, state: LoopState) -> None:
        """Go on after so many interactions; everything but the loop is restored already."""
        self.env_steps, self._is_resumed = env_steps, True
        self._saved, self._saved_updates = self.counts, self.updates
        self.loop.restore(self, state)

    def run(self, should_stop: Callable[[], bool] = lambda: False) -> RunResult:
        """Train until the configured number of interactions, or until `should_stop`; always leaves a checkpoint."""
        self._should_stop = should_stop
        try:
            self.record.begin(self.counts, is_resumed=self._is_resumed)
            if self._callbacks is not None:
                self._callbacks.start(self._event("start", {}))
            if self.updates > 0 and self.updates % self.config.schedule.eval_every == 0:
                self._evaluate_unless_done()  # the run was stopped in the middle of these test episodes
            self.loop.collect(self, lambda: self.owes_evaluation or self._is_ended_by_callback() or should_stop())
            if self.env_steps >= self.config.schedule.env_steps:
                self._evaluate_unless_done()
            finished = self.env_steps >= self.config.schedule.env_steps and not self.owes_evaluation
            self.save()
            self._checkpoints.wait()
            facts = {"train_episodes": self.episodes.total_episodes, **self.loop.facts()}
            summary = self.record.finish(self.counts, finished=finished, **facts)
            if self._callbacks is not None:
                self._callbacks.end(self._event("end", {}))
            return RunResult(finished, summary)
        finally:
            self.close()
            self._checkpoints.wait()

    def observe(self, observations: NDArray[np.float32]) -> None:
        """Let the normaliser, if there is one, take in observations [L, D] that will be acted on."""
        if self.learner.normaliser is not None:
            self.learner.normaliser.observe(observations)

    def update(self, extra: Callable[[], Mapping[str, float]] = dict) -> None:
        """Learn from one batch; log and evaluate when it is time to. `extra` is asked for more columns of the log."""
        batch = self.replay.sample(self.config.learner.batch_size, self.replay_rng)
        priorities, metrics = self.learner.update(batch)
        self.replay.update_priorities(batch.rows, priorities)
        self.window.add(metrics)
        schedule = self.config.schedule
        if self.updates % schedule.log_every == 0:
            row = {**self.window.flush(), **self.episodes.flush(), **extra(), "epsilon": self.epsilon}
            self.record.log(self.counts, row)
        if self._callbacks is not None and self._callbacks.hears("update"):
            self._callbacks.update(self._event("update", metrics))
        if self.updates % schedule.eval_every == 0:
            self.evaluate()

    def will_evaluate_within(self, updates: int) -> bool:
        """Tell whether test episodes are due after one of the next so many updates."""
        every = self.config.schedule.eval_every
        return (self.updates + updates) // every > self.updates // every

    def evaluate(self) -> None:
        """Play the greedy test episodes of this moment; stopped in their middle, they are owed."""
        schedule = self.config.schedule
        seeds = (evaluation_seed(self.config.seed, self.updates, number) for number in range(schedule.eval_episodes))
        limits: dict[str, Any] = {"max_steps": schedule.max_eval_steps, "should_stop": self._should_stop}
        try:
            episodes = list(greedy_episodes(self._eval_env, self.policy, seeds, **limits))
        except StoppedError:
            self.owes_evaluation = True
            return
        if not self._has_told_of_cut_off and any(episode.is_cut_off for episode in episodes):
            self.say(f"warning: {cut_off_note(schedule.max_eval_steps)}")
            self._has_told_of_cut_off = True
        metrics = mean_metrics(episodes)
        is_best = self.record.add_evaluation(self.counts, metrics)
        if self._callbacks is not None:
            event = self._event("evaluation", metrics, mean_return=metrics["return"], is_best=is_best)
            self._callbacks.evaluation(event)

    def save_if_due(self) -> None:
        """Save when so many updates have passed since the last time."""
        # counted from the last save, so that several updates in one cycle cannot jump over a checkpoint
        every = self.config.execution.checkpoint_every
        if self.updates // every > self._saved_updates // every:
            self.save()

    def save(self) -> None:
        """Write a checkpoint, unless there is one of this moment."""
        if self._saved == self.counts:
            return
        self.learner.check_finite()
        self._checkpoints.save_run(self)
        self._saved, self._saved_updates = self.counts, self.updates

    def close(self) -> None:
        """Close the environments and the logs; `run` does so by itself."""
        with ExitStack() as closing:  # whatever fails to close, the rest is closed
            closing.callback(self._eval_env.close)
            closing.callback(self.record.close)
            closing.callback(self.loop.close)

    def _evaluate_unless_done(self) -> None:
        if not self.owes_evaluation and not self.record.was_evaluated(self.updates):
            self.evaluate()
            self._saved = None  # a checkpoint of this moment lacks this evaluation

    def _is_ended_by_callback(self) -> bool:
        return self._callbacks is not None and self._callbacks.stop_requested

    def _event(self, kind: EventKind, metrics: Mapping[str, float], **more: Any) -> Event:
        return Event(
            kind, *self.counts, self.epsilon, metrics, self.policy, self.config, self.task, self._folder, **more
        )
