"""Every setting of a run as typed dataclasses; they are the command line, `config.json` and the Python API at once."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from revalued.algorithms.decompositions import refuse_unknown
from revalued.errors import UserError, unknown_name

Decomposition = Literal["mean", "sum", "branch", "logit-mean", "atomic"] | str
"""Those built in, or one that `revalued.register_decomposition` has added."""
Head = Literal["utilities", "dueling", "categorical"]
EnsembleTarget = Literal["max-of-mean", "mean-of-max"]
WeightFunction = Literal["exponential", "quadratic"]
Reduction = Literal["sum", "mean"]
Exploration = Literal["joint", "per-dimension"]
EngineName = Literal["auto", "native", "torch"]


@dataclass(frozen=True)
class AlgorithmConfig:
    """One point in the family of value-decomposition algorithms (the presets are such points, by name)."""

    decomposition: Decomposition = "mean"
    """How the chosen utilities make a Q-value: mean, sum, each branch alone, averaged logits, or no factorisation."""
    head: Head = "utilities"
    """What the network predicts per dimension: utilities, dueling advantages, or categorical distributions."""
    critics: int = 10
    """Size K of the ensemble."""
    beta: float = 0.5
    """Coefficient of the regularisation loss; 0 turns it off."""
    regulariser_weight: WeightFunction = "exponential"
    """Weight of a dimension in the regulariser: 1 − exp(−|δ|/c), or min((δ/c)², 1)."""
    regulariser_temperature: float = 1.0
    """Temperature c that scales δ before the weight function."""
    regulariser_reduction: Reduction = "sum"
    """Whether the regulariser adds up (as in the paper) or averages over dimensions."""
    double_q: bool = False
    """Choose the target's sub-actions with the online critics and value them with the target critics."""
    ensemble_target: EnsembleTarget = "max-of-mean"
    """Maximise the ensemble's mean utilities (equation 5), or average each critic's own maximum (Theorem 2)."""
    n_step: int = 3
    """Rewards added up before bootstrapping."""
    discount: float = 0.99
    """Discount factor γ."""
    atoms: int = 101
    """Number Z of atoms of a categorical head."""
    value_min: float | None = None
    """Lowest atom of a categorical head; by default from the task's reward range."""
    value_max: float | None = None
    """Highest atom of a categorical head; by default from the task's reward range."""


@dataclass(frozen=True)
class LearnerConfig:
    """Network size and optimisation."""

    hidden_size: int = 512
    """Width H of every hidden layer."""
    learning_rate: float = 1e-4
    """Step size of Adam."""
    batch_size: int = 256
    """Transitions per update."""
    gradient_clip: float = 40.0
    """Largest gradient norm of each critic."""
    target_update_rate: float = 0.005
    """Polyak rate: how far the target network moves towards the online network in every update."""


@dataclass(frozen=True)
class ExplorationConfig:
    """ε-greedy exploration; ε = max(minimum, decay^interactions)."""

    exploration: Exploration = "joint"
    """With probability ε the whole action is random, or each dimension by itself."""
    epsilon_min: float = 0.05
    """Smallest ε."""
    epsilon_decay: float = 0.99995
    """Factor on ε per environment interaction."""


@dataclass(frozen=True)
class ReplayConfig:
    """Experience replay."""

    replay_capacity: int = 500_000
    """Transitions kept."""
    prioritised: bool = True
    """Sample by TD error instead of uniformly."""
    priority_exponent: float = 0.6
    """How strongly priorities shape sampling."""
    importance_exponent: float = 0.2
    """How strongly importance weights correct for it."""


@dataclass(frozen=True)
class ScheduleConfig:
    """When things happen."""

    env_steps: int = 500_000
    """Environment interactions in total, over all lanes."""
    num_envs: int = 5
    """Environments (lanes) stepped side by side."""
    env_steps_per_update: int = 5
    """Interactions for every gradient update."""
    warmup_env_steps: int = 5_000
    """Interactions before the first update."""
    eval_every: int = 1_000
    """Updates between greedy test episodes."""
    eval_episodes: int = 1
    """Greedy test episodes per evaluation; their mean is reported."""
    log_every: int = 200
    """Updates between rows of metrics.csv."""


