"""Experiments as data: labels, sizes of plans, and the configurations that follow."""

from __future__ import annotations

from typing import Any

import pytest

from revalued.algorithms.presets import starting_config
from revalued.config import TrainConfig, to_dict
from revalued.envs.suites.control_suite import BENCHMARK_TASKS
from revalued.errors import UserError
from revalued.experiments.catalogue import CONFIRMING, CONTROL_SUITE, EXPERIMENTS, ONE_PER_SIZE, find_experiment
from revalued.experiments.naming import Setting, TaskLabel, format_task, parse_task
from revalued.experiments.plan import Experiment, PlannedRun, plan, scale_note
from revalued.experiments.scales import (
    CONFIRMATION_ENV_STEPS,
    EQUAL_PRICE,
    LAPTOP_ENV_STEPS,
    LEAN,
    LONG_ENV_STEPS,
    PAPER_CRITIC,
    SCALES,
    find_scale,
)
from revalued.settings import places

TRAINED = [experiment for experiment in EXPERIMENTS.values() if isinstance(experiment, Experiment)]
NAMES = [
    "main", "bins", "regulariser", "stochastic-reward", "stochastic-state", "ensemble-size", "sum", "wall-time", "beta",
    "stability", "tabular", "weight-function", "regulariser-reduction", "ensemble-target", "metaworld",
    "ensembled-baselines", "distributional", "theorems", "long-run", "confirmation",
]  # fmt: skip


def names(runs: list[PlannedRun]) -> set[str]:
    return {run.variant for run in runs}


def flat_fields(config: TrainConfig) -> dict[str, object]:
    data = to_dict(config)
    return {
        **{name: data[name] for name in ("task", "algo")},
        **{name: _at(data, path) for name, path in places().items()},
    }


def _at(data: Any, path: tuple[str, ...]) -> object:
    for name in path:
        data = data[name]
    return data


def trained(name: str) -> Experiment:
    experiment = find_experiment(name)
    assert isinstance(experiment, Experiment)
    return experiment


def by_key(name: str, scale: str) -> dict[tuple[str, str, int], PlannedRun]:
    return {run.key: run for run in plan(trained(name), SCALES[scale])}


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("walker-walk", TaskLabel("walker-walk")),
        ("cheetah-run@30", TaskLabel("cheetah-run", Setting(30))),
        ("dog-run+reward-noise", TaskLabel("dog-run", Setting(reward_noise=0.1))),
        ("dog-run+state-noise0.25", TaskLabel("dog-run", Setting(state_noise=0.25))),
        ("fish-swim@10+reward-noise+state-noise1e-05", TaskLabel("fish-swim", Setting(10, 0.1, 1e-5))),
        ("metaworld:door-open-v3@5", TaskLabel("metaworld:door-open-v3", Setting(5))),
    ],
)
def test_labels_are_read_and_written(text: str, label: TaskLabel) -> None:
    assert parse_task(text) == label
    assert format_task(label) == text


@pytest.mark.parametrize("text", ["walker-walk@", "walker-walk@many", "walker-walk+noise", "a+reward-noise0.1.2", ""])
def test_labels_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        parse_task(text)


def test_every_experiment_is_there() -> None:
    assert sorted(EXPERIMENTS) == sorted(NAMES)
    assert CONTROL_SUITE == BENCHMARK_TASKS
    with pytest.raises(UserError, match="did you mean ensemble-size"):
        find_experiment("ensemble-sise")
    with pytest.raises(UserError, match="did you mean laptop"):
        find_scale("labtop")


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("main", 3 * 16 * 10),
        ("bins", 3 * 6 * 5 * 10),
        ("regulariser", 3 * 6 * 10),
        ("ensemble-size", 6 * 6 * 10),
        ("wall-time", 2 * 2 * 3),
        ("beta", 5 * 5 * 10),
        ("distributional", 2 * 4 * 3 * 10),
    ],
)
def test_sizes_of_the_papers_plans(name: str, runs: int) -> None:
    assert len(plan(trained(name), SCALES["paper"])) == runs


