"""Where the time of a real run goes: timers around the pieces of the training loop, put there from outside."""

from __future__ import annotations

import functools
import importlib
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.processes import ROOT
from benchmarks.sizes import DECQN
from revalued.config import ExplorationConfig, ScheduleConfig, TrainConfig

WARMUP = 500
# the environment's own step, and the pieces of the loop: (module, class or None, function, what it is called)
PIECES = [
    ("dm_control.rl.control", "Environment", "step", "bare environment steps"),
    ("revalued.learner.learner", "Learner", "update", "update"),
    ("revalued.training.loop", None, "explore", "choose actions"),
    ("revalued.envs.vector.lanes", "Lanes", "step_async", "lanes around the steps"),
    ("revalued.envs.vector.lanes", "Lanes", "step_wait", "lanes around the steps"),
    ("revalued.replay.buffer", "Replay", "append", "store"),
    ("revalued.replay.buffer", "Replay", "sample", "sample"),
    ("revalued.replay.buffer", "Replay", "update_priorities", "priorities"),
    ("revalued.training.averages", "MetricWindow", "add", "metrics and log"),
    ("revalued.training.averages", "EpisodeLog", "add", "metrics and log"),
    ("revalued.run.recorder", "Recorder", "log", "metrics and log"),
    ("revalued.training.trainer", "Trainer", "evaluate", "evaluation"),
    ("revalued.training.trainer", "Trainer", "save", "checkpoint"),
    ("revalued.training.loop", "LaneLoop", "_cycle", "the loop itself"),
]
COARSE = ("bare environment steps", "update", "evaluation", "checkpoint", "the loop itself")


class Stopwatch:
    """Adds up seconds by name; time spent in an inner piece is not counted in the outer one."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._stack: list[str] = []
        self._mark = time.perf_counter()

    def wrap(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Return the function with a timer around it."""

        @functools.wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:
            self._switch()
            # what evaluation steps in its own environment is evaluation's
            inner = "evaluation" if "evaluation" in self._stack and name != "evaluation" else name
            self._stack.append(f"{inner}: bare steps" if inner != name and name.startswith("bare") else inner)
            try:
                return function(*arguments, **named)
            finally:
                self._switch()
                self._stack.pop()

        return timed

    def _switch(self) -> None:
        now = time.perf_counter()
        if self._stack:
            self.seconds[self._stack[-1]] += now - self._mark
        self._mark = now


def run_config(env_steps: int) -> TrainConfig:
    """Return a DecQN run on walker-walk in the state in which most of a long run is: ε at its minimum."""
    return TrainConfig(
        task="walker-walk",
        algo="decqn",
        algorithm=DECQN,
        exploration=ExplorationConfig(epsilon_decay=0.9),
        schedule=replace(ScheduleConfig(), env_steps=env_steps, warmup_env_steps=WARMUP),
    )


def profile(updates: int, *, coarse: bool = False) -> dict[str, float]:
    """Train for so many updates and return the seconds of every piece of the loop.

    Every timer costs about a microsecond, which is charged to the loop around it. A coarse profile has only those that
    tell the loop from what is not its own.
    """
    from revalued.run.start import start

    stopwatch = Stopwatch()
    (ROOT / "runs").mkdir(exist_ok=True)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=ROOT / "runs", prefix="benchmark-"))
        for module_name, owner_name, function, name in PIECES:
            if coarse and name not in COARSE:
                continue
            module = importlib.import_module(module_name)
            owner = module if owner_name is None else getattr(module, owner_name)
            stack.enter_context(patch.object(owner, function, stopwatch.wrap(getattr(owner, function), name)))
        start(run_config(WARMUP + 5 * updates), Path(folder) / "run")
    return dict(stopwatch.seconds)
