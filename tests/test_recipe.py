"""The tables of the search for a recipe are those of its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.confirmation import CANDIDATES, FEWEST_SEEDS, confirmation_summary, confirmation_table, confirmed, pace
from benchmarks.recipe import INGREDIENTS, PAGES, front_table, ingredients_table, renewed
from benchmarks.recipe_runs import FOLDER, FRONT, Episode, Scores, changed_settings, collect, scores

from revalued.cli import main
from revalued.experiments.catalogue import CONFIRMING as TASKS
from revalued.experiments.catalogue import find_experiment
from revalued.experiments.plan import Experiment, plan
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


def run(seconds: float, values: dict[int, float]) -> list[Episode]:
    """A run that takes so many seconds per 1,000 interactions, and got its values from so many thousands on."""
    steps = range(5, 101, 5)
    return [Episode(1000 * k, max((at, v) for at, v in values.items() if at <= k)[1], seconds * k) for k in steps]


def test_a_pace_does_not_count_pauses() -> None:
    paused = [each._replace(seconds=each.seconds + 500 * (each.env_steps > 40_000)) for each in run(2.0, {0: 1})]
    assert pace({0: paused, 1: run(2.0, {0: 1}), 2: run(3.0, {0: 1})}) == pytest.approx(0.002)


def test_the_confirmation_compares_at_equal_interactions_and_in_equal_time() -> None:
    lean, tuned, paper = CANDIDATES.values()
    of = {
        (TASKS[0], lean): {seed: run(2.0, {0: 100, 60: 900}) for seed in range(5)},  # half as fast
        (TASKS[0], tuned): {seed: run(1.0, {0: 100, 90: 300}) for seed in range(5)},
        (TASKS[0], paper): {seed: run(1.0, {0: 50}) for seed in range(5)},
        (TASKS[1], lean): {seed: run(1.0, {0: 1000}) for seed in range(5)},  # nobody else was there
    }
    names = list(CANDIDATES)
    assert confirmed(of, equal_time=False) == {TASKS[0]: {names[0]: [900] * 5, names[1]: [300] * 5, names[2]: [50] * 5}}
    assert confirmed(of, equal_time=True) == {TASKS[0]: {names[0]: [100] * 5, names[1]: [300] * 5, names[2]: [50] * 5}}
    said = confirmation_table(of)
    assert (
        f"{names[0]} against {names[1]}: +600 [+600, +600] in the interquartile mean over 1 tasks, ahead on 1 of 1"
        in said
    )
    assert f"{names[0]} against {names[1]}: -200 [-200, -200]" in said
    summary = confirmation_summary(of)
    assert summary.startswith(
        "On 1 of 6 tasks that the search never looked at, after 100,000 interactions, with 5 of 5"
    )
    assert f"{names[0]} against {names[1]}: +600 [+600, +600]" in summary
    assert "-200" not in summary
    assert confirmation_summary({}).startswith("It has not been confirmed")


def test_a_task_counts_with_the_seeds_that_all_candidates_have() -> None:
    runs = {seed: run(1.0, {0: seed}) for seed in range(5)}
    of = {(TASKS[0], variant): dict(runs) for variant in CANDIDATES.values()}
    for seed in (0, 4):
        del of[TASKS[0], "decqn-paper"][seed]
    assert confirmed(of, equal_time=False)[TASKS[0]] == {name: [1, 2, 3] for name in CANDIDATES}
    assert f"| {TASKS[0]} (3 seeds) |" in confirmation_table(of)
    assert FEWEST_SEEDS == 2
    for seed in (2, 3):
        del of[TASKS[0], "decqn-paper"][seed]  # too few: the others are compared without it
    assert confirmed(of, equal_time=False)[TASKS[0]] == {name: [0, 1, 2, 3, 4] for name in list(CANDIDATES)[:2]}
    assert confirmation_table(of).splitlines()[4] == "| DecQN, the paper's settings | – |"
    assert "against DecQN, the paper" not in confirmation_table(of)
    for seed in range(4):
        del of[TASKS[0], "lean"][seed]
    assert confirmation_table(of).startswith("No task")


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
