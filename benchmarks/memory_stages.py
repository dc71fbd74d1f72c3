"""Builds a dog run with K = 10 piece by piece and prints how much memory each piece takes, as JSON."""

from __future__ import annotations

import importlib
import json
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def _megabytes(field: str) -> float:
    """Return VmRSS (memory in use) or VmHWM (the most there ever was)."""
    match = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match[1]) / 1024


def stages(capacity: int, updates: int, scratch: Path) -> dict[str, Any]:
    """Return memory in MB after every stage, in order, the sizes of the learner's arrays, and checkpoint times."""
    found = {"interpreter": _megabytes("VmRSS")}
    import numpy as np

    importlib.import_module("revalued.run.start")  # all that a run imports

    from benchmarks.sizes import filled_replay, make_learner, random_batch, task_size
    from revalued.envs import TaskSpec, find_task, lanes_from, make_env
    from revalued.run.checkpoint import CheckpointWriter

    found["imports"] = _megabytes("VmRSS")
    spec = TaskSpec("dog-walk")
    lanes, evaluation = lanes_from(find_task(spec), range(5), 0, 0), make_env(spec)
    lanes.reset()
    found["environments"] = _megabytes("VmRSS")
    size, rng = task_size("dog"), np.random.default_rng(0)
    learner = make_learner(size)
    found["learner"] = _megabytes("VmRSS")
    for _ in range(updates):
        learner.update(random_batch(size, rng))
    found["first updates"] = _megabytes("VmRSS")
    replay = filled_replay(size, capacity, rng)
    found["replay"] = _megabytes("VmRSS")
    for _ in range(updates):
        batch = replay.sample(size.batch_size, rng)
        replay.update_priorities(batch.rows, learner.update(batch)[0])
    found["more updates"] = _megabytes("VmRSS")
    before = _megabytes("VmHWM")
    writer = CheckpointWriter(scratch / "checkpoint")
    arrays = {f"replay.{name}": array for name, array in replay.state().items()}
    arrays |= {f"lanes.{name}": array for name, array in lanes.state().to_arrays().items()}
    start = time.monotonic()
    writer.save(capacity, {"updates": learner.updates}, learner.tensors(), arrays)
    stalled = time.monotonic() - start
    writer.wait()
    safe = time.monotonic() - start
    on_disk = sum(path.stat().st_size for path in (scratch / "checkpoint").rglob("*") if path.is_file())
    lanes.close()
    evaluation.close()
    return {
        "stages": found,
        "parameters": sum(t.nbytes for name, t in learner.tensors().items() if name.startswith("online.")) / 2**20,
        "replay": replay.nbytes / 2**20,
        "peak before checkpoint": before,
        "peak": _megabytes("VmHWM"),
        "checkpoint stall s": stalled,
        "checkpoint safe s": safe,
        "checkpoint on disk": on_disk / 2**20,
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir="runs", prefix="benchmark-") as folder:
        print(json.dumps(stages(int(sys.argv[1]), int(sys.argv[2]), Path(folder))))
