"""The judge of a run, the same for everybody: it keeps the time, plays the test episodes, and says when it is over.

Imported in the peers' environment too, so it needs nothing but environments.
"""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import gymnasium
import numpy as np
from numpy.typing import NDArray

from revalued.compare.core_clock import CoreClock
from revalued.envs import TaskSpec, make_env, read_mask, search_working_folder
from revalued.envs.kinds import kind_of
from revalued.seeding import evaluate_seeds

Clock = Literal["wall", "cpu"]
Act: TypeAlias = Callable[[NDArray[np.float32], NDArray[np.bool_] | None], Any]
"""From an observation, and a mask where there are any, to the greedy action."""
COLUMNS = ("env_steps", "seconds", "wall_seconds", "return", "length")
NUM_LOOKS = 12
"""Test rounds that are spread evenly over the budget; others come after 1,000, 2,000, 4,000 interactions and so on."""
FIRST_LOOK_ENV_STEPS = 1_000
UNLIMITED = 100_000_000


@dataclass(frozen=True)
class RunOrder:
    """Everything that a learner's process has to know."""

    task: str
    bins: int
    contestant: str
    settings: dict[str, Any]
    seed: int
    budget_seconds: float | None
    env_steps: int | None
    clock: Clock
    episodes: int
    """Test episodes in a round."""
    test_seed: int
    """The same for everybody, so that all play the same test episodes."""
    threads: int
    workers: int
    continuous: bool
    out: str
    """CSV file to write, see `COLUMNS`."""

    def write(self, path: Path) -> None:
        """Write it for the process to read."""
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: str) -> RunOrder:
        """Read what `write` has written."""
        return cls(**json.loads(Path(path).read_text()))

    @property
    def most_env_steps(self) -> int:
        """Return the interactions after which the run is over in any case."""
        return UNLIMITED if self.env_steps is None else self.env_steps

    def make_env(self) -> gymnasium.Env[Any, Any]:
        """Return the problem's environment: flat observations and choices, or a continuous action as it is."""
        search_working_folder()
        if self.continuous:
            return kind_of(self.task).make(self.task, None)
        return make_env(TaskSpec(self.task, self.bins))


class Meter:
    """Follows one run; its clock stands still while it plays test episodes."""

    def __init__(self, order: RunOrder) -> None:
        self._order, self._env = order, order.make_env()
        self._seeds: Sequence[int] = list(evaluate_seeds(order.test_seed, order.episodes))
        self._path = Path(order.out)
        with self._path.open("w", newline="") as file:
            csv.writer(file).writerow(COLUMNS)
        core = CoreClock()
        self._now, self._exactly = (core, core.exactly) if order.clock == "cpu" else (time.monotonic, time.monotonic)
        self._looks, self._next_env_steps, self._seen_env_steps = 0, FIRST_LOOK_ENV_STEPS, -1
        self._paused, self._paused_wall = 0.0, 0.0
        self._began, self._began_wall = self._exactly(), time.monotonic()

    @property
    def seconds(self) -> float:
        """Return the time that the learner has had."""
        return self._now() - self._began - self._paused

    def goes_on(self, env_steps: int, act: Act) -> bool:
        """Test the policy if it is time to, and tell whether the run may go on; to be asked often."""
        order, used = self._order, 0.0
        if order.budget_seconds is not None:
            used = self.seconds / order.budget_seconds
        if order.env_steps is not None:
            used = max(used, env_steps / order.env_steps)
        is_over = used >= 1
        if is_over or env_steps >= self._next_env_steps or used * NUM_LOOKS >= self._looks:
            while self._next_env_steps <= env_steps:
                self._next_env_steps *= 2
            self._looks = int(used * NUM_LOOKS) + 1
            self._look(env_steps, act)
        return not is_over

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def _look(self, env_steps: int, act: Act) -> None:
        if env_steps == self._seen_env_steps:
            return
        self._seen_env_steps = env_steps
        began, began_wall = self._exactly(), time.monotonic()
        seconds = began - self._began - self._paused
        wall_seconds = began_wall - self._began_wall - self._paused_wall
        played = [play_episode(self._env, seed, act) for seed in self._seeds]
        total, length = (float(np.mean(column)) for column in zip(*played, strict=True))
        with self._path.open("a", newline="") as file:
            row = (env_steps, f"{seconds:.2f}", f"{wall_seconds:.2f}", f"{total:.6g}", f"{length:.6g}")
            csv.writer(file).writerow(row)
        self._paused += self._exactly() - began
        self._paused_wall += time.monotonic() - began_wall


def play_episode(env: gymnasium.Env[Any, Any], seed: int, act: Act) -> tuple[float, int]:
    """Return the return and the length of one episode."""
    observation, info = env.reset(seed=seed)
    total, length, over = 0.0, 0, False
    while not over:
        mask = None
        if "action_mask" in info:
            mask = read_mask(info, [int(size) for size in env.action_space.nvec])  # type: ignore[attr-defined]
        observation, reward, terminated, truncated, info = env.step(act(observation, mask))
        total, length, over = total + float(reward), length + 1, terminated or truncated
    return total, length
