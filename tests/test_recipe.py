"""The tables of the search for a recipe are those of its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tyro
from benchmarks.confirmation import (
    CANDIDATES,
    FEWEST_SEEDS,
    confirmation_summary,
    confirmation_table,
    confirmed,
    problem_table,
)
from benchmarks.pace import flags_of
from benchmarks.recipe import INGREDIENTS, PAGES, front_table, ingredients_table, renewed, with_confirmation
from benchmarks.recipe_runs import FOLDER, FRONT, Episode, Scores, changed_settings, collect, scores

from compare_helpers import comparison_folder, row
from revalued.algorithms.presets import starting_config
from revalued.cli import main
from revalued.cli.parsing import parse
from revalued.cli.train import TrainArguments
from revalued.compare.result_table import RunKey
from revalued.experiments.catalogue import CONFIRMING as TASKS
from revalued.experiments.catalogue import find_experiment
from revalued.experiments.naming import parse_task
from revalued.experiments.plan import Experiment, plan, run_config
from revalued.experiments.scales import SCALES
from revalued.settings import configure


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_figure_on_a_page_is_typed_by_hand(page: Path) -> None:
    text = page.read_text()
    assert "<!-- recipe: " in text
    assert text == renewed(text)


def test_a_score_is_the_mean_of_the_last_15_000_interactions(tmp_path: Path) -> None:
    rows = ["experiment,variant,task,seed,updates,env_steps,return,wall_s"]
    rows += [f"recipe,a,walker-walk,3,{i},{i * 5_000 - 5},{i},1.0" for i in range(1, 12)]
    (tmp_path / "results.csv").write_text("\n".join(rows))
    assert scores(tmp_path / "results.csv") == {("walker-walk", "a"): {50_000: {3: 9.0}}}  # of 8, 9 and 10


def test_the_front_table_has_a_dash_where_there_is_no_run() -> None:
    lean, tuned, paper = FRONT.values()
    found: Scores = {("a", lean): {100_000: {0: 2.0, 1: 4.0}}, ("a", tuned): {100_000: {0: 7.0}}}
    found |= {("b", tuned): {100_000: {0: 7.0}}, ("b", paper): {100_000: {0: 1.0}}}
    found |= {("c", lean): {100_000: {0: 9.0}}}  # nothing to compare it with: no column
    lines = front_table(found).splitlines()
    assert lines[2] == "| `lean` | **3** (2, 4) | – |"
    assert lines[3].endswith("| **7** (7) | **7** (7) |")


def test_an_ingredient_has_the_means_with_it_and_without_it() -> None:
    _, _, with_it, without = INGREDIENTS[0]
    found: Scores = {("a", with_it): {100_000: {0: 2.0, 1: 4.0}}, ("a", without): {100_000: {0: 7.0}}}
    found["b", with_it] = {100_000: {0: 5.0}}  # nothing to compare it with
    assert ingredients_table(found).splitlines()[2].endswith("| 3 / 7 (2, 1) |  |")


def test_the_search_goes_back_to_a_confirming_task() -> None:
    lean, tuned = (FRONT[name] for name in list(CANDIDATES)[:2])
    confirmed: Scores = {(task, CANDIDATES["`lean`"]): {100_000: {0: 2.0}} for task in "ab"}
    confirmed["a", CANDIDATES["DecQN, tuned"]] = {100_000: {0: 1.0}}
    found: Scores = {("a", "other"): {100_000: {0: 3.0}}, ("a", tuned): {100_000: {0: 4.0}}}
    assert with_confirmation(found, confirmed) == found | {("a", lean): {100_000: {0: 2.0}}}


def test_every_ingredient_names_variants_that_were_run() -> None:
    known = {variant for _, variant in scores()}
    assert {each for *_, with_it, without in INGREDIENTS for each in (with_it, without)} <= known


def test_the_settings_are_what_differs_from_the_preset() -> None:
    config = configure("toy-levers", "decqn", {"learning_rate": 0.5, "env_steps": 7, "workers": 1})
    assert changed_settings(config) == {"algo": "decqn", "learning_rate": 0.5}


def test_finished_runs_are_added_once(tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text((FOLDER / "results.csv").read_text().splitlines()[0] + "\n")
    (tmp_path / "variants.json").write_text("{}")
    run = tmp_path / "runs" / "quick" / "toy-levers" / "seed5"
    flags = "--algo decqn --hidden-size 16 --batch-size 8 --env-steps 200 --warmup-env-steps 50 --eval-every 10"
    assert main(["train", "toy-levers", "--seed", "5", *flags.split(), "--out", str(run), "--quiet"]) == 0
    assert [collect(tmp_path / "runs", tmp_path) for _ in range(2)] == [1, 0]
    rows = (tmp_path / "results.csv").read_text().splitlines()[1:]
    assert len(rows) == 3
    assert rows[0].startswith("recipe,quick,toy-levers,5,10,")
    settings = json.loads((tmp_path / "variants.json").read_text())["quick"]["settings"]
    assert settings["hidden_size"] == 16


def run(values: dict[int, float]) -> list[Episode]:
    """A run that got its values from so many thousand interactions on."""
    steps = range(5, 101, 5)
    return [Episode(1000 * k, max((at, v) for at, v in values.items() if at <= k)[1]) for k in steps]


def test_the_confirmation_compares_at_equal_interactions_and_in_equal_time() -> None:
    lean, tuned, paper = CANDIDATES.values()
    of = {
        (TASKS[0], lean): {seed: run({0: 100, 60: 900}) for seed in range(5)},
        (TASKS[0], tuned): {seed: run({0: 100, 90: 300}) for seed in range(5)},
        (TASKS[0], paper): {seed: run({0: 50}) for seed in range(5)},
        (TASKS[1], lean): {seed: run({0: 1000}) for seed in range(5)},  # nobody else was there
    }
    paces = {(TASKS[0], lean): 1.0, (TASKS[0], tuned): 2.0, (TASKS[0], paper): 1.5}
    names = list(CANDIDATES)
    everywhere = {name: dict.fromkeys(range(5), value) for name, value in zip(names, (900, 300, 50), strict=True)}
    assert confirmed(of) == {TASKS[0]: everywhere}
    assert confirmed(of, paces) == {TASKS[0]: {**everywhere, names[0]: dict.fromkeys(range(5), 100)}}
    said = confirmation_table(of, paces)
    assert (
        f"{names[0]} against {names[1]}: +600 [+600, +600] in the interquartile mean over 1 tasks; "
        "its mean is higher on 1 of 1, told apart on 1." in said
    )
    assert f"{names[0]} against {names[1]}: -200 [-200, -200]" in said
    assert "not measured yet" in confirmation_table(of, {})
    summary = confirmation_summary(of)
    assert summary.startswith(
        "On 1 of 6 tasks that the search never looked at, after 100,000 interactions, with 5 seeds each:"
    )
    assert f"{names[0]} against {names[1]}: +600 [+600, +600]" in summary
    assert "-200" not in summary
    assert confirmation_summary({}).startswith("It has not been confirmed")


def test_two_candidates_are_compared_with_all_seeds_that_each_has() -> None:
    of = {(TASKS[0], variant): {seed: run({0: seed}) for seed in range(5)} for variant in CANDIDATES.values()}
    of[TASKS[0], "decqn-paper"] = {seed: run({0: 10 - seed}) for seed in (1, 2, 3)}
    assert {name: list(values) for name, values in confirmed(of)[TASKS[0]].items()} == dict(
        zip(CANDIDATES, ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [1, 2, 3]), strict=True)
    )
    said = confirmation_table(of, {})
    assert f"| {TASKS[0]} (3 to 5 seeds) |" in said
    assert "against DecQN, the paper's settings: -6 [" in said  # 2 and 8
    assert "with 3 to 5 seeds each (5 are planned):" in confirmation_summary(of)
    assert FEWEST_SEEDS == 2
    for seed in (2, 3):
        del of[TASKS[0], "decqn-paper"][seed]  # too few: the others are compared without it
    assert list(confirmed(of)[TASKS[0]]) == list(CANDIDATES)[:2]
    assert confirmation_table(of, {}).splitlines()[4] == "| DecQN, the paper's settings | – |"
    assert "against DecQN, the paper" not in confirmation_table(of, {})
    for seed in range(4):
        del of[TASKS[0], "lean"][seed]
    assert confirmation_table(of, {}).startswith("No task")


def test_the_gymnasium_problem_shows_the_candidates_alone(tmp_path: Path) -> None:
    assert problem_table(tmp_path) == "Not run yet."
    folder = comparison_folder(tmp_path / "phones")
    for name in ("lean", "decqn", "sb3-ppo"):
        folder.add(RunKey(name, "default", 0, 1.0), [row(100, 60.0, 1.5)])
    said = problem_table(folder.path)
    assert "| revalued: lean | 1.50 |" in said
    assert "Stable" not in said


def test_a_variant_as_flags_is_the_variant() -> None:
    experiment = find_experiment("confirmation")
    assert isinstance(experiment, Experiment)
    for variant in experiment.variants_at("laptop"):
        config = run_config(experiment, SCALES["laptop"], variant, parse_task(TASKS[0]))
        start_from = starting_config(tyro.MISSING, variant.overrides["algo"])
        given = parse(TrainArguments, "train", [TASKS[0], *flags_of(variant)], TrainArguments(start_from)).config
        for part in ("algorithm", "learner", "exploration", "replay"):
            assert getattr(given, part) == getattr(config, part), variant.id


def test_the_confirmation_has_the_candidates_of_the_search() -> None:
    experiment = find_experiment("confirmation")
    assert isinstance(experiment, Experiment)
    planned = {run.variant: run.config for run in plan(experiment, SCALES["laptop"], 1, TASKS[:1])}
    searched = json.loads((FOLDER / "variants.json").read_text())
    for name in ("`lean`", "DecQN, tuned"):
        settings = dict(searched[FRONT[name]]["settings"])
        config = configure(TASKS[0], settings.pop("algo"), settings)
        for part in ("algorithm", "learner", "exploration", "replay"):
            assert getattr(planned[CANDIDATES[name]], part) == getattr(config, part), name
    assert changed_settings(planned["decqn-paper"]) == {"algo": "decqn", "eval_episodes": 3}
