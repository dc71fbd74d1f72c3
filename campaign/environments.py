"""Environments that misbehave, each in its own way, at a step that its name tells: `campaign/WAY-STEP-v0`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

Step = Any
"""What a step returns: five things in order, where it behaves."""


DEATH = 9
"""Exit code of an environment that ends its process."""


def _raise(error: BaseException) -> Step:
    raise error


def _wait(step: Step) -> Step:
    time.sleep(3600)
    return step


WAYS: dict[str, Callable[[Step], Step]] = {
    "well": lambda step: step,
    "raise": lambda step: _raise(ValueError("no further")),
    "assert": lambda step: _raise(AssertionError()),
    "exit": lambda step: _raise(SystemExit(3)),
    "memory": lambda step: _raise(MemoryError()),
    "recursion": lambda step: _raise(RecursionError("too deep")),
    "lines": lambda step: _raise(RuntimeError("one\ntwo\n" + "x" * 5000)),
    "die": lambda step: os._exit(DEATH),
    "nan-observation": lambda step: (np.full(3, np.nan, np.float32), *step[1:]),
    "inf-observation": lambda step: (np.full(3, np.inf, np.float32), *step[1:]),
    "short-observation": lambda step: (step[0][:2], *step[1:]),
    "no-observation": lambda step: (None, *step[1:]),
    "text-observation": lambda step: ("red", *step[1:]),
    "object-observation": lambda step: (np.array([None, 1, "x"], object), *step[1:]),
    "nan-reward": lambda step: (step[0], float("nan"), *step[2:]),
    "huge-reward": lambda step: (step[0], 1e300, *step[2:]),
    "no-reward": lambda step: (step[0], None, *step[2:]),
    "text-reward": lambda step: (step[0], "much", *step[2:]),
    "array-reward": lambda step: (step[0], np.array([1.0, 2.0]), *step[2:]),
    "complex-reward": lambda step: (step[0], 1j, *step[2:]),
    "array-terminated": lambda step: (*step[:2], np.array([True, False]), *step[3:]),
    "no-terminated": lambda step: (*step[:2], None, *step[3:]),
    "text-truncated": lambda step: (*step[:3], "no", step[4]),
    "list-info": lambda step: (*step[:4], ["info"]),
    "no-info": lambda step: (*step[:4], None),
    "four": lambda step: step[:4],
    "nothing": lambda step: None,
    "success-array": lambda step: (*step[:4], {"success": np.array([True, False])}),
    "success-text": lambda step: (*step[:4], {"is_success": "perhaps"}),
    "true-reward": lambda step: (*step[:4], {"true_reward": "none of yours"}),
    "mask-late": lambda step: (*step[:4], {"action_mask": np.zeros(5, bool)}),
    "endless": lambda step: (*step[:2], False, False, step[4]),
    "block": _wait,
}


class Misbehaving(gymnasium.Env[Any, Any]):
    """Is in order until the step in question, of its whole life, and then does what its way says in every step."""

    def __init__(self, way: str, after: int) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
        self.action_space = spaces.MultiDiscrete([2, 3])
        self._way, self._left, self._clock = WAYS[way], after, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self._clock = 0
        return self._observe(), {}

    def step(self, action: Any) -> Step:
        """Make a step, well or badly."""
        self._clock += 1
        self._left -= 1
        step: Step = (self._observe(), float(np.sum(action)), self._clock >= 10, False, {})
        return step if self._left >= 0 else self._way(step)

    def _observe(self) -> Any:
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)


AFTER = (0, 7, 11, 30)
"""At once, within the first episode, at the end of the warm-up, after learning has begun (of 40 steps in all)."""

for _name in WAYS:
    for _after in AFTER:
        gymnasium.register(
            f"campaign/{_name}-{_after}-v0", f"{__name__}:Misbehaving", kwargs={"way": _name, "after": _after}
        )
