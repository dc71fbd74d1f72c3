"""Run folders written on request: a copy of a whole run, or a policy that can act but not go on learning."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from revalued.acting.policy import Policy
from revalued.config import TrainConfig
from revalued.errors import UserError
from revalued.networks import NetworkShape
from revalued.run.checkpoint import Checkpoint, CheckpointWriter
from revalued.run.folder import RunFolder
from revalued.run.provenance import versions

ACTING_ONLY = "acting_only"
"""Marks the checkpoint of a policy that was saved without replay, optimiser and unfinished episodes."""
_TABLES = ("eval.csv", "metrics.csv", "summary.json")


def stated_spaces(shape: NetworkShape) -> dict[str, Any]:
    """Return what a checkpoint says about the environment it belongs to."""
    return {"observation_size": shape.observation_size, "sizes": list(shape.actions.environment_sizes)}


def refuse_foreign(checkpoint: Checkpoint, folder: RunFolder, config: TrainConfig, shape: NetworkShape) -> None:
    """Refuse a checkpoint of another task, and an environment whose spaces differ from those it was trained in."""
    task, spaces = checkpoint.meta.get("task"), checkpoint.meta.get("spaces")
    if task != config.task:
        where = f"the checkpoint in {folder.checkpoints} does not match config.json"
        raise UserError(f"{where}: it is of the task {task}, not {config.task}")
    here = stated_spaces(shape)
    if spaces is not None and spaces != here:
        raise UserError(
            f"the environment has {_in_words(here)}, but {folder.path} was trained with {_in_words(spaces)}"
        )


def _in_words(spaces: dict[str, Any]) -> str:
    return f"observations of {spaces['observation_size']} numbers and actions of sizes {spaces['sizes']}"


def refuse_acting_only(checkpoint: Checkpoint, folder: RunFolder) -> None:
    """Refuse to go on learning where there is only a policy."""
    if checkpoint.meta.get(ACTING_ONLY):
        raise UserError(f"{folder.path} was saved without its replay: it can act, but not go on learning")


def refuse_occupied(path: Path, *, overwrite: bool) -> None:
    """Refuse a path to save to; with `overwrite` a run folder may be replaced, but never anything else."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not overwrite:
        raise UserError(f"{path} already exists: choose another path, or replace it with overwrite=True")
    if not (path / "config.json").is_file():
        raise UserError(f"{path} is no run folder and will not be replaced: choose another path")


def save_run(source: Path, path: Path, *, overwrite: bool = False) -> None:
    """Copy a run so that the copy can be resumed, evaluated and loaded; logs of Weights & Biases stay behind.

    Files of checkpoints never change once they are there, so they are linked where the file system can do it.
    """
    folder = RunFolder.open(source)
    with _replacing(path, overwrite=overwrite) as target, folder.locked():
        RunFolder.create(target, folder.config())
        for name in _TABLES:
            if (source / name).is_file():
                shutil.copy2(source / name, target / name)
        for name, copy in (("checkpoint", _link_or_copy), ("tensorboard", shutil.copy2)):
            if (source / name).is_dir():
                shutil.copytree(source / name, target / name, copy_function=copy)


def save_untrained(path: Path, config: TrainConfig, *, overwrite: bool = False) -> None:
    """Write the folder of a run that is yet to begin."""
    with _replacing(path, overwrite=overwrite) as target:
        RunFolder.create(target, config)


def save_policy(
    path: Path, config: TrainConfig, policy: Policy, updates: int, env_steps: int, *, overwrite: bool = False
) -> None:
    """Write a run folder with nothing but the configuration and the critics' parameters."""
    meta = {
        ACTING_ONLY: True,
        "updates": updates,
        "task": config.task,
        "spaces": stated_spaces(policy.shape),
        "versions": versions(),
    }
    with _replacing(path, overwrite=overwrite) as target:
        folder = RunFolder.create(target, config)
        writer = CheckpointWriter(folder.checkpoints)
        writer.save(env_steps, meta, {f"online.{name}": tensor for name, tensor in policy.parameters.items()}, {})
        writer.wait()


@contextmanager
def _replacing(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a folder to fill, which then takes its place whole or, after an error, not at all."""
    refuse_occupied(path, overwrite=overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.saving-{os.getpid()}")
    old = path.with_name(f".{path.name}.replaced-{os.getpid()}")
    try:
        yield fresh
        if path.exists():
            path.rename(old)
        try:
            fresh.rename(path)
        except OSError:
            if old.exists():
                old.rename(path)
            raise
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _link_or_copy(source: str, target: str) -> None:
    with suppress(OSError):  # another file system, or one without links
        os.link(source, target)
        return
    shutil.copy2(source, target)
