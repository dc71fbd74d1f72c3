"""The paper's tables and figures, and the questions it leaves open, as experiments.

The text does not name the tasks of every figure. Where it does not, our choice stands (`SELECTED`), and any other task
can be asked for with `--tasks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from revalued.errors import unknown_name
from revalued.experiments.naming import Setting, variant_label
from revalued.experiments.plan import ComputedExperiment, Experiment, Variant
from revalued.experiments.scales import (
    CONFIRMATION_ENV_STEPS,
    CONFIRMATION_SEEDS,
    EQUAL_PRICE,
    LAPTOP_MORE_SEEDS,
    LONG_ENV_STEPS,
    PAPER_CRITIC,
    PAPER_TIMED_ENV_STEPS,
)

CONTROL_SUITE = (
    "cartpole-swingup_sparse", "reacher-hard", "ball_in_cup-catch", "finger-spin", "fish-swim", "cheetah-run",
    "walker-walk", "walker-run", "quadruped-walk", "quadruped-run", "humanoid-stand", "humanoid-walk", "humanoid-run",
    "dog-walk", "dog-trot", "dog-run",
)  # fmt: skip
"""The tasks of the paper's table of environments."""
DIMENSIONS = {
    "cartpole": 1, "reacher": 2, "ball_in_cup": 2, "finger": 2, "fish": 5, "cheetah": 6, "walker": 6, "quadruped": 12,
    "humanoid": 21, "dog": 38,
}  # fmt: skip
"""Number N of action dimensions by family of tasks."""
HUMANOID_AND_DOG = CONTROL_SUITE[-6:]
SELECTED = ("finger-spin", "fish-swim", "cheetah-run", "walker-run", "quadruped-run", "dog-walk")
"""Six tasks with 2 to 38 dimensions, all of them named in the text: for figures whose tasks it does not name."""
METAWORLD = (
    "metaworld:reach-v3", "metaworld:drawer-close-v3", "metaworld:drawer-open-v3", "metaworld:door-open-v3",
    "metaworld:window-open-v3", "metaworld:button-press-v3",
)  # fmt: skip
"""Six manipulation tasks, our choice."""
CONFIRMING = ("ball_in_cup-catch", "finger-spin", "fish-swim", "walker-run", "quadruped-run", "humanoid-stand")
"""Tasks that the search for the preset `lean` never looked at."""

REWARD_NOISE = Setting(reward_noise=0.1)
STATE_NOISE = Setting(state_noise=0.1)
BINS = tuple(Setting(bins) for bins in (3, 10, 30, 75, 100))
_FEW_BINS = (Setting(3), Setting(30))
_THREE_BINS = (*_FEW_BINS, Setting(100))


def _variant(name: str, *scales: str, **overrides: Any) -> Variant:
    return Variant(name, variant_label(name), overrides, scales)


def _presets(*names: str) -> tuple[Variant, ...]:
    return tuple(_variant(name, algo=name) for name in names)


def _revalued(suffix: str, *scales: str, **overrides: Any) -> Variant:
    return _variant(f"revalued-{suffix}", *scales, algo="revalued", **overrides)


def _ensemble(critics: int, *scales: str) -> Variant:
    return _revalued(f"k{critics}", *scales, critics=critics)


