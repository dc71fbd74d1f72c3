"""Every setting of a run as typed dataclasses; they are the command line, `config.json` and the Python API at once."""

from __future__ import annotations

import dataclasses
import reprlib
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any, Literal

from revalued.errors import UserError, unknown_name

Decomposition = Literal["mean", "sum", "branch", "logit-mean", "atomic"] | str
"""Those built in, or one that `revalued.register_decomposition` has added."""
Head = Literal["utilities", "dueling", "categorical"]
Torso = Literal["plain", "prenorm"]
EnsembleTarget = Literal["max-of-mean", "mean-of-max"]
CategoricalTarget = Literal["distribution", "hl-gauss"]
WeightFunction = Literal["exponential", "quadratic"]
Reduction = Literal["sum", "mean"]
Exploration = Literal["joint", "per-dimension"]
EpsilonSchedule = Literal["interactions", "exploratory-actions"]
ActWith = Literal["critic-per-step", "critic-per-episode", "ensemble-mean"]
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
    target_critics: int | None = None
    """The target is the smallest value among so many target critics, drawn in every update; by default their mean."""
    n_step: int = 3
    """Rewards added up before bootstrapping."""
    discount: float = 0.99
    """Discount factor γ."""
    atoms: int = 101
    """Number Z of atoms of a categorical head."""
    categorical_target: CategoricalTarget = "distribution"
    """What a categorical head learns: the return's distribution (C51), or the target value as a smoothed histogram."""
    value_min: float | None = None
    """Lowest atom of a categorical head; by default from the task's reward range."""
    value_max: float | None = None
    """Highest atom of a categorical head; by default from the task's reward range."""

    @property
    def is_regularised(self) -> bool:
        """Tell whether the loss has a regulariser, which asks the target critics about the current states too."""
        return self.beta > 0


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
    target_update_rate: float | Literal["auto"] = 0.005
    """Polyak rate: how far the target moves in every update; `auto` makes up for what the regulariser takes away."""
    weight_decay: float = 0.0
    """Weights shrink by this times the learning rate in every update (AdamW); norms and biases do not."""
    normalise_observations: bool = False
    """Shift and scale observations by the running mean and deviation of what has been seen."""
    reward_scale: float = 1.0
    """Factor on the rewards that are learnt from, and so on Q-values; returns are reported without it."""
    torso: Torso = "plain"
    """Before the head: the paper's residual block, or blocks that normalise their input (torch engine only)."""
    blocks: int = 1
    """Residual blocks of a `prenorm` torso, from 1 to 3."""


@dataclass(frozen=True)
class ExplorationConfig:
    """ε-greedy exploration; ε = max(minimum, decay^t)."""

    exploration: Exploration = "joint"
    """With probability ε the whole action is random, or each dimension by itself."""
    epsilon_min: float = 0.05
    """Smallest ε."""
    epsilon_decay: float = 0.99995
    """Factor on ε per environment interaction, or per exploratory action."""
    epsilon_schedule: EpsilonSchedule = "interactions"
    """What t counts: all interactions, or only the actions that were random (at least in one dimension)."""
    act_with: ActWith = "critic-per-step"
    """Who is greedy in training: a critic drawn for each step, one for each episode, or the mean of all."""


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
    updates_per_env_step: float = 0.2
    """Gradient updates for every interaction, from 0.05 to 8."""
    warmup_env_steps: int = 5_000
    """Interactions before the first update."""
    eval_every: int = 1_000
    """Updates between greedy test episodes."""
    eval_episodes: int = 1
    """Greedy test episodes per evaluation; their mean is reported."""
    max_eval_steps: int = 100_000
    """Steps after which a greedy test episode is cut off: not every environment ends its episodes."""
    log_every: int = 200
    """Updates between rows of metrics.csv."""

    @property
    def update_ratio(self) -> Fraction:
        """Return `updates_per_env_step` as the fraction that a person meant: 0.2 is 1/5, to the bit."""
        return _nearby_fraction(self.updates_per_env_step)

    def updates_paid(self, env_steps: int) -> int:
        """Return how many updates so many interactions pay for; those of the warm-up pay for none."""
        return int(max(0, env_steps - self.warmup_env_steps) * self.update_ratio)


@cache
def _nearby_fraction(value: float) -> Fraction:
    return Fraction(value).limit_denominator(1000)


