"""Which settings can work, alone and together: whatever cannot is refused with the reason."""

from __future__ import annotations

import math
import os
from dataclasses import fields, is_dataclass
from typing import Any

from revalued.algorithms.decompositions import find_decomposition
from revalued.config import AlgorithmConfig, TrainConfig
from revalued.envs.spaces.actions import MAX_BINS
from revalued.errors import UserError

_MAX_THREADS = 256


def validate(config: TrainConfig) -> None:
    """Refuse whatever cannot work, with the reason, before anything starts."""
    _validate_algorithm(config.algorithm)
    learner, schedule, replay = config.learner, config.schedule, config.replay
    exploration, execution = config.exploration, config.execution
    _require(config.seed >= 0, "seed", config.seed, "at least 0")
    _require(2 <= config.bins <= MAX_BINS, "bins", config.bins, f"at least 2 and at most {MAX_BINS:,}")
    _require(config.action_repeat >= 1, "action_repeat", config.action_repeat, "at least 1")
    for name in ("reward_noise", "state_noise"):
        noise = getattr(config, name)
        _require(noise >= 0 and math.isfinite(noise), name, noise, "at least 0 and finite")
    for name in ("hidden_size", "batch_size"):
        _require(getattr(learner, name) >= 1, name, getattr(learner, name), "at least 1")
    for name in ("learning_rate", "gradient_clip", "reward_scale"):
        value = getattr(learner, name)
        _require(value > 0 and math.isfinite(value), name, value, "above 0 and finite")
    rate = learner.target_update_rate
    _require(rate == "auto" or 0 < rate <= 1, "target_update_rate", rate, "above 0 and at most 1, or auto")
    decay = learner.weight_decay
    _require(0 <= decay * learner.learning_rate < 1, "weight_decay", decay, "at least 0, and below 1 / learning_rate")
    _require(1 <= learner.blocks <= 3, "blocks", learner.blocks, "at least 1 and at most 3")
    if learner.torso == "plain" and learner.blocks > 1:
        raise UserError(f"blocks = {learner.blocks} is not possible: the plain torso has one, use --torso prenorm")
    for name in ("env_steps", "num_envs", "eval_every", "eval_episodes", "max_eval_steps", "log_every"):
        _require(getattr(schedule, name) >= 1, name, getattr(schedule, name), "at least 1")
    ratio = schedule.updates_per_env_step
    _require(0.05 <= ratio <= 8, "updates_per_env_step", ratio, "between 0.05 and 8")
    _require(schedule.warmup_env_steps >= 0, "warmup_env_steps", schedule.warmup_env_steps, "at least 0")
    _require(0 <= exploration.epsilon_min <= 1, "epsilon_min", exploration.epsilon_min, "between 0 and 1")
    _require(0 < exploration.epsilon_decay <= 1, "epsilon_decay", exploration.epsilon_decay, "above 0 and at most 1")
    if exploration.act_with == "critic-per-episode" and config.algorithm.critics == 1:
        raise UserError("act_with = critic-per-episode is not possible: with one critic there is none to draw")
    smallest = schedule.num_envs * max(1, execution.actors) * (config.algorithm.n_step + 4)
    _require(replay.replay_capacity >= smallest, "replay_capacity", replay.replay_capacity, f"at least {smallest} here")
    for name in ("priority_exponent", "importance_exponent"):
        _require(0 <= getattr(replay, name) <= 1, name, getattr(replay, name), "between 0 and 1")
    _require(execution.workers >= 0, "workers", execution.workers, "at least 0")
    _require(
        execution.workers <= schedule.num_envs, "workers", execution.workers, f"at most num_envs = {schedule.num_envs}"
    )
    # a run of a larger machine keeps its number of threads, on which torch's rounding depends; libraries crash beyond
    most = max(_MAX_THREADS, 4 * (os.cpu_count() or 1))
    _require(
        execution.threads is None or 1 <= execution.threads <= most,
        "threads",
        execution.threads,
        f"at least 1 and at most {most} here",
    )
    _require(execution.checkpoint_every >= 1, "checkpoint_every", execution.checkpoint_every, "at least 1")
    _require(execution.actors >= 0, "actors", execution.actors, "at least 0")
    if execution.actors > 0 and execution.workers > 0:
        raise UserError("actors step their environments themselves: give --actors or --workers, not both")
    if execution.actors > 0 and exploration.epsilon_schedule == "exploratory-actions":
        raise UserError(
            "epsilon_schedule = exploratory-actions is not possible with actors: each would have to know what all "
            "others do at the same time"
        )
    _require(execution.block_steps >= 1, "block_steps", execution.block_steps, "at least 1")
    bound = execution.max_staleness
    _require(bound is None or bound >= 0, "max_staleness", bound, "at least 0")
    _require(execution.cluster != "", "cluster", repr(execution.cluster), "local, auto or HOST:PORT")
    _validate_numbers(config)


