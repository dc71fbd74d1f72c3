"""Our own algorithms under the judge's eyes: `python -m revalued.compare.learners.ours ORDER`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revalued.compare.meter import Meter, RunOrder
from revalued.run.loggers import Logging
from revalued.run.start import start
from revalued.settings import configure
from revalued.training.callbacks import Callbacks, Event

_NEVER = 10**9
_REPLAY = 200_000
"""Room for every transition that minutes can bring, without asking for memory that stays empty."""


class Judged:
    """A callback that lets the judge see every update."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def on_start(self, event: Event) -> bool:
        """Show the policy that has learnt nothing."""
        return self._meter.goes_on(event.env_steps, self._act(event))

    def on_update(self, event: Event) -> bool:
        """Ask whether to go on."""
        return self._meter.goes_on(event.env_steps, self._act(event))

    def _act(self, event: Event) -> Any:
        policy = event.policy

        def act(observation: NDArray[np.float32], mask: NDArray[np.bool_] | None) -> NDArray[np.int64]:
            chosen = policy.greedy(observation[None], None if mask is None else mask[None])
            choices: NDArray[np.int64] = policy.shape.actions.to_environment(chosen)[0]
            return choices

        return act


def learn(order: RunOrder) -> None:
    """Learn until the judge says that it is over."""
    settings = {"replay_capacity": _REPLAY, **order.settings}
    algo = str(settings.pop("algo"))
    settings |= {"seed": order.seed, "bins": order.bins, "threads": order.threads, "workers": order.workers}
    settings |= {"env_steps": order.most_env_steps + 1_000, "eval_every": _NEVER, "checkpoint_every": _NEVER}
    config = configure(order.task, algo, settings)
    meter = Meter(order)
    with tempfile.TemporaryDirectory(prefix="revalued-compare-") as folder:
        start(config, Path(folder) / "run", logging=Logging(tensorboard=False), callbacks=Callbacks([Judged(meter)]))
    meter.close()


if __name__ == "__main__":
    learn(RunOrder.read(sys.argv[1]))
