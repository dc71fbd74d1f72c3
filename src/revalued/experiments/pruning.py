"""Finished runs keep their policy, not their replay: a few megabytes each instead of hundreds."""

from __future__ import annotations

import shutil
from pathlib import Path

from revalued.run.checkpoint import CheckpointWriter
from revalued.run.contents import policy_contents
from revalued.run.folder import RunFolder
from revalued.run.load import load_run

_FRESH, _WHOLE = ".checkpoint.pruned", ".checkpoint.whole"


def needs_pruning(path: Path) -> bool:
    """Tell whether a finished run keeps more than its policy, or was being pruned when something ended that."""
    folder = RunFolder(path)
    left_over = any((path / name).exists() for name in (_FRESH, _WHOLE))
    return left_over or any(folder.checkpoints.glob("env-steps-*/arrays/*.npy"))


def prune(path: Path) -> None:
    """Replace a finished run's checkpoints by one with the policy alone, which acts as before but learns no more.

    Whenever it is killed, a checkpoint with the last policy is there, if need be under the name that the next call
    looks for.
    """
    folder = RunFolder.open(path)
    fresh, whole = path / _FRESH, path / _WHOLE
    with folder.locked():
        if whole.exists() and not folder.checkpoints.exists():  # killed between the two renames
            whole.rename(folder.checkpoints)
        shutil.rmtree(fresh, ignore_errors=True)
        if any(folder.checkpoints.glob("env-steps-*/arrays/*.npy")):
            run = load_run(path, needs_env=False)
            writer = CheckpointWriter(fresh)
            updates, env_steps = int(run.meta["updates"]), int(run.meta["env_steps"])
            epsilon = float(run.meta.get("epsilon", 0.0))  # checkpoints of older versions do not say
            writer.save(env_steps, *policy_contents(run.config, run.task, run.policy, updates, epsilon))
            writer.wait()
            folder.checkpoints.rename(whole)
            fresh.rename(folder.checkpoints)
        shutil.rmtree(whole, ignore_errors=True)