def _validate_numbers(part: Any) -> None:
    """Refuse what no `config.json` could bring back: JSON has no infinity, and whole numbers end at 64 bits."""
    for field in fields(part):
        value = getattr(part, field.name)
        if is_dataclass(value):
            _validate_numbers(value)
        elif isinstance(value, float):
            _require(math.isfinite(value), field.name, value, "finite")
        elif isinstance(value, int):
            _require(value < 2**63, field.name, value, "below 2^63")


def _validate_algorithm(algorithm: AlgorithmConfig) -> None:
    _require(algorithm.critics >= 1, "critics", algorithm.critics, "at least 1")
    _require(algorithm.beta >= 0 and math.isfinite(algorithm.beta), "beta", algorithm.beta, "at least 0")
    temperature = algorithm.regulariser_temperature
    _require(temperature > 0, "regulariser_temperature", temperature, "above 0")
    _require(algorithm.n_step >= 1, "n_step", algorithm.n_step, "at least 1")
    _require(0 <= algorithm.discount <= 1, "discount", algorithm.discount, "between 0 and 1")
    find_decomposition(algorithm.decomposition)  # refuses a name that nobody knows
    _validate_target(algorithm)
    categorical = algorithm.head == "categorical"
    if algorithm.decomposition == "logit-mean" and not categorical:
        raise UserError(
            f"decomposition logit-mean averages the logits of categorical distributions, but the {algorithm.head} head "
            "has none: use --head categorical, or decomposition mean, sum or branch"
        )
    if categorical and algorithm.decomposition not in ("logit-mean", "atomic"):
        raise UserError(
            f"the categorical head predicts distributions, which decomposition {algorithm.decomposition} cannot "
            "combine: use --decomposition logit-mean or atomic"
        )
    if algorithm.categorical_target != "distribution" and not categorical:
        raise UserError(
            f"categorical_target = {algorithm.categorical_target} is not possible: the {algorithm.head} head has no "
            "atoms to classify values with, use --head categorical"
        )
    if categorical and algorithm.is_regularised:
        raise UserError("the regulariser acts on utilities, and the categorical head has none: use --beta 0")
    if categorical:
        _require(algorithm.atoms >= 2, "atoms", algorithm.atoms, "at least 2")
        low, high = algorithm.value_min, algorithm.value_max
        for name, bound in (("value_min", low), ("value_max", high)):
            _require(bound is None or math.isfinite(bound), name, bound, "finite")
        if low is not None and high is not None and not low < high:
            raise UserError(f"value_min {low} must lie below value_max {high}")


def _validate_target(algorithm: AlgorithmConfig) -> None:
    drawn, critics = algorithm.target_critics, algorithm.critics
    if drawn is None:
        return
    if critics == 1:
        raise UserError(f"target_critics = {drawn} is not possible: with one critic there are none to draw from")
    _require(1 <= drawn <= critics, "target_critics", drawn, f"at least 1 and at most critics = {critics}")
    if algorithm.ensemble_target != "max-of-mean":
        raise UserError(
            f"target_critics takes the smallest value of the action that the ensemble's mean prefers, and "
            f"--ensemble-target {algorithm.ensemble_target} has no such action: use max-of-mean"
        )
    if algorithm.head == "categorical" and algorithm.categorical_target == "distribution":
        raise UserError(
            "target_critics takes the smallest of some values, and distributions have no smallest one: "
            "use --categorical-target hl-gauss"
        )


def _require(condition: bool, name: str, value: object, allowed: str) -> None:
    if not condition:
        raise UserError(f"{name} = {value} is not possible: it must be {allowed}")
