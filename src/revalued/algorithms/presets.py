"""The paper's algorithms by name: each preset is one point of the family, nothing more."""

from __future__ import annotations

from dataclasses import dataclass

from revalued.config import AlgorithmConfig
from revalued.errors import unknown_name


@dataclass(frozen=True)
class Preset:
    """A named algorithm and what it is in a few words."""

    algorithm: AlgorithmConfig
    summary: str


PRESETS: dict[str, Preset] = {
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


def preset(name: str) -> AlgorithmConfig:
    """Return the algorithm of that name, or say which names come close."""
    if name not in PRESETS:
        raise unknown_name("algorithm", name, PRESETS)
    return PRESETS[name].algorithm
