"""What a run writes while it learns: rows of metrics, greedy test episodes, TensorBoard events, the summary."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.tensorboard.writer import SummaryWriter

from revalued.acting import Policy, epsilon_at
from revalued.config import TrainConfig
from revalued.evaluation import evaluation_seed, greedy_episodes, success_rate
from revalued.metrics import EpisodeLog, MetricWindow
from revalued.progress import ProgressView, Status
from revalued.run_folder import RunFolder, machine, versions


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
    ) -> None:
        self.config, self.folder, self.progress, self.policy = config, folder, progress, policy
        self.episodes = EpisodeLog(num_lanes)
        self._eval_env = eval_env
        self._window = MetricWindow()
        self._best: tuple[float, int] | None = None
        self._last: tuple[float, int] | None = None
        self._wall_before, self._started = 0.0, time.monotonic()
        self._rate_mark, self._rate = (self._started, 0, 0), 0.0
        self._events: SummaryWriter | None = None

    def begin(self, updates: int, env_steps: int, *, is_resumed: bool) -> None:
        """Start the clock and open the event file."""
        self._started = time.monotonic()
        self._rate_mark = (self._started, updates, env_steps)
        self._events = SummaryWriter(str(self.folder.events), purge_step=updates + 1 if is_resumed else 0)
        self.show(updates, env_steps)

    def add_step(self, rewards: NDArray[np.float64], ended: NDArray[np.bool_]) -> None:
        """Take in one step of all lanes."""
        self.episodes.add(rewards, ended)

    def add_update(self, metrics: dict[str, Tensor], updates: int, env_steps: int, **extra: float) -> None:
        """Take in the figures of one update; log and evaluate when it is time to. `extra` goes into the log's row."""
        self._window.add(metrics)
        if updates % self.config.schedule.log_every == 0:
            self._log(updates, env_steps, extra)
        if updates % self.config.schedule.eval_every == 0:
            self.evaluate(updates, env_steps)

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
        self._last = (mean_return, updates)
        if self._best is None or mean_return > self._best[0]:
            self._best = self._last
        self.folder.eval_table.add(
            {
                "updates": updates,
                "env_steps": env_steps,
                "return": mean_return,
                "length": float(np.mean([episode.length for episode in episodes])),
                "success": "" if success is None else success,
                "wall_seconds": round(self.wall_seconds(), 3),
            }
        )
        self._add_scalar("eval/return", mean_return, updates)
        if success is not None:
            self._add_scalar("eval/success", success, updates)
        self.progress.evaluated(self._status(updates, env_steps))

    def show(self, updates: int, env_steps: int) -> None:
        """Show a person where the run stands."""
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
            "wall_seconds": round(self.wall_seconds(), 3),
            "versions": versions(),
            "machine": machine(),
        }

    def state(self) -> dict[str, Any]:
        """Return plain values for a checkpoint."""
        return {
            "window": self._window.state(),
            "episodes": self.episodes.state(),
            "best": self._best,
            "last": self._last,
            "wall_seconds": self.wall_seconds(),
        }

    def load_state(self, state: dict[str, Any], updates: int) -> None:
        """Go on from `state`, and drop rows that were written after it."""
        self._window.load_state(state["window"], self.policy.device)
        self.episodes.load_state(state["episodes"])
        self._best, self._last = _pair(state["best"]), _pair(state["last"])
        self._wall_before = state["wall_seconds"]
        self.folder.forget_after(updates, self._last[1] if self._last else -1)

    def close(self) -> None:
        """Close the event file and the evaluation environment."""
        if self._events is not None:
            self._events.close()
        self._eval_env.close()

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
        for name, value in row.items():
            self._add_scalar(f"train/{name}", value, updates)
        self._rate = row["env_steps_per_second"]
        self.show(updates, env_steps)

    def _add_scalar(self, name: str, value: float, updates: int) -> None:
        if self._events is not None:
            self._events.add_scalar(name, value, updates)

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
