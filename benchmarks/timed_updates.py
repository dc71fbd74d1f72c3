"""The process in which updates, or their floor, are timed; see `processes`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import floor
from benchmarks.processes import serve
from benchmarks.sizes import Size, filled_replay, make_learner, random_batch


def prepare(what: dict[str, Any]) -> Callable[[], object]:
    """Return one update, one update with its replay, or one floor, of the size asked for."""
    size, kind = Size(**what["size"]), what["kind"]
    if kind in floor.ARRANGEMENTS:
        return floor.prepare(kind, size)
    rng = np.random.default_rng(0)
    learner = make_learner(size, "torch" if kind == "torch engine" else "auto", what.get("threads"))
    if kind in ("update", "torch engine"):
        batches = itertools.cycle([random_batch(size, rng) for _ in range(4)])
        return lambda: learner.update(next(batches))
    replay = filled_replay(size, what["capacity"], rng)

    def update_from_replay() -> None:
        batch = replay.sample(size.batch_size, rng)
        priorities, _ = learner.update(batch)
        replay.update_priorities(batch.rows, priorities)

    return update_from_replay


if __name__ == "__main__":
    serve(prepare)