@pytest.mark.parametrize("experiment", TRAINED, ids=lambda experiment: experiment.name)
@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda scale: scale.name)
def test_every_plan_names_each_run_once(experiment: Experiment, scale: object) -> None:
    runs = plan(experiment, SCALES[scale.name])  # type: ignore[attr-defined]
    assert len({run.key for run in runs}) == len(runs)
    for run in runs:
        label = parse_task(run.task)
        config = run.config
        assert (config.task, config.bins, config.reward_noise, config.state_noise, config.seed) == (
            label.task, label.setting.bins, label.setting.reward_noise, label.setting.state_noise, run.seed,
        )  # fmt: skip


def test_the_papers_protocol_is_the_default_configuration() -> None:
    default = flat_fields(TrainConfig(task=""))
    runs = [run for run in plan(trained("main"), SCALES["paper"], 2) if run.variant == "revalued"]
    for run in runs:
        changed = {name for name, value in flat_fields(run.config).items() if value != default[name]}
        assert changed <= {"task", "seed", "env_steps", "threads"}
    assert {run.config.schedule.env_steps for run in runs} == {500_000, 1_000_000, 2_000_000}


def test_laptop_runs_differ_from_the_defaults_in_length_threads_and_a_lean_critic() -> None:
    runs = by_key("main", "laptop")
    expected = {"task": "walker-walk", "seed": 1, "env_steps": LAPTOP_ENV_STEPS, "threads": 1, "device": "cpu", **LEAN}
    default = flat_fields(TrainConfig(task=""))
    assert flat_fields(runs["revalued", "walker-walk", 1].config) == {**default, **expected}
    decqn = {"algo": "decqn", "critics": 1, "beta": 0.0}
    assert flat_fields(runs["decqn", "walker-walk", 1].config) == {**default, **expected, **decqn}
    wide = flat_fields(runs["decqn-wide", "walker-walk", 1].config)
    assert wide == {**default, **expected, **decqn, **EQUAL_PRICE}
    assert wide["normalise_observations"]
    lengths = {"wall-time": 15_000, "long-run": LONG_ENV_STEPS, "confirmation": CONFIRMATION_ENV_STEPS}
    for experiment in TRAINED:
        for run in plan(experiment, SCALES["laptop"]):
            assert run.config.schedule.env_steps == lengths.get(experiment.name, LAPTOP_ENV_STEPS)


def test_like_is_compared_with_like() -> None:
    """At laptop scale everything has the same critic, but for the variants that say so."""
    other = {"decqn-wide": EQUAL_PRICE, "decqn-tuned": EQUAL_PRICE, "decqn-paper": PAPER_CRITIC}
    for experiment in TRAINED:
        for run in plan(experiment, SCALES["laptop"]):
            learner = run.config.learner
            wanted = {**LEAN, **other.get(run.variant, {})}
            assert {name: getattr(learner, name) for name in wanted} == wanted, run.title
    assert not {run.variant for run in plan(trained("main"), SCALES["paper"], 1)} & {"decqn-wide", "lean"}


def test_lean_in_the_main_experiment_is_the_preset_that_people_train() -> None:
    run = by_key("main", "laptop")["lean", "walker-walk", 0]
    preset, found = (flat_fields(config) for config in (starting_config("walker-walk", "lean"), run.config))
    assert {name for name in preset if preset[name] != found[name]} == {"env_steps", "threads", "device"}


def test_seeds_at_laptop_scale() -> None:
    def seeds(name: str) -> dict[str, int]:
        found: dict[str, set[int]] = {}
        for run in plan(trained(name), SCALES["laptop"]):
            found.setdefault(run.task, set()).add(run.seed)
        return {task: len(numbers) for task, numbers in found.items()}

    main = seeds("main")
    assert list(main) == list(CONTROL_SUITE)
    assert {task for task, count in main.items() if count == 3} == set(ONE_PER_SIZE)
    assert {count for task, count in main.items() if task not in ONE_PER_SIZE} == {2}
    assert seeds("long-run") == {"dog-walk": 1}
    assert seeds("confirmation") == dict.fromkeys(CONFIRMING, 5)
    assert {count for name in ("bins", "beta", "metaworld") for count in seeds(name).values()} == {2}
    assert len(plan(trained("main"), SCALES["laptop"], 3)) == 3 * 5 * 16  # those who ask get what they ask for


