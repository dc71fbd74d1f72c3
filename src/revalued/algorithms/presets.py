"""Algorithms by name: each preset is one point of the family; all but `lean` have the paper's other settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from revalued.config import AlgorithmConfig, ExplorationConfig, LearnerConfig, ScheduleConfig, TrainConfig
from revalued.errors import unknown_name


@dataclass(frozen=True)
class Preset:
    """A named algorithm, what it is in a few words, and settings that belong to it."""

    algorithm: AlgorithmConfig
    summary: str
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    exploration: ExplorationConfig = field(default_factory=ExplorationConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)


PRESETS: dict[str, Preset] = {
    "lean": Preset(
        AlgorithmConfig(critics=10, beta=0.0),
        "Lean: ten narrow critics at about the price of a wide one; no regulariser, as it did not pay; where to start",
        LearnerConfig(hidden_size=160, learning_rate=1e-3, normalise_observations=True),
        ExplorationConfig(act_with="ensemble-mean"),
    ),
    "revalued": Preset(
        AlgorithmConfig(critics=10, beta=0.5),
        "REValueD: mean decomposition, ensemble target, regularised utilities (Ireland & Montana 2024)",
    ),
    "decqn": Preset(
        AlgorithmConfig(critics=1, beta=0.0),
        "DecQN: mean of per-dimension utilities, one critic (Seyde et al. 2022)",
    ),
    "decqn-ensemble": Preset(
        AlgorithmConfig(critics=10, beta=0.0),
        "DecQN with an ensemble: REValueD without its regulariser",
    ),
    "decqn-sum": Preset(
        AlgorithmConfig(decomposition="sum", critics=1, beta=0.0),
        "DecQN-Sum: the Q-value is the sum of the utilities (Tang et al. 2022)",
    ),
    "decqn-sum-ensemble": Preset(
        AlgorithmConfig(decomposition="sum", critics=10, beta=0.0),
        "DecQN-Sum with an ensemble",
    ),
    "bdq": Preset(
        AlgorithmConfig(decomposition="branch", head="dueling", critics=1, beta=0.0, double_q=True),
        "BDQ: branching dueling Q-network with double Q (Tavakoli et al. 2018)",
    ),
    "bdq-ensemble": Preset(
        AlgorithmConfig(decomposition="branch", head="dueling", critics=10, beta=0.0, double_q=True),
        "BDQ with an ensemble",
    ),
    "decqn-c51": Preset(
        AlgorithmConfig(decomposition="logit-mean", head="categorical", critics=1, beta=0.0),
        "DecQN-C51: categorical distributions, averaged at the logits",
    ),
    "dqn": Preset(
        AlgorithmConfig(decomposition="atomic", critics=1, beta=0.0),
        "DQN: one head over all combinations, for small products only (Mnih et al. 2015)",
    ),
}


def find_preset(name: str) -> Preset:
    """Return the preset of that name, or say which names come close."""
    if name not in PRESETS:
        raise unknown_name("algorithm", name, PRESETS)
    return PRESETS[name]


def preset(name: str) -> AlgorithmConfig:
    """Return the algorithm of that name."""
    return find_preset(name).algorithm


def starting_config(task: str, algo: str) -> TrainConfig:
    """Return the configuration that a preset stands for."""
    chosen = find_preset(algo)
    return TrainConfig(
        task,
        algo,
        algorithm=chosen.algorithm,
        learner=chosen.learner,
        exploration=chosen.exploration,
        schedule=chosen.schedule,
    )
