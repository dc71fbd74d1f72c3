"""What a run tells while it learns: rows of metrics and of evaluations, logs, what a person sees, the summary."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from revalued.config import TrainConfig
from revalued.run.folder import RunFolder
from revalued.run.loggers import DEFAULT_LOGGING, Logger, Logging, open_loggers
from revalued.run.progress import ProgressView, Status
from revalued.run.provenance import machine, source_commit, versions
from revalued.run.schemas import TableRows
from revalued.training.trainer import Counts

SECONDS_BETWEEN_TICKS = 0.25


class Recorder:
    """The memory of a run: how its evaluations went, and every file that tells of them."""

    def __init__(
        self, config: TrainConfig, folder: RunFolder, progress: ProgressView, logging: Logging = DEFAULT_LOGGING
    ) -> None:
        self.config, self.folder, self.progress = config, folder, progress
        self._logging = logging
        self._best: tuple[float, int] | None = None
        self._last: tuple[float, int] | None = None
        self._success: float | None = None
        self._wall_before, self._started = 0.0, time.monotonic()
        self._rate_mark, self._rate = (self._started, Counts(0, 0)), 0.0
        self._shown_at = self._started
        self._loggers: Sequence[Logger] = ()
        self._rows: TableRows = {"eval": 0, "metrics": 0}

    def begin(self, at: Counts, *, is_resumed: bool) -> None:
        """Start the clock, open the logs, and only then, when nothing can be refused any more, touch what is there."""
        self._started = time.monotonic()
        self._rate_mark = (self._started, at)
        self._loggers = open_loggers(self._logging, self.folder, self.config, at.updates if is_resumed else None)
        self.folder.write_config(self.config)  # a run that is prolonged
        if is_resumed:
            self._rows = self.folder.forget_after(at.updates, self._last[1] if self._last else -1)
        self.show(at)

    def log(self, at: Counts, metrics: Mapping[str, float]) -> None:
        """Write a row of the metrics of training, with rates."""
        now = time.monotonic()
        then, before = self._rate_mark
        self._rate_mark = (now, at)
        seconds = max(now - then, 1e-9)
        row = {
            **metrics,
            "updates_per_second": (at.updates - before.updates) / seconds,
            "env_steps_per_second": (at.env_steps - before.env_steps) / seconds,
        }
        self.folder.metric_table.add({**at._asdict(), **row, "wall_seconds": round(self.wall_seconds(), 3)})
        self._rows["metrics"] += 1
        self._send("train", row, at)
        self._rate = row["env_steps_per_second"]
        self.show(at)

    def add_evaluation(self, at: Counts, metrics: Mapping[str, float]) -> bool:
        """Write the metrics of test episodes; return whether their mean return is the run's best so far."""
        self._last, self._success = (metrics["return"], at.updates), metrics.get("success")
        is_best = self._best is None or metrics["return"] > self._best[0]
        if is_best:
            self._best = self._last
        self.folder.eval_table.add({**at._asdict(), **metrics, "wall_seconds": round(self.wall_seconds(), 3)})
        self._rows["eval"] += 1
        self._send("eval", metrics, at)
        self.progress.evaluated(self._status(at))
        return is_best

    def was_evaluated(self, updates: int) -> bool:
        """Tell whether there was an evaluation after that update."""
        return self._last is not None and self._last[1] == updates

    def tick(self, at: Counts) -> None:
        """Keep what a person sees moving, in the warm-up too; called in every cycle, shows a few times a second."""
        now = time.monotonic()
        if now - self._shown_at >= SECONDS_BETWEEN_TICKS:
            if self._rate == 0.0:  # no row of the log has measured it yet
                then, before = self._rate_mark
                self._rate = (at.env_steps - before.env_steps) / (now - then)
            self.show(at)

    def show(self, at: Counts) -> None:
        """Show a person where the run stands."""
        self._shown_at = time.monotonic()
        self.progress.update(self._status(at))

    def wall_seconds(self) -> float:
        """Return how long the run has been training, earlier sessions included."""
        return self._wall_before + time.monotonic() - self._started

    def finish(self, at: Counts, *, finished: bool, **facts: Any) -> dict[str, Any]:
        """Write the summary and return it; called after the last checkpoint. `facts` go into it as they are."""
        summary = {
            "finished": finished,
            "task": self.config.task,
            "algo": self.config.algo,
            "seed": self.config.seed,
            **at._asdict(),
            "final_return": self._last[0] if self._last else None,
            "best_return": self._best[0] if self._best else None,
            "best_at_updates": self._best[1] if self._best else None,
            "success": self._success,
            "wall_seconds": round(self.wall_seconds(), 3),
            "versions": versions(),
            "machine": machine(),
            "commit": source_commit(),
            **facts,
        }
        self.folder.write_summary(summary)
        self.show(at)
        return summary

    def state(self) -> dict[str, Any]:
        """Return plain values for a checkpoint."""
        return {
            "best": self._best,
            "last": self._last,
            "success": self._success,
            "wall_seconds": self.wall_seconds(),
            "rows": dict(self._rows),
        }

    def load_state(self, state: dict[str, Any], updates: int) -> None:
        """Go on from `state`; rows that were written after it go when the run begins.

        Tables are a record, nothing depends on them: rows that are gone are worth a warning, not the end of a run.
        """
        self._best, self._last = _pair(state["best"]), _pair(state["last"])
        self._success = state.get("success")
        self._wall_before = state["wall_seconds"]
        tables = {"eval": (self.folder.eval_table, self._last[1] if self._last else -1)}
        tables["metrics"] = (self.folder.metric_table, updates)
        for name, (table, last) in tables.items():
            left = len({row["updates"] for row in table.rows() if int(row["updates"]) <= last})
            known = state.get("rows", {}).get(name, 0)
            if left < known:
                gone = f"{known - left:,} of the {known:,} rows that the checkpoint knows of"
                self.progress.say(f"warning: {table.path} lacks {gone}; the run goes on with what is there")

    def close(self) -> None:
        """Close the logs; again, it does nothing."""
        with ExitStack() as closing:  # whatever fails to close, the rest is closed
            for logger in self._loggers:
                closing.callback(logger.close)
            self._loggers = ()

    def _send(self, group: str, metrics: Mapping[str, float], at: Counts) -> None:
        for logger in self._loggers:
            logger.add({f"{group}/{name}": value for name, value in metrics.items()}, at.updates, at.env_steps)

    def _status(self, at: Counts) -> Status:
        return Status(
            env_steps=at.env_steps,
            total_env_steps=self.config.schedule.env_steps,
            updates=at.updates,
            env_steps_per_second=self._rate,
            last_return=self._last[0] if self._last else None,
            best_return=self._best[0] if self._best else None,
        )


def _pair(value: Any) -> tuple[float, int] | None:
    return None if value is None else (float(value[0]), int(value[1]))
