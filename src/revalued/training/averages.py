"""Running metrics of a run: means over the updates of one log interval, and training episodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from revalued.learner.metrics import Metrics, Values


class MetricWindow:
    """Means of the learner's metrics since the last row of the log; summed on the device, read only when asked."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._sums: Values | None = None
        self._count = 0

    def add(self, metrics: Metrics) -> None:
        """Take in the metrics of one update."""
        if self._sums is None or self._names != list(metrics.names):  # sums of another engine cannot be added to
            self._names, self._sums, self._count = list(metrics.names), metrics.numbers + 0, 0
        else:
            self._sums += metrics.numbers
        self._count += 1

    def flush(self) -> dict[str, float]:
        """Return the means and begin anew."""
        if self._sums is None:
            return {}
        means = dict(zip(self._names, (self._sums / self._count).tolist(), strict=True))
        self._sums, self._count = None, 0
        return means

    def state(self) -> dict[str, Any]:
        """Return plain values for a checkpoint."""
        sums = [] if self._sums is None else self._sums.tolist()
        return {"names": self._names if sums else [], "sums": sums, "count": self._count}

    def load_state(self, state: dict[str, Any], device: torch.device) -> None:
        """Go on from `state`."""
        self._names, self._count = list(state["names"]), int(state["count"])
        if len(self._names) != len(state["sums"]) or self._count < bool(self._names):
            raise ValueError("the metrics since the last row of the log do not fit each other")
        self._sums = None
        if state["sums"]:
            sums = torch.tensor(state["sums"], dtype=torch.float64, device=device)
            self._sums = sums.numpy() if device.type == "cpu" else sums


class EpisodeLog:
    """Returns of the training episodes: those running in each lane and those finished since the last row of the log."""

    def __init__(self, num_lanes: int) -> None:
        self._running = np.zeros(num_lanes)
        self._finished: list[float] = []
        self.total_episodes = 0

    def add(self, rewards: NDArray[np.float64], ended: NDArray[np.bool_], lanes: Sequence[int] | None = None) -> None:
        """Take in one step of these lanes, by default of all."""
        if lanes is None:
            self._running += rewards
        else:
            self._running[list(lanes)] += rewards
        if True in ended.tolist():
            over = np.flatnonzero(ended) if lanes is None else np.array(lanes)[ended]
            self._finished.extend(self._running[over].tolist())
            self.total_episodes += len(over)
            self._running[over] = 0.0

    def flush(self) -> dict[str, float]:
        """Return mean return and number of the episodes finished since the last call."""
        finished, self._finished = self._finished, []
        return {"train_return": float(np.mean(finished)), "train_episodes": len(finished)} if finished else {}

    def forget_running(self, lanes: Sequence[int]) -> None:
        """Begin anew in lanes whose episode could not be continued."""
        self._running[list(lanes)] = 0.0

    def state(self) -> dict[str, Any]:
        """Return plain values for a checkpoint."""
        return {"running": self._running.tolist(), "finished": self._finished, "total_episodes": self.total_episodes}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        if len(state["running"]) != len(self._running) or state["total_episodes"] < 0:
            raise ValueError("the episodes of the training log are not those of these lanes")
        self._running = np.asarray(state["running"], dtype=np.float64)
        self._finished, self.total_episodes = list(state["finished"]), int(state["total_episodes"])
