"""Carries out `revalued train walker-walk` up to the first environment step, and prints when that was done."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from revalued.cli import main


def _stop_at_first_step() -> None:
    """Have the simulator end the process after its first step; it is imported here instead of a moment later."""
    os.environ.setdefault("MUJOCO_GL", "disabled")
    from dm_control.rl.control import Environment

    step = Environment.step

    def first_step(environment: Any, action: Any) -> None:
        step(environment, action)
        print(time.monotonic(), flush=True)
        os._exit(0)

    Environment.step = first_step


if __name__ == "__main__":
    _stop_at_first_step()
    sys.exit(main(["train", "walker-walk", "--quiet", "--out", sys.argv[1]]))
