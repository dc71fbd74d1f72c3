"""The configuration: presets, what is refused and why, and its way to JSON and back."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from revalued.algorithms.presets import PRESETS, preset, starting_config
from revalued.config import AlgorithmConfig, TrainConfig, from_dict, to_dict
from revalued.errors import UserError
from revalued.validation import validate

CONFIG = TrainConfig("walker-walk")

# name: decomposition, head, critics, beta, double_q
TABLE: dict[str, tuple[str, str, int, float, bool]] = {
    "decqn": ("mean", "utilities", 1, 0.0, False),
    "decqn-ensemble": ("mean", "utilities", 10, 0.0, False),
    "revalued": ("mean", "utilities", 10, 0.5, False),
    "decqn-sum": ("sum", "utilities", 1, 0.0, False),
    "decqn-sum-ensemble": ("sum", "utilities", 10, 0.0, False),
    "bdq": ("branch", "dueling", 1, 0.0, True),
    "bdq-ensemble": ("branch", "dueling", 10, 0.0, True),
    "decqn-c51": ("logit-mean", "categorical", 1, 0.0, False),
    "dqn": ("atomic", "utilities", 1, 0.0, False),
    "lean": ("mean", "utilities", 10, 0.0, False),
}


@pytest.mark.parametrize("name", TABLE)
def test_preset(name: str) -> None:
    found = preset(name)
    assert (found.decomposition, found.head, found.critics, found.beta, found.double_q) == TABLE[name]
    # what the presets do not differ in
    assert found.ensemble_target == "max-of-mean"
    assert (found.regulariser_weight, found.regulariser_temperature) == ("exponential", 1.0)
    assert (found.regulariser_reduction, found.n_step, found.discount) == ("sum", 3, 0.99)
    assert (found.atoms, found.value_min, found.value_max) == (101, None, None)
    assert (found.target_critics, found.categorical_target) == (None, "distribution")
    validate(replace(CONFIG, algo=name, algorithm=found))


def test_there_are_no_other_presets() -> None:
    assert set(PRESETS) == set(TABLE)
    assert all(entry.summary for entry in PRESETS.values())


def test_only_lean_changes_more_than_the_algorithm() -> None:
    for name in PRESETS:
        found = starting_config("walker-walk", name)
        assert found.algorithm == preset(name)
        plain = replace(CONFIG, task="walker-walk", algo=name, algorithm=preset(name))
        assert (found == plain) == (name != "lean")
    lean = starting_config("walker-walk", "lean")
    validate(lean)
    assert (lean.learner.hidden_size, lean.learner.learning_rate) == (160, 1e-3)
    assert lean.learner.normalise_observations
    assert lean.exploration.act_with == "ensemble-mean"


def test_the_defaults_are_the_papers() -> None:
    assert CONFIG.algorithm == preset("revalued")
    validate(CONFIG)
    assert dataclasses.asdict(CONFIG.learner) == {
        "hidden_size": 512,
        "learning_rate": 1e-4,
        "batch_size": 256,
        "gradient_clip": 40.0,
        "target_update_rate": 0.005,
        "weight_decay": 0.0,
        "normalise_observations": False,
        "reward_scale": 1.0,
        "torso": "plain",
        "blocks": 1,
    }
    assert dataclasses.asdict(CONFIG.exploration) == {
        "exploration": "joint",
        "epsilon_min": 0.05,
        "epsilon_decay": 0.99995,
        "epsilon_schedule": "interactions",
        "act_with": "critic-per-step",
    }
    replay, schedule = CONFIG.replay, CONFIG.schedule
    assert (replay.replay_capacity, replay.prioritised) == (500_000, True)
    assert (replay.priority_exponent, replay.importance_exponent) == (0.6, 0.2)
    assert (schedule.update_ratio, schedule.warmup_env_steps) == (Fraction(1, 5), 5_000)
    assert (schedule.eval_every, schedule.eval_episodes, CONFIG.bins) == (1_000, 1, 3)


def test_an_unknown_preset_is_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"unknown algorithm 'revalue': did you mean revalued"):
        preset("revalue")
    with pytest.raises(UserError, match=r"did you mean decqn-c51"):
        preset("decqn-c15")


@pytest.mark.parametrize(
    "changes",
    [
        {"critics": 5, "double_q": True},
        {"ensemble_target": "mean-of-max", "double_q": True, "regulariser_weight": "quadratic"},
        {"decomposition": "sum"},
        {"decomposition": "branch"},
        {"decomposition": "branch", "head": "dueling"},
        {"head": "dueling", "beta": 0.0},
        {"decomposition": "atomic", "head": "dueling"},
        {"decomposition": "atomic", "head": "categorical", "beta": 0.0},
        {"decomposition": "logit-mean", "head": "categorical", "beta": 0.0, "value_min": -1.0, "value_max": 0.0},
        {"discount": 1.0},
        {"discount": 0.0},
    ],
)
def test_legal_combinations(changes: dict[str, Any]) -> None:
    validate(replace(CONFIG, algorithm=replace(CONFIG.algorithm, **changes)))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"critics": 0}, "critics = 0 is not possible: it must be at least 1"),
        ({"beta": -0.1}, "beta = -0.1 is not possible: it must be at least 0"),
        ({"beta": float("nan")}, "beta = nan"),
        ({"beta": float("inf")}, "beta = inf"),
        ({"regulariser_temperature": 0.0}, "regulariser_temperature = 0.0 .* above 0"),
        ({"n_step": 0}, "n_step = 0 .* at least 1"),
        ({"discount": 1.01}, "discount = 1.01 .* between 0 and 1"),
        ({"discount": -0.5}, "discount = -0.5 .* between 0 and 1"),
        ({"decomposition": "product"}, "unknown decomposition 'product': .*revalued.register_decomposition"),
        ({"decomposition": "logit-mean"}, "averages the logits .* but the utilities head has none: use --head categ"),
        ({"decomposition": "logit-mean", "head": "dueling"}, "but the dueling head has none"),
        ({"head": "categorical", "beta": 0.0}, "which decomposition mean cannot combine: use --decomposition logit-m"),
        ({"head": "categorical", "beta": 0.0, "decomposition": "sum"}, "which decomposition sum cannot combine"),
        ({"head": "categorical", "beta": 0.0, "decomposition": "branch"}, "which decomposition branch cannot combine"),
        ({"head": "categorical", "decomposition": "logit-mean"}, "regulariser acts on utilities.* use --beta 0"),
        ({"head": "categorical", "decomposition": "atomic"}, "regulariser acts on utilities.* use --beta 0"),
    ],
)
def test_illegal_algorithms_are_refused_with_the_reason(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        validate(replace(CONFIG, algorithm=replace(CONFIG.algorithm, **changes)))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"atoms": 1}, "atoms = 1 .* at least 2"),
        ({"value_min": 1.0, "value_max": 1.0}, "value_min 1.0 must lie below value_max 1.0"),
        ({"value_min": 5.0, "value_max": 0.0}, "value_min 5.0 must lie below value_max 0.0"),
    ],
)
def test_impossible_supports_are_refused(changes: dict[str, Any], reason: str) -> None:
    validate(replace(CONFIG, algorithm=replace(preset("decqn"), **changes)))  # which has no support
    with pytest.raises(UserError, match=reason):
        validate(replace(CONFIG, algorithm=replace(preset("decqn-c51"), **changes)))


@pytest.mark.parametrize(
    ("section", "changes", "reason"),
    [
        ("", {"seed": -1}, "seed = -1 .* at least 0"),
        ("", {"bins": 1}, "bins = 1 .* at least 2"),
        ("learner", {"hidden_size": 0}, "hidden_size = 0 .* at least 1"),
        ("learner", {"batch_size": 0}, "batch_size = 0 .* at least 1"),
        ("learner", {"learning_rate": 0.0}, "learning_rate = 0.0 .* above 0"),
        ("learner", {"learning_rate": float("nan")}, "learning_rate = nan"),
        ("learner", {"gradient_clip": 0.0}, "gradient_clip = 0.0 .* above 0"),
        ("learner", {"target_update_rate": 0.0}, "target_update_rate = 0.0 .* above 0 and at most 1"),
        ("learner", {"target_update_rate": 1.5}, "target_update_rate = 1.5 .* above 0 and at most 1"),
        ("exploration", {"epsilon_min": -0.1}, "epsilon_min = -0.1 .* between 0 and 1"),
        ("exploration", {"epsilon_min": 1.1}, "epsilon_min = 1.1 .* between 0 and 1"),
        ("exploration", {"epsilon_decay": 0.0}, "epsilon_decay = 0.0 .* above 0 and at most 1"),
        ("exploration", {"epsilon_decay": 1.1}, "epsilon_decay = 1.1 .* above 0 and at most 1"),
        # 5 lanes of n_step + 4 = 7
        ("replay", {"replay_capacity": 34}, "replay_capacity = 34 .* at least 35"),
        ("replay", {"priority_exponent": -1.0}, "priority_exponent = -1.0"),
        ("replay", {"importance_exponent": -1.0}, "importance_exponent = -1.0"),
        ("replay", {"priority_exponent": 1.5}, "priority_exponent = 1.5"),
        ("replay", {"importance_exponent": 1.5}, "importance_exponent = 1.5"),
        ("schedule", {"env_steps": 0}, "env_steps = 0 .* at least 1"),
        ("schedule", {"num_envs": 0}, "num_envs = 0 .* at least 1"),
        ("schedule", {"updates_per_env_step": 0.01}, "updates_per_env_step = 0.01 .* between 0.05 and 8"),
        ("schedule", {"warmup_env_steps": -1}, "warmup_env_steps = -1 .* at least 0"),
        ("schedule", {"eval_every": 0}, "eval_every = 0 .* at least 1"),
        ("schedule", {"eval_episodes": 0}, "eval_episodes = 0 .* at least 1"),
        ("schedule", {"log_every": 0}, "log_every = 0 .* at least 1"),
        ("execution", {"workers": -1}, "workers = -1 .* at least 0"),
        ("execution", {"workers": 6}, "workers = 6 .* at most num_envs = 5"),
        ("execution", {"threads": 0}, "threads = 0 .* at least 1"),
        ("execution", {"checkpoint_every": 0}, "checkpoint_every = 0 .* at least 1"),
    ],
)
def test_impossible_settings_are_refused_with_the_reason(section: str, changes: dict[str, Any], reason: str) -> None:
    outer = {section: replace(getattr(CONFIG, section), **changes)} if section else changes
    with pytest.raises(UserError, match=reason):
        validate(replace(CONFIG, **outer))


def test_the_limits_themselves_are_possible() -> None:
    validate(
        replace(
            CONFIG,
            bins=2,
            learner=replace(CONFIG.learner, hidden_size=1, batch_size=1, target_update_rate=1.0),
            exploration=replace(CONFIG.exploration, epsilon_min=1.0, epsilon_decay=1.0),
            replay=replace(CONFIG.replay, replay_capacity=35, priority_exponent=0.0, importance_exponent=1.0),
            schedule=replace(CONFIG.schedule, env_steps=1, warmup_env_steps=0),
            execution=replace(CONFIG.execution, workers=5, threads=1),
        )
    )


@pytest.mark.parametrize("name", PRESETS)
def test_round_trip_through_json(name: str) -> None:
    config = replace(
        CONFIG,
        algo=name,
        seed=7,
        algorithm=replace(preset(name), value_min=-1.5, n_step=1),
        execution=replace(CONFIG.execution, threads=2, device="cpu"),
    )
    data = to_dict(config)
    assert data["algorithm"]["value_min"] == -1.5
    assert from_dict(data) == config
    assert from_dict(json.loads(json.dumps(data))) == config


def changed(path: str, value: object) -> dict[str, Any]:
    """Return the plain dictionaries of a configuration with one entry set."""
    data = to_dict(CONFIG)
    inside = data
    *sections, name = path.split(".")
    for section in sections:
        inside = inside[section]
    inside[name] = value
    return data


@pytest.mark.parametrize(
    ("path", "nearest"),
    [("sede", "seed"), ("algorithm.critic", "algorithm.critics"), ("learner.batchsize", "learner.batch_size")],
)
def test_unknown_entries_are_answered_with_the_nearest(path: str, nearest: str) -> None:
    with pytest.raises(UserError, match=rf"unknown configuration entry '{path}': did you mean .*{nearest}"):
        from_dict(changed(path, 1))


@pytest.mark.parametrize("path", ["reward_noise", "schedule", "algorithm.beta", "replay.prioritised"])
def test_missing_entries_of_an_older_version_take_their_defaults(path: str) -> None:
    data = to_dict(TrainConfig(task="walker-walk"))
    *sections, name = path.split(".")
    del (data[sections[0]] if sections else data)[name]
    assert from_dict(data) == TrainConfig(task="walker-walk")


def test_a_setting_that_is_gone_is_read_if_it_changed_nothing() -> None:
    """Older versions wrote the precision of matrix products; all but one value would need what is no longer there."""
    data = to_dict(TrainConfig("toy-levers"))
    data["execution"]["matmul_precision"] = "highest"
    assert from_dict(data) == TrainConfig("toy-levers")
    assert "matmul_precision" in data["execution"], "what was handed over is left alone"
    data["execution"]["matmul_precision"] = "high"
    with pytest.raises(UserError, match=r"execution\.matmul_precision = 'high' is not possible any more"):
        from_dict(data)


def test_a_task_must_be_named() -> None:
    data = to_dict(CONFIG)
    del data["task"]
    with pytest.raises(UserError, match="configuration entry 'task' is missing"):
        from_dict(data)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("seed", "0"),
        ("seed", 0.5),
        ("seed", True),
        ("task", None),
        ("algorithm.beta", "0.5"),
        ("algorithm.beta", False),
        ("algorithm.beta", None),
        ("algorithm.critics", 10.0),
        ("algorithm.double_q", 1),
        ("algorithm.decomposition", 3),
        ("algorithm.value_min", "low"),
        ("exploration.exploration", ["joint"]),
        ("execution.threads", 1.5),
    ],
)
def test_mistyped_entries_are_refused(path: str, value: object) -> None:
    with pytest.raises(UserError, match=rf"configuration entry '{path}' has the wrong type: "):
        from_dict(changed(path, value))


def test_a_section_must_be_an_object() -> None:
    with pytest.raises(UserError, match=r"'learner\.?' must be an object"):
        from_dict(changed("learner", 3))


def test_whole_numbers_and_nothing_pass_where_they_make_sense() -> None:
    assert from_dict(changed("algorithm.beta", 1)).algorithm.beta == 1
    assert from_dict(changed("execution.threads", None)).execution.threads is None
    assert from_dict(changed("algorithm.value_max", 3)).algorithm.value_max == 3


def test_configurations_cannot_be_changed_in_place() -> None:
    algorithm: Any = AlgorithmConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        algorithm.critics = 3


def test_the_older_way_to_say_how_often_to_update_is_understood() -> None:
    data = to_dict(TrainConfig("walker-walk"))
    del data["schedule"]["updates_per_env_step"]
    data["schedule"]["env_steps_per_update"] = 3
    schedule = from_dict(data).schedule
    assert schedule.update_ratio == Fraction(1, 3)
    assert [schedule.updates_paid(n) for n in (0, 5_000, 5_002, 5_003, 5_300)] == [0, 0, 0, 1, 100]
    data["schedule"]["env_steps_per_update"] = 0
    with pytest.raises(UserError, match="env_steps_per_update"):
        from_dict(data)


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("learner", {"weight_decay": -1.0}, "weight_decay = -1.0 .* at least 0"),
        ("learner", {"weight_decay": 1e4}, "below 1 / learning_rate"),
        ("learner", {"target_update_rate": 0.0}, "above 0 and at most 1, or auto"),
        ("schedule", {"updates_per_env_step": 9.0}, "between 0.05 and 8"),
        ("schedule", {"updates_per_env_step": float("nan")}, "between 0.05 and 8"),
    ],
)
def test_settings_of_the_recipe_that_cannot_work(part: str, change: dict[str, Any], message: str) -> None:
    config = TrainConfig("walker-walk")
    with pytest.raises(UserError, match=message):
        validate(replace(config, **{part: replace(getattr(config, part), **change)}))


NUMBERS = [
    (section, name, value)
    for section, settings in {"": to_dict(CONFIG), **to_dict(CONFIG)}.items()
    if isinstance(settings, dict)
    for name, value in settings.items()
    if isinstance(value, int | float) and not isinstance(value, bool)
]


@pytest.mark.parametrize(("section", "name", "value"), NUMBERS)
def test_numbers_that_no_file_could_hold_are_refused(section: str, name: str, value: float) -> None:
    changes = {name: math.inf if isinstance(value, float) else 10**20}
    outer = {section: replace(getattr(CONFIG, section), **changes)} if section else changes
    with pytest.raises(UserError, match="is not possible"):
        validate(replace(CONFIG, **outer))
