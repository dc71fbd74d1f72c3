"""Every setting of a run by its name alone, as on the command line: `critics=5` instead of nested dataclasses."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any, Literal, TypedDict

import numpy as np

from revalued.algorithms.presets import starting_config
from revalued.config import (
    ActWith,
    CategoricalTarget,
    Decomposition,
    EngineName,
    EnsembleTarget,
    EpsilonSchedule,
    Exploration,
    Head,
    Reduction,
    Torso,
    TrainConfig,
    WeightFunction,
    from_dict,
    to_dict,
)
from revalued.errors import UserError, unknown_name


class Settings(TypedDict, total=False):
    """The fields of `TrainConfig` and its parts, without task and algo; editors complete them, mypy checks them."""

    seed: int
    bins: int
    action_repeat: int
    reward_noise: float
    state_noise: float
    decomposition: Decomposition
    head: Head
    critics: int
    beta: float
    regulariser_weight: WeightFunction
    regulariser_temperature: float
    regulariser_reduction: Reduction
    double_q: bool
    ensemble_target: EnsembleTarget
    target_critics: int | None
    n_step: int
    discount: float
    atoms: int
    categorical_target: CategoricalTarget
    value_min: float | None
    value_max: float | None
    hidden_size: int
    learning_rate: float
    batch_size: int
    gradient_clip: float
    target_update_rate: float | Literal["auto"]
    weight_decay: float
    normalise_observations: bool
    reward_scale: float
    torso: Torso
    blocks: int
    exploration: Exploration
    epsilon_min: float
    epsilon_decay: float
    epsilon_schedule: EpsilonSchedule
    act_with: ActWith
    replay_capacity: int
    prioritised: bool
    priority_exponent: float
    importance_exponent: float
    env_steps: int
    num_envs: int
    updates_per_env_step: float
    warmup_env_steps: int
    eval_every: int
    eval_episodes: int
    max_eval_steps: int
    log_every: int
    workers: int
    threads: int | None
    device: str
    engine: EngineName
    checkpoint_every: int
    compile: bool
    actors: int
    cluster: str
    block_steps: int
    max_staleness: int | None
    in_order: bool


def places() -> dict[str, tuple[str, ...]]:
    """Return where each setting is in `to_dict`'s output; there is one for every field but task and algo."""
    hints = typing.get_type_hints(TrainConfig)
    found: dict[str, tuple[str, ...]] = {}
    for field in dataclasses.fields(TrainConfig):
        if dataclasses.is_dataclass(hints[field.name]):
            found |= {part.name: (field.name, part.name) for part in dataclasses.fields(hints[field.name])}
        elif field.name not in ("task", "algo"):
            found[field.name] = (field.name,)
    return found


def configure(task: str, algo: str, settings: typing.Mapping[str, Any]) -> TrainConfig:
    """Return the preset's configuration with settings changed; an unknown one is answered with its nearest match."""
    data = to_dict(starting_config(task, algo))
    known = places()
    for name, value in settings.items():
        if name not in known:
            raise unknown_name("keyword", name, known)
        *path, last = known[name]
        plain = value.item() if isinstance(value, np.generic) else value
        (data[path[0]] if path else data)[last] = plain
    try:
        return from_dict(data)
    except UserError as error:
        raise UserError(str(error).replace("configuration entry", "keyword", 1)) from None
