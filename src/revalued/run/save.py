"""Run folders written on request: a copy of a whole run, or a policy that can act but not go on learning."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from revalued.acting.policy import Policy
from revalued.config import TrainConfig
from revalued.envs import Task
from revalued.errors import UserError
from revalued.run.checkpoint import CheckpointWriter
from revalued.run.contents import policy_contents
from revalued.run.folder import RunFolder
from revalued.training.callbacks import Event

_TABLES = ("eval.csv", "metrics.csv", "summary.json")


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
    with _replacing_folder(path, overwrite=overwrite) as target, folder.locked():
        RunFolder.create(target, folder.config())
        for name in _TABLES:
            if (source / name).is_file():
                shutil.copy2(source / name, target / name)
        for name, copy in (("checkpoint", _link_or_copy), ("tensorboard", shutil.copy2)):
            if (source / name).is_dir():
                shutil.copytree(source / name, target / name, copy_function=copy)


def save_untrained(path: Path, config: TrainConfig, *, overwrite: bool = False) -> None:
    """Write the folder of a run that is yet to begin."""
    with _replacing_folder(path, overwrite=overwrite) as target:
        RunFolder.create(target, config)


def save_policy(
    path: Path,
    config: TrainConfig,
    task: Task,
    policy: Policy,
    updates: int,
    env_steps: int,
    epsilon: float,
    *,
    overwrite: bool = False,
) -> None:
    """Write a run folder with nothing but the configuration and the critics' parameters."""
    with _replacing_folder(path, overwrite=overwrite) as target:
        folder = RunFolder.create(target, config)
        writer = CheckpointWriter(folder.checkpoints)
        writer.save(env_steps, *policy_contents(config, task, policy, updates, epsilon))
        writer.wait()


class SaveBest:
    """Keeps the policy of the best evaluation in a folder of its own, for `load` and for `revalued evaluate`.

    A callback for `learn`. The folder holds what is needed to act, not what is needed to go on learning.
    """

    def __init__(self, path: str | Path, *, overwrite: bool = False) -> None:
        self.path, self._overwrite = Path(path), overwrite

    def on_start(self, event: Event) -> None:
        """Refuse a path with something on it when a run begins; a run that goes on has been here before."""
        refuse_occupied(self.path, overwrite=self._overwrite or event.env_steps > 0)

    def on_evaluation(self, event: Event) -> None:
        """Save the policy if there was never a better one."""
        if event.is_best:
            counts = (event.updates, event.env_steps, event.epsilon)
            save_policy(self.path, event.config, event.task, event.policy, *counts, overwrite=True)


@contextmanager
def _replacing_folder(path: Path, *, overwrite: bool) -> Iterator[Path]:
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