def test_ablations_at_laptop_scale_have_a_task_with_many_dimensions() -> None:
    few = {"metaworld"}  # all of its tasks have four
    large = ("quadruped", "humanoid", "dog")
    for experiment in TRAINED:
        if experiment.name not in few:
            assert any(task.startswith(large) for task in experiment.tasks["laptop"]), experiment.name


def test_ensembles_by_scale() -> None:
    def critics(name: str, scale: str) -> list[int]:
        return sorted({run.config.algorithm.critics for run in plan(trained(name), SCALES[scale])})

    assert critics("ensemble-size", "paper") == [1, 3, 5, 10, 15, 20]
    assert critics("ensemble-size", "laptop") == [1, 3, 5, 10, 20]
    assert critics("regulariser", "paper") == [1, 10]
    assert critics("regulariser", "laptop") == [1, 10]
    assert critics("regulariser", "smoke") == [1, 2]
    assert critics("wall-time", "laptop") == [1, 10]


def test_timed_runs_have_all_cores_and_rows_to_measure_between() -> None:
    for run in plan(trained("wall-time"), SCALES["laptop"]):
        schedule = run.config.schedule
        assert run.config.execution.threads is None
        updates = schedule.updates_paid(schedule.env_steps)
        assert updates // schedule.eval_every >= 4


def test_stability_logs_every_update() -> None:
    assert {run.config.schedule.log_every for run in plan(trained("stability"), SCALES["laptop"])} == {1}


def test_chosen_tasks_have_the_settings_of_the_experiment_unless_they_say_which() -> None:
    def tasks(name: str, *chosen: str) -> list[str]:
        return list(dict.fromkeys(run.task for run in plan(trained(name), SCALES["laptop"], 1, chosen)))

    assert tasks("bins", "reacher-hard") == [f"reacher-hard{at}" for at in ("", "@30", "@100")]
    assert tasks("bins", "reacher-hard@30") == ["reacher-hard@30"]
    assert tasks("bins", "reacher-hard@3") == ["reacher-hard"]
    assert tasks("stochastic-state", "fish-swim") == ["fish-swim+state-noise"]


def test_every_comparison_has_its_first_seed_before_any_has_its_second() -> None:
    seeds = [run.seed for run in plan(trained("main"), SCALES["laptop"])]
    assert seeds == sorted(seeds)
    assert set(seeds) == {0, 1, 2}


def test_the_note_says_what_differs_from_the_paper() -> None:
    runs = plan(trained("ensemble-size"), SCALES["laptop"])
    note = scale_note(
        trained("ensemble-size"), SCALES["laptop"], runs, [0, 1, 2], [run.task for run in runs], names(runs)
    )
    assert "150,000 interactions per run (paper: 500,000 to 2,000,000, our reading" in note
    assert "3 seeds (paper: 10)" in note
    assert "critics 160 wide (paper: 512); learning rate 0.001 (paper: 0.0001); observations normalised" in note
    assert "without revalued-k15, walker-run, quadruped-run, dog-trot, dog-run" in note
    runs = plan(trained("main"), SCALES["laptop"])
    note = scale_note(trained("main"), SCALES["laptop"], runs, [0, 1, 2], [run.task for run in runs], names(runs))
    assert "2 to 3 seeds (paper: 10)" in note
    assert "observations normalised (paper: not); other critics, named by the variant: decqn-wide." in note
    assert "without" not in note
    runs = plan(trained("main"), SCALES["smoke"])
    note = scale_note(trained("main"), SCALES["smoke"], runs, [0], [run.task for run in runs], names(runs))
    assert "ensembles of 2 critics" in note
    assert "the returns mean nothing" in note
    runs = plan(trained("wall-time"), SCALES["laptop"])
    note = scale_note(trained("wall-time"), SCALES["laptop"], runs, [0, 1, 2], [run.task for run in runs], names(runs))
    assert "15,000 interactions per run (paper: 500,000)" in note
    assert "one run at a time with all cores" in note
    assert "every 500 updates (paper: 1,000)" in note