@dataclass(frozen=True)
class ExecutionConfig:
    """How the run is carried out. `workers`, `checkpoint_every` and, in C, `threads` never change its results."""

    workers: int = 0
    """Processes that step the environments; 0 steps them in this one."""
    threads: int | None = None
    """Threads that compute; by default one per core. Results do not depend on it, but for `torch` engine's rounding."""
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
    action_repeat: int = 1
    """Environment steps for which every chosen action is held; they all count as interactions."""
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
    """Translate entries that only older versions wrote."""
    if not isinstance(data, Mapping):
        return data
    parts = {name: dict(part) for name, part in data.items() if isinstance(part, Mapping)}
    execution, schedule = parts.get("execution", {}), parts.get("schedule", {})
    precision = execution.pop("matmul_precision", "highest")
    if precision != "highest":
        raise UserError(
            f"execution.matmul_precision = {reprlib.repr(precision)} is not possible any more: it is always 'highest'"
        )
    per_update = schedule.pop("env_steps_per_update", None)
    if per_update is not None:
        if misfit(per_update, int) is not None or per_update < 1:
            raise UserError(
                f"configuration entry 'schedule.env_steps_per_update' has the wrong type: {reprlib.repr(per_update)}"
            )
        schedule["updates_per_env_step"] = 1 / per_update
    return {**data, **parts}


def _build(cls: type[Any], data: object, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise UserError(f"configuration entry {where.rstrip('.') or 'top level'!r} must be an object")
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    known = {name: hints[name] for name in fields}
    for key in data:
        if key not in known:
            raise unknown_name("configuration entry", f"{where}{key}"[:80], [f"{where}{name}" for name in known])
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
        elif misfit(value, hint) is None:
            values[name] = value
        else:
            raise UserError(f"configuration entry '{where}{name}' has the wrong type: {reprlib.repr(value)}")
    return cls(**values)


_LARGEST_INT = 2**63


def misfit(value: object, hint: Any, where: str = "") -> str | None:
    """Return what is wrong with plain data that should be of a type, with its place; None where nothing is.

    Besides plain types, `hint` may be a Literal, a union, a list, a tuple of fixed length (a list in JSON), a dict with
    strings as keys, or a TypedDict, whose further entries are not looked at.
    """
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return None
    if typing.is_typeddict(hint):
        return _misfit_in_object(value, hint, where)
    if origin in (typing.Union, types.UnionType):
        wrong = [misfit(value, option, where) for option in options]
        structured = [text for option, text in zip(options, wrong, strict=True) if typing.is_typeddict(option)]
        return None if None in wrong else structured[0] if structured and isinstance(value, dict) else wrong[-1]
    if origin is list and isinstance(value, list):
        return _first(misfit(item, options[0], f"{where}[{number}]") for number, item in enumerate(value))
    if origin is tuple and isinstance(value, list | tuple) and len(value) == len(options):
        parts = enumerate(zip(value, options, strict=True))
        return _first(misfit(item, option, f"{where}[{number}]") for number, (item, option) in parts)
    if origin is dict and isinstance(value, dict):
        return _first(misfit(item, options[1], f"{where}.{reprlib.repr(key)}") for key, item in value.items())
    if _is_plain(value, hint, origin, options):
        return None
    return f"{where.lstrip('.') or 'it'} is {reprlib.repr(value)}"


def _is_plain(value: object, hint: Any, origin: Any, options: tuple[Any, ...]) -> bool:
    if origin is Literal:
        return value in options if isinstance(value, str | int | None) else False
    if origin is not None:
        return False
    if hint in (int, float):
        if isinstance(value, bool) or not isinstance(value, int | (float if hint is float else int)):
            return False
        return isinstance(value, float) or -_LARGEST_INT <= value < _LARGEST_INT
    if hint is str:  # with nothing in it that could be neither printed nor part of a path
        return isinstance(value, str) and "\0" not in value and not any("\ud800" <= sign <= "\udfff" for sign in value)
    return isinstance(value, hint)


def _misfit_in_object(value: object, hint: Any, where: str) -> str | None:
    if not isinstance(value, dict):
        return f"{where.lstrip('.') or 'it'} is {reprlib.repr(value)}, not an object"
    # not __required_keys__, which does not see through annotations that are text
    hints = typing.get_type_hints(hint, include_extras=True)
    optional = {name for name, own in hints.items() if typing.get_origin(own) is typing.NotRequired}
    lacking = sorted(hints.keys() - optional - value.keys())
    if lacking:
        return f"{where.lstrip('.') or 'it'} lacks {', '.join(lacking)}"
    plain = {name: typing.get_args(own)[0] if name in optional else own for name, own in hints.items()}
    return _first(misfit(value[name], own, f"{where}.{name}") for name, own in plain.items() if name in value)


def _first(found: Iterable[str | None]) -> str | None:
    return next((text for text in found if text is not None), None)
