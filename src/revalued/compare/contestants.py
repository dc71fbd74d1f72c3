"""Who takes part in a comparison, and with which settings: data alone.

Everybody has six settings. The first is what its library publishes; `revalued compare --tune` tries all six, each for
the same share of the budget, and lets the best take part as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

DEFAULT: Final = "default"
NUM_SETTINGS: Final = 6
MOST_COMBINATIONS: Final = 2_000
"""Joint actions that plain DQN is given."""


@dataclass(frozen=True)
class Contestant:
    """A learner, or the uniformly random policy."""

    title: str
    module: str
    """What is run, below `revalued.compare.learners`."""
    is_peer: bool
    """Whether it runs in the peers' environment, not in ours."""
    settings: Mapping[str, Mapping[str, Any]]
    """What the module understands, by a short name; `default` first."""
    published: str = ""
    """Where the default settings are published."""
    is_continuous: bool = False
    """Whether it takes the continuous actions of a control-suite task, without bins."""
    limits: tuple[str, ...] = field(default=())
    """Which of the limits in `unfit` it has."""
    variant_of: str | None = None
    """In whose column the overview shows it, if not in one of its own."""


_LEAN = {"algo": "lean"}
_AT_ONCE = {**_LEAN, "n_step": 1, "discount": 0.9}
"""What `revalued check` suggests where choices pay at once."""
_PLAIN = {"algo": "decqn", "learning_rate": 3e-4, "normalise_observations": True, "target_update_rate": 0.01}
_PPO: dict[str, Any] = {}
_DQN: dict[str, Any] = {}
_SAC: dict[str, Any] = {}
# the example collects 16 steps at a time, which its present version rounds up to a whole step of its 20 environments
_BDQ = {
    "common_hidden_sizes": [512, 256], "value_hidden_sizes": [128], "action_hidden_sizes": [128], "lr": 1e-4,
    "gamma": 0.99, "target_update_freq": 1000, "batch_size": 512, "buffer_size": 100_000, "training_num": 20,
    "step_per_collect": 20, "update_per_step": 0.0625, "eps_train": 0.73, "eps_decay": 5e-6, "eps_min": 0.0,
}  # fmt: skip


def _varied(base: Mapping[str, Any], **variants: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {DEFAULT: base, **{name: {**base, **changes} for name, changes in variants.items()}}


def _ours(title: str, base: Mapping[str, Any], other_rate: float, variant_of: str | None = None) -> Contestant:
    quick = {"epsilon_decay": 0.9997, "warmup_env_steps": 1_000}
    steps = {"three_steps": {"n_step": 3, **quick}} if base.get("n_step") == 1 else {"one_step": {"n_step": 1, **quick}}
    settings = _varied(
        base,
        other_rate={"learning_rate": other_rate},
        quick_decay=quick,
        **steps,
        more_updates={"updates_per_env_step": 0.5, **quick},
        per_dimension={"exploration": "per-dimension", **quick},
    )
    return Contestant(
        title, "ours", is_peer=False, settings=settings, published="revalued check", variant_of=variant_of
    )


CONTESTANTS: Final[dict[str, Contestant]] = {
    "lean": _ours("revalued: lean", _LEAN, 3e-4),
    "lean-at-once": _ours("revalued: lean, one step and discount 0.9", _AT_ONCE, 3e-4, "lean"),
    "decqn": _ours("revalued: DecQN", _PLAIN, 1e-3),
    "decqn-paper": _ours("revalued: DecQN, the paper's settings", {"algo": "decqn"}, 3e-4),
    "dqn": _ours("revalued: DQN on joint actions", {**_PLAIN, "algo": "dqn"}, 1e-3),
    "sb3-ppo": Contestant(
        "Stable-Baselines3 PPO",
        "sb3",
        is_peer=True,
        settings=_varied(
            _PPO,
            short_rollouts={"n_steps": 512},
            entropy={"ent_coef": 0.01},
            large_steps={"learning_rate": 1e-3},
            normalised={"normalise": True},
            four_lanes={"num_envs": 4, "n_steps": 512, "batch_size": 256, "normalise": True},
        ),
        published="PPO's signature in Stable-Baselines3 2.9.2",
        limits=("masks",),
    ),
    "sb3-dqn": Contestant(
        "Stable-Baselines3 DQN on joint actions",
        "sb3",
        is_peer=True,
        settings=_varied(
            _DQN,
            large_steps={"learning_rate": 1e-3},
            large_batches={"batch_size": 256, "learning_rate": 3e-4},
            quick_target={"target_update_interval": 1_000},
            large_batches_quick_target={"batch_size": 256, "learning_rate": 3e-4, "target_update_interval": 1_000},
            wide={"policy_kwargs": {"net_arch": [256, 256]}, "learning_rate": 3e-4, "target_update_interval": 1_000},
        ),
        published="DQN's signature in Stable-Baselines3 2.9.2",
        limits=("masks", "combinations"),
    ),
    "sb3-sac": Contestant(
        "Stable-Baselines3 SAC, continuous actions",
        "sb3",
        is_peer=True,
        settings=_varied(
            _SAC,
            large_steps={"learning_rate": 1e-3},
            early={"learning_starts": 5_000},
            every_fourth={"train_freq": 4, "gradient_steps": 1},
            every_fourth_large={"train_freq": 4, "gradient_steps": 1, "learning_rate": 1e-3},
            small={"policy_kwargs": {"net_arch": [128, 128]}},
        ),
        published="SAC's signature in Stable-Baselines3 2.9.2",
        is_continuous=True,
        limits=("masks", "continuous"),
    ),
    "tianshou-bdq": Contestant(
        "Tianshou BDQN",
        "branching",
        is_peer=True,
        settings=_varied(
            _BDQ,
            large_steps={"lr": 1e-3},
            quick_decay={"eps_train": 1.0, "eps_decay": 3e-4, "eps_min": 0.05},
            more_updates={"update_per_step": 0.25},
            quick_decay_more_updates={"eps_train": 1.0, "eps_decay": 3e-4, "eps_min": 0.05, "update_per_step": 0.25},
            few_lanes={"training_num": 5, "step_per_collect": 5, "update_per_step": 0.2, "batch_size": 256,
                       "eps_train": 1.0, "eps_decay": 3e-4, "eps_min": 0.05},
        ),
        published="Tianshou's example examples/box2d/bipedal_bdq.py",
        limits=("masks", "equal sizes"),
    ),
    "random": Contestant("uniformly random", "uniform", is_peer=False, settings={DEFAULT: {}}),
}  # fmt: skip
OURS: Final = ("lean", "decqn")
"""Our side, unless other names are given; one line to change."""


def unfit(name: str, sizes: tuple[int, ...], *, masked: bool, has_bins: bool) -> str | None:
    """Return why a contestant cannot take part in a problem with such an action; None where it can."""
    limits = CONTESTANTS[name].limits
    if masked and "masks" in limits:
        return f"{name} knows no action masks"
    if "combinations" in limits and math.prod(sizes) > MOST_COMBINATIONS:
        return f"{name} would need an output for each of {math.prod(sizes):,} joint actions"
    if "equal sizes" in limits and len(set(sizes)) > 1:
        return f"{name} needs as many choices in each dimension, here they are {list(sizes)}"
    if "continuous" in limits and not has_bins:
        return f"{name} needs continuous actions"
    return None
