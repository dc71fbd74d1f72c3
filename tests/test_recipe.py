"""The tables of the search for a recipe are those of its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.recipe import FOLDER, FRONT, PAGES, Scores, changed_settings, collect, front_table, renewed, scores

from revalued.cli import main
from revalued.settings import configure


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_figure_on_a_page_is_typed_by_hand(page: Path) -> None:
    text = page.read_text()
    assert "<!-- recipe: " in text
    assert text == renewed(text, scores())


def test_a_score_is_the_mean_of_the_last_15_000_interactions(tmp_path: Path) -> None:
    rows = ["experiment,variant,task,seed,updates,env_steps,return,wall_s"]
    rows += [f"recipe,a,walker-walk,3,{i},{i * 5_000 - 5},{i},1.0" for i in range(1, 12)]
    (tmp_path / "results.csv").write_text("\n".join(rows))
    assert scores(tmp_path / "results.csv") == {("walker-walk", "a"): {50_000: {3: 9.0}}}  # of 8, 9 and 10


def test_the_front_table_has_a_dash_where_there_is_no_run() -> None:
    lean, tuned, *_ = FRONT.values()
    found: Scores = {("a", lean): {100_000: {0: 2.0, 1: 4.0}}, ("b", tuned): {100_000: {0: 7.0}}}
    lines = front_table(found).splitlines()
    assert lines[2] == "| `lean` | **3** (2, 4) | – |"
    assert lines[3].endswith("| – | **7** (7) |")


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
