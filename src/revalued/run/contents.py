"""What a checkpoint holds, listed once: gathered from a run or from its policy alone, checked, and put back.

`meta.json` has the counters, the random streams, running means, and what the checkpoint belongs to;
`learner.safetensors` the critics, their targets and the optimiser; `arrays/` the replay and the unfinished episodes.
A run with actors has no unfinished episodes to keep, and notes the state of its fleet instead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from revalued.acting.normalisation import ObservationNormaliser
from revalued.acting.policy import Policy
from revalued.config import TrainConfig
from revalued.envs import Task, TaskInfo, TaskSpaces, spec_of, stored_task
from revalued.envs.spaces.actions import action_codec
from revalued.envs.spaces.observations import observation_codec
from revalued.envs.spaces.stored import space_from_json, space_to_json
from revalued.errors import UserError
from revalued.networks import NetworkShape, Parameters
from revalued.run.checkpoint import Checkpoint, CheckpointWriter
from revalued.run.folder import RunFolder
from revalued.run.provenance import versions
from revalued.seeding import restore_rng, rng_state
from revalued.training.trainer import LoopState, Trainer

ACTING_ONLY = "acting_only"
"""Marks the checkpoint of a policy that was saved without replay, optimiser and unfinished episodes."""

Contents = tuple[dict[str, Any], dict[str, Tensor], dict[str, NDArray[Any]]]
"""Meta data, tensors and arrays, as `CheckpointWriter.save` takes them."""


class RunCheckpoints(CheckpointWriter):
    """Checkpoints of a run that can go on from them to the bit."""

    def save_run(self, trainer: Trainer) -> None:
        """Write a checkpoint of this moment."""
        self.save(trainer.env_steps, *run_contents(trainer))


def run_contents(trainer: Trainer) -> Contents:
    """Return everything that a run needs to go on."""
    loop, config = trainer.loop.state(), trainer.config
    meta = {
        **_belonging(config, trainer.task, trainer.policy.shape, trainer.updates),
        "rng": {"replay": rng_state(trainer.replay_rng)},
        "record": {
            "window": trainer.window.state(),
            "episodes": trainer.episodes.state(),
            **trainer.record.state(),
        },
        "epsilon": trainer.epsilon,
    }
    if config.exploration.epsilon_schedule == "exploratory-actions":
        meta["exploratory_actions"] = trainer.exploratory_actions
    if loop.exploration is not None:
        meta["rng"]["exploration"] = loop.exploration
    if loop.fleet is not None:
        meta["fleet"] = loop.fleet
    arrays = {f"replay.{name}": array for name, array in trainer.replay.state().items()}
    arrays |= {f"lanes.{name}": array for name, array in loop.lanes.items()}
    return meta, trainer.learner.tensors(), arrays


def restore_run(trainer: Trainer, checkpoint: Checkpoint) -> None:
    """Put everything back that `run_contents` returned."""
    meta = checkpoint.meta
    if lacking := [name for name in ("rng", "record") if name not in meta]:
        raise ValueError(f"meta.json lacks {' and '.join(lacking)}")
    trainer.learner.load_tensors(checkpoint.tensors, meta["updates"])
    trainer.replay.load_state(checkpoint.group("replay"))
    restore_rng(trainer.replay_rng, meta["rng"]["replay"])
    trainer.window.load_state(meta["record"]["window"], trainer.learner.device)
    trainer.episodes.load_state(meta["record"]["episodes"])
    trainer.record.load_state(meta["record"], trainer.updates)
    if trainer.config.exploration.epsilon_schedule == "exploratory-actions":
        trainer.exploratory_actions = meta.get("exploratory_actions", -1)
        if not 0 <= trainer.exploratory_actions <= meta["env_steps"] + trainer.config.schedule.num_envs:
            raise ValueError("it does not say how many actions were exploratory, or more than there were")
    loop = LoopState(meta["rng"].get("exploration"), checkpoint.group("lanes"), meta.get("fleet"))
    trainer.resume_at(meta["env_steps"], loop)


def policy_contents(config: TrainConfig, task: Task, policy: Policy, updates: int, epsilon: float) -> Contents:
    """Return what is enough to act, but not to go on learning."""
    meta = {ACTING_ONLY: True, "epsilon": epsilon, **_belonging(config, task, policy.shape, updates)}
    return meta, policy.tensors(), {}


def critics_in(checkpoint: Checkpoint, group: str, shape: NetworkShape, device: torch.device) -> Parameters:
    """Return the `online` or the `target` critics, all of them in the sizes that the configuration demands."""
    found: Parameters = {}
    for name, size in shape.sizes().items():
        stored = checkpoint.tensors.get(f"{group}.{name}")
        if stored is None or stored.shape != (shape.critics, *size) or stored.dtype != torch.float32:
            raise ValueError(f"{group}.{name} does not fit this network")
        if not torch.isfinite(stored).all():
            raise ValueError(f"{group}.{name} holds numbers that are not finite")
        # a copy: matrix products may round differently for buffers of another alignment, such as those of a file
        found[name] = stored.to(device, copy=True)
    return found


def normaliser_in(checkpoint: Checkpoint, shape: NetworkShape) -> ObservationNormaliser:
    """Return what observations were normalised with."""
    normaliser = ObservationNormaliser(shape.observation_size)
    for name, tensor in normaliser.tensors().items():
        stored = checkpoint.tensors.get(f"observations.{name}")
        if stored is None or stored.shape != tensor.shape or stored.dtype != tensor.dtype:
            raise ValueError(f"observations.{name} does not fit this network")
        tensor.copy_(stored)
    normaliser.check()
    normaliser.settle()
    return normaliser


def unfit(folder: RunFolder) -> str:
    """Return the beginning of the line about a checkpoint whose contents cannot be used."""
    return f"the checkpoint in {folder.checkpoints} is damaged or does not match config.json"


def refuse_foreign(checkpoint: Checkpoint, folder: RunFolder, config: TrainConfig, shape: NetworkShape) -> None:
    """Refuse a checkpoint of another task, and an environment whose spaces differ from those it was trained in."""
    task, spaces = checkpoint.meta.get("task"), checkpoint.meta.get("spaces")
    if task != config.task:
        where = f"the checkpoint in {folder.checkpoints} does not match config.json"
        raise UserError(f"{where}: it is of the task {str(task)[:200]}, not {config.task[:200]}")
    here = _spaces(shape)
    if spaces is not None and spaces != here:
        raise UserError(
            f"the environment has {_in_words(here)}, but {folder.path} was trained with {_in_words(spaces)}"
        )


def refuse_acting_only(checkpoint: Checkpoint, folder: RunFolder) -> None:
    """Refuse to go on learning where there is only a policy."""
    if checkpoint.meta.get(ACTING_ONLY):
        raise UserError(f"{folder.path} was saved without its replay: it can act, but not go on learning")


def task_in(checkpoint: Checkpoint, config: TrainConfig, trusted: Collection[str]) -> Task | None:
    """Return the run's task as the checkpoint describes it, without building its environment.

    None in checkpoints of older versions, which say too little.
    """
    stored = checkpoint.meta.get("environment")
    if stored is None:
        return None
    try:
        observation, own_action = (space_from_json(stored[name]) for name in ("observation_space", "action_space"))
        sizes = action_codec(own_action, config.bins).sizes
        info = TaskInfo(
            observation_size=len(observation_codec(observation).low),
            sizes=sizes,
            reward_range=None if stored["reward_range"] is None else tuple(stored["reward_range"]),
            max_episode_steps=stored["max_episode_steps"],
            masked=stored["masked"],
            spaces=TaskSpaces(observation, own_action, observation, tuple(stored["action_names"])),
        )
    except (ValueError, UserError) as error:
        raise UserError(f"the environment that the checkpoint describes cannot be used: {error}") from error
    return stored_task(spec_of(config), info, keeps_spaces=stored["keeps_spaces"], trusted=trusted)


def _environment(task: Task) -> dict[str, Any]:
    """Return what `task_in` needs; nothing where the spaces cannot be written down."""
    info = task.info
    if info.spaces is None:
        return {}
    try:
        stored = {
            "observation_space": space_to_json(task.user_spaces()[0]),
            "action_space": space_to_json(info.spaces.own_action),
            "keeps_spaces": task.keeps_spaces,
            "action_names": list(info.spaces.action_names),
            "reward_range": info.reward_range,
            "max_episode_steps": info.max_episode_steps,
            "masked": info.masked,
        }
    except ValueError:
        return {}
    return {"environment": stored}


def _belonging(config: TrainConfig, task: Task, shape: NetworkShape, updates: int) -> dict[str, Any]:
    facts = {"updates": updates, "task": config.task, "spaces": _spaces(shape), "versions": versions()}
    return {**facts, **_environment(task)}


def _spaces(shape: NetworkShape) -> dict[str, Any]:
    return {"observation_size": shape.observation_size, "sizes": list(shape.actions.environment_sizes)}


def _in_words(spaces: Mapping[str, Any]) -> str:
    sizes = str(spaces["sizes"])
    shown = sizes if len(sizes) < 500 else f"{sizes[:500]} ..."
    return f"observations of {spaces['observation_size']} numbers and actions of sizes {shown}"