@dataclass(frozen=True)
class ExecutionConfig:
    """How the run is carried out. `workers` and `checkpoint_every` never change its results."""

    workers: int = 0
    """Processes that step the environments; 0 steps them in this one."""
    threads: int | None = None
    """Threads for matrix products; by default one per core. Results are reproducible for equal numbers of threads."""
    device: str = "auto"
    """`cpu`, `cuda`, `cuda:1`, or `auto`: CUDA where it is available."""
    engine: EngineName = "auto"
    """What updates: `native` (in C, on CPUs), `torch`, or `auto`: C where it can. The two round differently."""
    checkpoint_every: int = 5_000
    """Updates between checkpoints."""
    compile: bool = False
    """Compile the update with torch.compile (with CUDA graphs on CUDA); takes half a minute, pays on GPUs."""
    actors: int = 0
    """Ray actors that collect transitions, each with `num_envs` environments; 0 collects in this process."""
    cluster: str = "local"
    """Where the actors run: `local` starts Ray here, `auto` joins the cluster around, HOST:PORT the one at its head."""
    block_steps: int = 20
    """Steps of every environment that an actor makes before it sends them."""
    max_staleness: int | None = None
    """Updates that an actor's weights may be behind; by default twice what one block of every actor pays for."""
    in_order: bool = False
    """Take the actors' blocks in the order in which they were asked for: reproducible, but at the slowest's pace."""


