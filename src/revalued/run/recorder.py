"""What a run tells while it learns: rows of metrics, greedy test episodes, logs, callbacks, the summary."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from revalued.acting.exploration import epsilon_at
from revalued.acting.policy import Policy
from revalued.config import TrainConfig
from revalued.learner.metrics import Metrics
from revalued.run.averages import EpisodeLog, MetricWindow
from revalued.run.folder import RunFolder
from revalued.run.loggers import DEFAULT_LOGGING, Logger, Logging, open_loggers
from revalued.run.progress import ProgressView, Status
from revalued.run.provenance import machine, source_commit, versions
from revalued.seeding import evaluation_seed
from revalued.training.callbacks import Callbacks, Event, EventKind
from revalued.training.evaluation import greedy_episodes, success_rate

SECONDS_BETWEEN_TICKS = 0.25


class Recorder:
    """The memory of a run: its running figures, its test episodes, and every file that tells of them."""

    def __init__(
        self,
        config: TrainConfig,
        folder: RunFolder,
        progress: ProgressView,
        policy: Policy,
        eval_env: gymnasium.Env[np.ndarray, np.ndarray],
        num_lanes: int,
        *,
        logging: Logging = DEFAULT_LOGGING,
        callbacks: Callbacks | None = None,
    ) -> None:
        self.config, self.folder, self.progress, self.policy = config, folder, progress, policy
        self._logging, self._callbacks = logging, callbacks
        self.episodes = EpisodeLog(num_lanes)
        self._eval_env = eval_env
        self._window = MetricWindow()
        self._best: tuple[float, int] | None = None
        self._last: tuple[float, int] | None = None
        self._success: float | None = None
        self._wall_before, self._started = 0.0, time.monotonic()
        self._rate_mark, self._rate = (self._started, 0, 0), 0.0
        self._shown_at = self._started
        self._loggers: Sequence[Logger] = ()

    def begin(self, updates: int, env_steps: int, *, is_resumed: bool) -> None:
        """Start the clock, open the logs, tell the callbacks."""
        self._started = time.monotonic()
        self._rate_mark = (self._started, updates, env_steps)
        self._loggers = open_loggers(self._logging, self.folder, self.config, updates if is_resumed else None)
        self.show(updates, env_steps)
        if self._callbacks is not None:
            self._callbacks.start(self._event("start", updates, env_steps, {}))

    @property
    def stop_requested(self) -> bool:
        """Tell whether a callback wants the run to end; the loop then ends after its cycle and saves a checkpoint."""
        return self._callbacks is not None and self._callbacks.stop_requested

    def add_step(self, rewards: NDArray[np.float64], ended: NDArray[np.bool_]) -> None:
        """Take in one step of all lanes."""
        self.episodes.add(rewards, ended)

    def add_update(self, figures: Metrics, updates: int, env_steps: int, **extra: float) -> None:
        """Take in the figures of one update; log and evaluate when it is time to. `extra` goes into the log's row."""
        self._window.add(figures)
        if updates % self.config.schedule.log_every == 0:
            self._log(updates, env_steps, extra)
        if self._callbacks is not None and self._callbacks.hears("update"):
            self._callbacks.update(self._event("update", updates, env_steps, figures))
        if updates % self.config.schedule.eval_every == 0:
            self.evaluate(updates, env_steps)

    def tick(self, updates: int, env_steps: int) -> None:
        """Keep what a person sees moving, in the warm-up too; called in every cycle, shows a few times a second."""
        now = time.monotonic()
        if now - self._shown_at >= SECONDS_BETWEEN_TICKS:
            if self._rate == 0.0:  # no row of the log has measured it yet
                then, _, env_steps_then = self._rate_mark
                self._rate = (env_steps - env_steps_then) / (now - then)
            self.show(updates, env_steps)

    def was_evaluated(self, updates: int) -> bool:
        """Tell whether the test episodes after that update have been held."""
        return self._last is not None and self._last[1] == updates

    def evaluate(self, updates: int, env_steps: int) -> None:
        """Hold the greedy test episodes and write what came of them."""
        number_of_episodes = self.config.schedule.eval_episodes
        seeds = [evaluation_seed(self.config.seed, updates, number) for number in range(number_of_episodes)]
        episodes = list(greedy_episodes(self._eval_env, self.policy, seeds))
        mean_return = float(np.mean([episode.total_reward for episode in episodes]))
        success = success_rate(episodes)
        self._last, self._success = (mean_return, updates), success
        is_best = self._best is None or mean_return > self._best[0]
        if is_best:
            self._best = self._last
        figures = {"return": mean_return, "length": float(np.mean([episode.length for episode in episodes]))}
        if success is not None:
            figures["success"] = success
        self.folder.eval_table.add(
            {"updates": updates, "env_steps": env_steps, **figures, "wall_seconds": round(self.wall_seconds(), 3)}
        )
        self._send("eval", figures, updates, env_steps)
        self.progress.evaluated(self._status(updates, env_steps))
        if self._callbacks is not None:
            event = self._event("evaluation", updates, env_steps, figures, mean_return=mean_return, is_best=is_best)
            self._callbacks.evaluation(event)

    def show(self, updates: int, env_steps: int) -> None:
        """Show a person where the run stands."""
        self._shown_at = time.monotonic()
        self.progress.update(self._status(updates, env_steps))

    def wall_seconds(self) -> float:
        """Return how long the run has been training, earlier sessions included."""
        return self._wall_before + time.monotonic() - self._started

    def summary(self, updates: int, env_steps: int, *, finished: bool) -> dict[str, Any]:
        """Return what summary.json says."""
        return {
            "finished": finished,
            "task": self.config.task,
            "algo": self.config.algo,
            "seed": self.config.seed,
            "updates": updates,
            "env_steps": env_steps,
            "train_episodes": self.episodes.total_episodes,
            "final_return": self._last[0] if self._last else None,
            "best_return": self._best[0] if self._best else None,
            "best_at_updates": self._best[1] if self._best else None,
            "success": self._success,
            "wall_seconds": round(self.wall_seconds(), 3),
            "versions": versions(),
            "machine": machine(),
            "commit": source_commit(),
        }

    def finish(self, updates: int, env_steps: int, *, finished: bool, **facts: Any) -> dict[str, Any]:
        """Write the summary, tell the callbacks, and raise what one of them has raised; called after the checkpoint.

        `facts` go into the summary as they are.
        """
        summary = {**self.summary(updates, env_steps, finished=finished), **facts}
        self.folder.write_summary(summary)
        self.show(updates, env_steps)
        if self._callbacks is not None:
            self._callbacks.end(self._event("end", updates, env_steps, {}))
        return summary

    def state(self) -> dict[str, Any]:
        """Return plain values for a checkpoint."""
        return {
            "window": self._window.state(),
            "episodes": self.episodes.state(),
            "best": self._best,
            "last": self._last,
            "success": self._success,
            "wall_seconds": self.wall_seconds(),
        }

    def load_state(self, state: dict[str, Any], updates: int) -> None:
        """Go on from `state`, and drop rows that were written after it."""
        self._window.load_state(state["window"], self.policy.device)
        self.episodes.load_state(state["episodes"])
        self._best, self._last = _pair(state["best"]), _pair(state["last"])
        self._success = state.get("success")
        self._wall_before = state["wall_seconds"]
        self.folder.forget_after(updates, self._last[1] if self._last else -1)

    def close(self) -> None:
        """Close the logs and the evaluation environment; again, it does nothing."""
        with ExitStack() as closing:  # whatever fails to close, the rest is closed
            closing.callback(self._eval_env.close)
            for logger in self._loggers:
                closing.callback(logger.close)
            self._loggers = ()

    def _log(self, updates: int, env_steps: int, extra: dict[str, float]) -> None:
        now = time.monotonic()
        then, updates_then, env_steps_then = self._rate_mark
        self._rate_mark = (now, updates, env_steps)
        seconds = max(now - then, 1e-9)
        row = {
            **self._window.flush(),
            **self.episodes.flush(),
            "epsilon": epsilon_at(self.config.exploration, env_steps),
            "updates_per_second": (updates - updates_then) / seconds,
            "env_steps_per_second": (env_steps - env_steps_then) / seconds,
            **extra,
        }
        self.folder.metric_table.add(
            {"updates": updates, "env_steps": env_steps, **row, "wall_seconds": round(self.wall_seconds(), 3)}
        )
        self._send("train", row, updates, env_steps)
        self._rate = row["env_steps_per_second"]
        self.show(updates, env_steps)

    def _send(self, group: str, figures: Mapping[str, float], updates: int, env_steps: int) -> None:
        for logger in self._loggers:
            logger.add({f"{group}/{name}": value for name, value in figures.items()}, updates, env_steps)

    def _event(self, kind: EventKind, updates: int, env_steps: int, metrics: Mapping[str, float], **more: Any) -> Event:
        return Event(
            kind, updates, env_steps, metrics, policy=self.policy, config=self.config, folder=self.folder.path, **more
        )

    def _status(self, updates: int, env_steps: int) -> Status:
        return Status(
            env_steps=env_steps,
            total_env_steps=self.config.schedule.env_steps,
            updates=updates,
            env_steps_per_second=self._rate,
            last_return=self._last[0] if self._last else None,
            best_return=self._best[0] if self._best else None,
        )


def _pair(value: Any) -> tuple[float, int] | None:
    return None if value is None else (float(value[0]), int(value[1]))