def _tasks(paper: tuple[str, ...], laptop: tuple[str, ...], smoke: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    return {"paper": paper, "laptop": laptop, "smoke": smoke}


ONE_PER_SIZE = ("finger-spin", "fish-swim", "cheetah-run", "quadruped-run", "humanoid-stand", "dog-walk")
"""One task for each size of N from 2 to 38: they get more seeds than the others at laptop scale."""
_LAPTOP_TWO = ("cheetah-run", "quadruped-run")
_LAPTOP_WITH_DOG = ("cheetah-run", "dog-walk")
_SMOKE_TWO = ("finger-spin", "cheetah-run")
_SMOKE_ONE = ("finger-spin",)
_STOCHASTIC = _tasks(
    ("dog-walk", "dog-trot", "dog-run", "cheetah-run", "walker-run", "quadruped-run"), _LAPTOP_TWO, _SMOKE_TWO
)
_EQUAL_PRICE = _variant("decqn-wide", "laptop", algo="decqn", **EQUAL_PRICE)
"""Not like for like: one wide critic that costs as much as ten lean ones."""
_RECOMMENDED = _variant("lean", "laptop", algo="lean")
"""Not of the paper: what we recommend, ten lean critics without a regulariser that act by their mean."""

_TRAINED = (
    Experiment(
        name="main",
        title="REValueD, DecQN and BDQ on the control suite",
        source="Figure 'Performance for the Discretised DeepMind Control Suite tasks'",
        compares="Learning curves of REValueD, DecQN and BDQ on the 16 control-suite tasks with 3 bins.",
        variants=(*_presets("revalued", "decqn", "bdq"), _RECOMMENDED, _EQUAL_PRICE),
        tasks=_tasks(CONTROL_SUITE, CONTROL_SUITE, ("finger-spin", "walker-walk")),
        seeds={"laptop": dict.fromkeys(ONE_PER_SIZE, LAPTOP_MORE_SEEDS)},
    ),
    Experiment(
        name="bins",
        title="More sub-actions per dimension",
        source="Figures on increasing the size of each sub-action space, main text and appendix",
        compares="How REValueD, DecQN and BDQ cope with 3 to 100 choices per dimension.",
        variants=_presets("revalued", "decqn", "bdq"),
        tasks=_tasks(SELECTED, _LAPTOP_TWO, _SMOKE_ONE),
        settings=BINS,
        scale_settings={"laptop": _THREE_BINS, "smoke": _FEW_BINS},
    ),
    Experiment(
        name="regulariser",
        title="What the regularisation loss contributes",
        source="Table on the impact of the regularisation loss",
        compares="DecQN, DecQN with an ensemble, and REValueD, which adds the regulariser, on humanoid and dog.",
        variants=_presets("decqn", "decqn-ensemble", "revalued"),
        tasks=_tasks(HUMANOID_AND_DOG, ("dog-walk", "walker-walk", "humanoid-stand"), _SMOKE_TWO),
    ),
    Experiment(
        name="stochastic-reward",
        title="Noise on the rewards",
        source="Figures on stochastic environments, top rows, main text and appendix",
        compares="REValueD, DecQN and BDQ when rewards carry Gaussian noise of σ = 0.1.",
        variants=_presets("revalued", "decqn", "bdq"),
        tasks=_STOCHASTIC,
        settings=(REWARD_NOISE,),
    ),
    Experiment(
        name="stochastic-state",
        title="Noise on the states",
        source="Figures on stochastic environments, bottom rows, main text and appendix",
        compares="REValueD, DecQN and BDQ when observations carry Gaussian noise of σ = 0.1.",
        variants=_presets("revalued", "decqn", "bdq"),
        tasks=_STOCHASTIC,
        settings=(STATE_NOISE,),
    ),
    Experiment(
        name="ensemble-size",
        title="Size of the ensemble",
        source="Table of asymptotic results with varying ensemble size",
        compares="REValueD with K = 1, 3, 5, 10, 15 and 20 critics.",
        variants=(
            _ensemble(1),
            _ensemble(2, "smoke"),
            *(_ensemble(critics, "paper", "laptop") for critics in (3, 5, 10)),
            _ensemble(15, "paper"),
            _ensemble(20, "paper", "laptop"),
        ),
        tasks=_tasks(
            ("walker-run", "cheetah-run", "quadruped-run", "dog-walk", "dog-trot", "dog-run"),
            _LAPTOP_WITH_DOG,
            _SMOKE_TWO,
        ),
    ),
    Experiment(
        name="sum",
        title="Sum instead of mean",
        source="Figure comparing the sum value-decomposition",
        compares="REValueD and DecQN, whose Q-value is a mean of utilities, with DecQN-Sum, where it is their sum.",
        variants=_presets("revalued", "decqn", "decqn-sum"),
        tasks=_tasks(SELECTED, (*_LAPTOP_WITH_DOG, "quadruped-run"), _SMOKE_TWO),
    ),
    Experiment(
        name="wall-time",
        title="Wall time",
        source="Table comparing the wall time of DecQN and REValueD",
        compares="Minutes that DecQN and REValueD with 10 critics take for 500,000 interactions.",
        variants=(*_presets("decqn", "revalued"), _EQUAL_PRICE),
        tasks=_tasks(("walker-walk", "dog-walk"), ("walker-walk", "dog-walk"), ("walker-walk",)),
        overrides={"threads": None, "device": "auto"},
        scale_overrides={
            "paper": {"env_steps": PAPER_TIMED_ENV_STEPS},
            "laptop": {"env_steps": 15_000, "eval_every": 500, "device": "cpu"},
            "smoke": {"device": "cpu", "eval_every": 50},
        },
        paper_seeds=3,
        is_timed=True,
    ),
    Experiment(
        name="beta",
        title="Sensitivity to β",
        source="Table of asymptotic results with varying β",
        compares="REValueD with five strengths of the regulariser, from none (β = 0) to β = 1.",
        variants=tuple(_revalued(f"beta{beta:g}", beta=beta) for beta in (0.0, 0.25, 0.5, 0.75, 1.0)),
        tasks=_tasks(
            ("finger-spin", "walker-run", "cheetah-run", "quadruped-run", "dog-walk"), _LAPTOP_WITH_DOG, _SMOKE_ONE
        ),
    ),
    Experiment(
        name="stability",
        title="Stability of training",
        source="Figure on the conditional value at risk of the gradient norms",
        compares="How violently the gradient norm jumps from update to update, with and without an ensemble.",
        variants=_presets("decqn", "revalued"),
        tasks=_tasks(SELECTED, _LAPTOP_TWO, _SMOKE_TWO),
        overrides={"log_every": 1},
        measures_stability=True,
    ),
    Experiment(
        name="weight-function",
        title="Functional form of the regularisation weights",
        source="Figure comparing exponential and quadratic weights; temperatures, which the paper leaves open",
        compares="REValueD with exponential weights, with quadratic ones, and with temperatures c = 0.5, 2 and 5.",
        variants=(
            *_presets("revalued"),
            _revalued("quadratic", regulariser_weight="quadratic"),
            *(_revalued(f"c{c:g}", regulariser_temperature=c) for c in (0.5, 2.0, 5.0)),
        ),
        tasks=_tasks(SELECTED, _LAPTOP_TWO, _SMOKE_ONE),
    ),
    Experiment(
        name="regulariser-reduction",
        title="Sum or mean in the regulariser",
        source="Not in the paper: its equation adds up over dimensions",
        compares="REValueD whose regulariser adds up over dimensions, as printed, with one that averages.",
        variants=(*_presets("revalued"), _revalued("mean", regulariser_reduction="mean")),
        tasks=_tasks(SELECTED, (*_LAPTOP_WITH_DOG, "walker-walk"), _SMOKE_TWO),
    ),
    Experiment(
        name="ensemble-target",
        title="Max of the mean, or mean of the maxima",
        source="Not in the paper: its equation 5 and the proof of Theorem 2 use different targets",
        compares="REValueD that maximises the mean utilities (equation 5) with the mean of each critic's maximum.",
        variants=(*_presets("revalued"), _revalued("mean-of-max", ensemble_target="mean-of-max")),
        tasks=_tasks(SELECTED, _LAPTOP_WITH_DOG, _SMOKE_TWO),
    ),
    Experiment(
        name="metaworld",
        title="Robot arms: MetaWorld",
        source="Figure on manipulation tasks from MetaWorld",
        compares="REValueD and DecQN on manipulation tasks of MetaWorld.",
        variants=_presets("revalued", "decqn"),
        tasks=_tasks(METAWORLD, METAWORLD[:3], METAWORLD[:1]),
    ),
    Experiment(
        name="ensembled-baselines",
        title="Ensembles for the rivals too",
        source="Figure comparing BDQ+Ensemble and DecQN-Sum+Ensemble with varying bin sizes",
        compares="REValueD with BDQ and DecQN-Sum that have ensembles of the same size, from 3 to 100 bins.",
        variants=_presets("revalued", "bdq-ensemble", "decqn-sum-ensemble"),
        tasks=_tasks(("finger-spin", "fish-swim", "cheetah-run", "dog-walk"), _LAPTOP_TWO, _SMOKE_ONE),
        settings=BINS,
        scale_settings={"laptop": _FEW_BINS, "smoke": _FEW_BINS},
    ),
    Experiment(
        name="distributional",
        title="A distributional critic",
        source="Figure comparing DecQN-C51 and REValueD, all three rows",
        compares="REValueD with DecQN-C51, without noise, with noise on the rewards and with noise on the states.",
        variants=_presets("revalued", "decqn-c51"),
        tasks=_tasks(("cheetah-run", "walker-run", "quadruped-run", "dog-walk"), _LAPTOP_TWO, _SMOKE_ONE),
        settings=(Setting(), REWARD_NOISE, STATE_NOISE),
    ),
    Experiment(
        name="long-run",
        title="The end of a long run",
        source="Not in the paper by itself: what its claims about asymptotic returns rest on",
        compares="DecQN, DecQN with an ensemble, and REValueD on dog-walk, long after short runs have ended.",
        variants=_presets("decqn", "decqn-ensemble", "revalued"),
        tasks=_tasks(("dog-walk",), ("dog-walk",), _SMOKE_ONE),
        scale_overrides={"laptop": {"env_steps": LONG_ENV_STEPS}},
        seeds={"laptop": {"dog-walk": 1}},
    ),
    Experiment(
        name="confirmation",
        title="The recipe on tasks that it was not found on",
        source="Not in the paper: what the preset `lean` rests on, see the page on the recipe",
        compares="Ten lean critics with one that costs as much and was tuned as hard, and with the paper's DecQN.",
        variants=(
            *_presets("lean"),
            _variant("decqn-tuned", algo="decqn", normalise_observations=True, **EQUAL_PRICE),
            _variant("decqn-paper", algo="decqn", **PAPER_CRITIC),
        ),
        tasks=_tasks(CONFIRMING, CONFIRMING, _SMOKE_ONE),
        overrides={"eval_episodes": 3},
        scale_overrides={"laptop": {"env_steps": CONFIRMATION_ENV_STEPS}},
        seeds={"laptop": dict.fromkeys(CONFIRMING, CONFIRMATION_SEEDS)},
    ),
)

_COMPUTED = (
    ComputedExperiment(
        name="tabular",
        title="The regulariser in a table",
        source="Figure on the tabular FMDP",
        compares="How often the best last sub-action is chosen while others explore, with and without the regulariser.",
        function="revalued.experiments.tabular:tabular_rows",
    ),
    ComputedExperiment(
        name="theorems",
        title="Bias and variance of the targets",
        source="Lemma 1 and Theorems 1, 2 and 3",
        compares="Closed forms of the targets' bias and variance with Monte Carlo estimates.",
        function="revalued.experiments.theorems:theorem_rows",
    ),
)

EXPERIMENTS: dict[str, Experiment | ComputedExperiment] = {
    experiment.name: experiment for experiment in (*_TRAINED, *_COMPUTED)
}
"""All experiments by name."""


def dimensions_of(task: str) -> int | None:
    """Return how many action dimensions a task of the control suite has, None for others."""
    return DIMENSIONS.get(_without_setting(task).split("-")[0])


def place_of(task: str) -> int:
    """Return where the paper's table of environments has a task; all others come after it."""
    name = _without_setting(task)
    return CONTROL_SUITE.index(name) if name in CONTROL_SUITE else len(CONTROL_SUITE)


def _without_setting(task: str) -> str:
    return task.partition("@")[0].partition("+")[0]


def find_experiment(name: str) -> Experiment | ComputedExperiment:
    """Return the experiment of that name, or say which names come close."""
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS, hint="see revalued list experiments")
    return EXPERIMENTS[name]