@dataclass(frozen=True)
class TrainConfig:
    """A whole run."""

    task: str
    """Task name, see `revalued list tasks`; or `gym:ID`, `gym:module:ID`, `metaworld:NAME`."""
    algo: str = "revalued"
    """Name of the preset that the algorithm started from, see `revalued list algos`."""
    seed: int = 0
    """Seed of everything random in the run."""
    bins: int = 3
    """Sub-actions per dimension that continuous actions are cut into."""
    reward_noise: float = 0.0
    """Standard deviation of Gaussian noise on the rewards; reported returns are without it."""
    state_noise: float = 0.0
    """Standard deviation of Gaussian noise on every number of the observations."""
    algorithm: AlgorithmConfig = field(default_factory=AlgorithmConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    exploration: ExplorationConfig = field(default_factory=ExplorationConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    execution: ExecutionConfig = field(default_factory=ExecutionConfig)


def to_dict(config: TrainConfig) -> dict[str, Any]:
    """Return the configuration as plain nested dictionaries, ready for JSON."""
    return dataclasses.asdict(config)


def from_dict(data: Mapping[str, Any]) -> TrainConfig:
    """Rebuild a configuration from `to_dict`'s output; unknown or mistyped entries are refused.

    Entries that are missing take their defaults: an older version of this package did not have them.
    """
    config: TrainConfig = _build(TrainConfig, _without_retired(data), where="")
    return config


def _without_retired(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave out an entry that older versions wrote, if it says what is now always so."""
    execution = data.get("execution") if isinstance(data, Mapping) else None
    if not isinstance(execution, Mapping) or "matmul_precision" not in execution:
        return data
    kept = dict(execution)
    if (precision := kept.pop("matmul_precision")) != "highest":
        raise UserError(f"execution.matmul_precision = {precision!r} is not possible any more: it is always 'highest'")
    return {**data, "execution": kept}


def _build(cls: type[Any], data: object, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise UserError(f"configuration entry {where.rstrip('.') or 'top level'!r} must be an object")
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    known = {name: hints[name] for name in fields}
    for key in data:
        if key not in known:
            raise unknown_name("configuration entry", f"{where}{key}", [f"{where}{name}" for name in known])
    values: dict[str, Any] = {}
    for name, hint in known.items():
        if name not in data:
            field_ = fields[name]
            if field_.default is dataclasses.MISSING and field_.default_factory is dataclasses.MISSING:
                raise UserError(f"configuration entry '{where}{name}' is missing")
            continue
        value = data[name]
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            values[name] = _build(hint, value, f"{where}{name}.")
        elif _matches(value, hint):
            values[name] = value
        else:
            raise UserError(f"configuration entry '{where}{name}' has the wrong type: {value!r}")
    return cls(**values)


def _matches(value: object, hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_matches(value, option) for option in typing.get_args(hint))
    if origin is Literal:
        return value in typing.get_args(hint)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def validate(config: TrainConfig) -> None:
    """Refuse whatever cannot work, with the reason, before anything starts."""
    _validate_algorithm(config.algorithm)
    learner, schedule, replay = config.learner, config.schedule, config.replay
    exploration, execution = config.exploration, config.execution
    _require(config.seed >= 0, "seed", config.seed, "at least 0")
    _require(config.bins >= 2, "bins", config.bins, "at least 2")
    for name in ("reward_noise", "state_noise"):
        noise = getattr(config, name)
        _require(noise >= 0 and math.isfinite(noise), name, noise, "at least 0 and finite")
    for name in ("hidden_size", "batch_size"):
        _require(getattr(learner, name) >= 1, name, getattr(learner, name), "at least 1")
    for name in ("learning_rate", "gradient_clip"):
        value = getattr(learner, name)
        _require(value > 0 and math.isfinite(value), name, value, "above 0 and finite")
    rate = learner.target_update_rate
    _require(0 < rate <= 1, "target_update_rate", rate, "above 0 and at most 1")
    for name in ("env_steps", "num_envs", "env_steps_per_update", "eval_every", "eval_episodes", "log_every"):
        _require(getattr(schedule, name) >= 1, name, getattr(schedule, name), "at least 1")
    _require(schedule.warmup_env_steps >= 0, "warmup_env_steps", schedule.warmup_env_steps, "at least 0")
    _require(0 <= exploration.epsilon_min <= 1, "epsilon_min", exploration.epsilon_min, "between 0 and 1")
    _require(0 < exploration.epsilon_decay <= 1, "epsilon_decay", exploration.epsilon_decay, "above 0 and at most 1")
    smallest = schedule.num_envs * max(1, execution.actors) * (config.algorithm.n_step + 4)
    _require(replay.replay_capacity >= smallest, "replay_capacity", replay.replay_capacity, f"at least {smallest} here")
    for name in ("priority_exponent", "importance_exponent"):
        _require(0 <= getattr(replay, name) <= 1, name, getattr(replay, name), "between 0 and 1")
    _require(execution.workers >= 0, "workers", execution.workers, "at least 0")
    _require(
        execution.workers <= schedule.num_envs, "workers", execution.workers, f"at most num_envs = {schedule.num_envs}"
    )
    _require(execution.threads is None or execution.threads >= 1, "threads", execution.threads, "at least 1")
    _require(execution.checkpoint_every >= 1, "checkpoint_every", execution.checkpoint_every, "at least 1")
    _require(execution.actors >= 0, "actors", execution.actors, "at least 0")
    if execution.actors > 0 and execution.workers > 0:
        raise UserError("actors step their environments themselves: give --actors or --workers, not both")
    _require(execution.block_steps >= 1, "block_steps", execution.block_steps, "at least 1")
    bound = execution.max_staleness
    _require(bound is None or bound >= 0, "max_staleness", bound, "at least 0")
    _require(execution.cluster != "", "cluster", repr(execution.cluster), "local, auto or HOST:PORT")


def _validate_algorithm(algorithm: AlgorithmConfig) -> None:
    _require(algorithm.critics >= 1, "critics", algorithm.critics, "at least 1")
    _require(algorithm.beta >= 0 and math.isfinite(algorithm.beta), "beta", algorithm.beta, "at least 0")
    temperature = algorithm.regulariser_temperature
    _require(temperature > 0, "regulariser_temperature", temperature, "above 0")
    _require(algorithm.n_step >= 1, "n_step", algorithm.n_step, "at least 1")
    _require(0 <= algorithm.discount <= 1, "discount", algorithm.discount, "between 0 and 1")
    refuse_unknown(algorithm.decomposition)
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
    if categorical and algorithm.beta > 0:
        raise UserError("the regulariser acts on utilities, and the categorical head has none: use --beta 0")
    if categorical:
        _require(algorithm.atoms >= 2, "atoms", algorithm.atoms, "at least 2")
        low, high = algorithm.value_min, algorithm.value_max
        for name, bound in (("value_min", low), ("value_max", high)):
            _require(bound is None or math.isfinite(bound), name, bound, "finite")
        if low is not None and high is not None and not low < high:
            raise UserError(f"value_min {low} must lie below value_max {high}")


def _require(condition: bool, name: str, value: object, allowed: str) -> None:
    if not condition:
        raise UserError(f"{name} = {value} is not possible: it must be {allowed}")
