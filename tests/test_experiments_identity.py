"""Which runs are the same run: names of folders must never change silently, or finished runs would be repeated."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from revalued.algorithms.presets import preset
from revalued.config import ExecutionConfig, ScheduleConfig, TrainConfig, to_dict
from revalued.errors import UserError
from revalued.experiments.catalogue import EXPERIMENTS
from revalued.experiments.plan import Experiment, plan
from revalued.experiments.run_folders import check_same_run, run_hash, run_path, significant_entries
from revalued.experiments.scales import LAPTOP_ENV_STEPS, LEAN, SCALES
from revalued.run.folder import RunFolder
from run_helpers import evolve

DECQN = TrainConfig(
    task="walker-walk",
    algo="decqn",
    algorithm=preset("decqn"),
    schedule=ScheduleConfig(env_steps=120_000),
    execution=ExecutionConfig(threads=1, device="cpu"),
)
"""As `revalued train walker-walk --algo decqn --env-steps 120000 --threads 1 --device cpu` has it."""


def test_the_hash_of_a_known_run() -> None:
    main = EXPERIMENTS["main"]
    assert isinstance(main, Experiment)
    (planned,) = [run for run in plan(main, SCALES["laptop"]) if run.key == ("decqn", "walker-walk", 0)]
    assert planned.config == evolve(DECQN, env_steps=LAPTOP_ENV_STEPS, **LEAN)
    assert run_hash(DECQN) == "7c14b792"
    assert run_path(Path("out"), DECQN) == Path("out/runs/walker-walk/decqn-seed0-7c14b792")


def test_the_defaults_that_hashes_stand_on() -> None:
    """What equals the default is not hashed, so a changed default would make old and new runs look the same."""
    data = to_dict(TrainConfig(task=""))
    assert {name: data[name] for name in ("bins", "seed", "action_repeat", "reward_noise", "state_noise")} == {
        "bins": 3, "seed": 0, "action_repeat": 1, "reward_noise": 0.0, "state_noise": 0.0,
    }  # fmt: skip
    expected: dict[str, dict[str, object]] = {
        "algorithm": {
            "decomposition": "mean", "head": "utilities", "critics": 10, "beta": 0.5,
            "regulariser_weight": "exponential", "regulariser_temperature": 1.0, "regulariser_reduction": "sum",
            "double_q": False, "ensemble_target": "max-of-mean", "target_critics": None, "n_step": 3,
            "discount": 0.99, "atoms": 101, "categorical_target": "distribution", "value_min": None, "value_max": None,
        },
        "learner": {
            "hidden_size": 512, "learning_rate": 1e-4, "batch_size": 256, "gradient_clip": 40.0,
            "target_update_rate": 0.005, "torso": "plain", "blocks": 1,
        },
        "exploration": {
            "exploration": "joint", "epsilon_min": 0.05, "epsilon_decay": 0.99995,
            "epsilon_schedule": "interactions", "act_with": "critic-per-step",
        },
        "replay": {
            "replay_capacity": 500_000, "prioritised": True, "priority_exponent": 0.6, "importance_exponent": 0.2,
        },
        "schedule": {
            "env_steps": 500_000, "num_envs": 5, "updates_per_env_step": 0.2, "warmup_env_steps": 5_000,
            "eval_every": 1_000, "eval_episodes": 1, "log_every": 200,
        },
        "execution": {"threads": None, "device": "auto", "compile": False},
    }  # fmt: skip
    for section, values in expected.items():
        assert {name: data[section][name] for name in values} == values


@pytest.mark.parametrize("changes", [{"workers": 3}, {"checkpoint_every": 7}, {"algo": "revalued"}])
def test_what_never_changes_results_is_not_hashed(changes: dict[str, Any]) -> None:
    assert run_hash(evolve(DECQN, **changes)) == run_hash(DECQN)


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"task": "walker-run"},
        {"threads": 2},
        {"bins": 5},
        {"env_steps": 1},
        {"beta": 0.1},
        {"log_every": 1},
    ],
)
def test_whatever_else_differs_makes_another_run(changes: dict[str, Any]) -> None:
    assert run_hash(evolve(DECQN, **changes)) != run_hash(DECQN)


def test_later_fields_and_integers_for_floats_change_nothing() -> None:
    data = json.loads(json.dumps(to_dict(DECQN)))
    del data["execution"]["compile"], data["exploration"]  # as written by a version that lacked them
    assert run_hash(data) == run_hash(DECQN)
    one, same = (evolve(DECQN, beta=beta) for beta in (1, 1.0))
    assert run_hash(one) == run_hash(same)
    assert significant_entries(one)["algorithm.beta"] == 1.0


def test_a_run_is_found_under_another_presets_name(tmp_path: Path) -> None:
    ensemble = evolve(DECQN, algo="decqn-ensemble", critics=3)
    unregularised = evolve(DECQN, algo="revalued", critics=3, beta=0.0)
    assert run_path(tmp_path, ensemble).name.startswith("decqn-ensemble-seed0-")
    RunFolder.create(run_path(tmp_path, ensemble), ensemble)
    assert run_path(tmp_path, unregularised) == run_path(tmp_path, ensemble)


def test_names_of_tasks_become_names_of_folders() -> None:
    path = run_path(Path("out"), replace(DECQN, task="gym:my/env:Thing-v0"))
    assert path.parent == Path("out/runs/gym-my-env-Thing-v0")


def test_a_folder_that_holds_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    RunFolder.create(path, evolve(DECQN, seed=3, workers=2))
    with pytest.raises(UserError, match="another run than its name says: seed differ"):
        check_same_run(path, DECQN)
    check_same_run(path, evolve(DECQN, seed=3))


def test_what_a_plan_leaves_to_the_machine_may_be_settled_there(tmp_path: Path) -> None:
    path = tmp_path / "run"
    RunFolder.create(path, DECQN)
    check_same_run(path, evolve(DECQN, threads=None, device="auto"))
    with pytest.raises(UserError, match=r"execution\.threads"):
        check_same_run(path, evolve(DECQN, threads=2))
