"""A run read back from its folder: what its newest undamaged checkpoint holds."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from revalued.acting.policy import Policy
from revalued.config import TrainConfig
from revalued.envs import EnvSource, Task, task_of_file
from revalued.errors import UserError
from revalued.native.choice import native_critics
from revalued.networks import Parameters
from revalued.run.checkpoint import load_newest
from revalued.run.contents import ACTING_ONLY, critics_in, normaliser_in, refuse_foreign, task_in, unfit
from revalued.run.folder import RunFolder
from revalued.run.prepare import resolve_device
from revalued.training.build import agent_shape, make_replay
from revalued.validation import validate


@dataclass(frozen=True)
class SavedRun:
    """Everything about a run at the moment of its newest checkpoint."""

    folder: RunFolder
    config: TrainConfig
    task: Task
    policy: Policy
    """Of the online critics."""
    target: Parameters | None
    """The target critics; None in a folder that was saved for acting only."""
    replay: dict[str, NDArray[Any]]
    """The arrays of `Replay.state`; empty if they were not asked for or not saved."""
    meta: dict[str, Any]
    """Counters of the checkpoint, such as `updates` and `env_steps`."""


def load_run(
    path: Path,
    warn: Callable[[str], None] = lambda text: None,
    env: EnvSource | None = None,
    *,
    task: Task | None = None,
    trust_modules: Collection[str] = (),
    needs_env: bool = True,
    replay: bool = False,
    device: str = "cpu",
) -> SavedRun:
    """Read a run, with its replay if asked. A run on an environment of your own needs it again, as `env` or `task`.

    A module that the task's name says to import is imported only if it is among `trust_modules`. With
    `needs_env=False`, the environment is not built at all where the checkpoint describes it.
    """
    folder = RunFolder.open(path)
    config = folder.config()
    validate(config)
    if task is None and (needs_env or env is not None):
        task = task_of_file(config, env, trust_modules)
    checkpoint = load_newest(folder.checkpoints, warn, arrays=replay)
    if checkpoint is None:
        raise UserError(f"{path} has no checkpoint yet")
    if task is None:
        task = task_in(checkpoint, config, trust_modules) or task_of_file(config, None, trust_modules)
    shape = agent_shape(config, task.info)
    refuse_foreign(checkpoint, folder, config, shape.network)
    place = resolve_device(device)
    try:
        online = critics_in(checkpoint, "online", shape.network, place)
        is_whole = not checkpoint.meta.get(ACTING_ONLY)
        target = critics_in(checkpoint, "target", shape.network, place) if is_whole else None
        normaliser = normaliser_in(checkpoint, shape.network) if config.learner.normalise_observations else None
        arrays = checkpoint.group("replay")
        if arrays:
            make_replay(config, shape).check_state(arrays)
    except ValueError as error:
        raise UserError(f"{unfit(folder)}: {error}") from error
    support = None if shape.support is None else torch.linspace(*shape.support, shape.network.atoms, device=place)
    policy = Policy(shape.network, online, support, native_critics("auto", shape.network, online), normaliser)
    return SavedRun(folder, config, task, policy, target, arrays, checkpoint.meta)
