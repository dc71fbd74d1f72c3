"""The tables and curves that people see first: beside the paper, over minutes, beside other agents."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure as Canvas

from report_data import make_run, write_training
from revalued.report import curves, front, peers
from revalued.report.drawing import panel_svg
from revalued.report.results import ExperimentResults, load_results
from revalued.report.tables import success_table


def test_the_front_table_by_hand(tmp_path: Path) -> None:
    levels = {("revalued", "dog-walk"): 80.0, ("decqn", "dog-walk"): 100.0, ("revalued", "fish-swim"): 50.0}
    write_training(tmp_path, "main", levels, env_steps=150_000, unfinished={("revalued", "fish-swim", 1): "missing"})
    table = front.front_table(load_results(tmp_path)["main"], lambda text: f"**{text}**")
    assert table.header == (
        "Task", "N", "REValueD", "DecQN", "Seeds", "paper: REValueD", "paper: DecQN", "Interactions: here / paper",
    )  # fmt: skip
    # seeds lie 10 apart: a standard error of 5
    assert table.rows == (
        ("fish-swim", "5", "45", "–", "0 to 1", "–", "–", "150k / 500k"),
        ("dog-walk", "38", "80 ± 5", "**100** ± 5", "2", "862", "641", "150k / 2,000k"),
    )
    assert "Critics here: REValueD not recorded" in table.caption


def test_nobody_is_ahead_where_nobody_has_learnt_anything() -> None:
    runs = (make_run([19, 19, 19], "decqn", "humanoid-run"), make_run([1, 1, 1], "bdq", "humanoid-run"))
    (row,) = front.front_table(ExperimentResults("main", {}, runs), lambda text: f"**{text}**").rows
    assert row[2:4] == ("1", "19")


def test_main_is_drawn_over_minutes_too(tmp_path: Path) -> None:
    write_training(tmp_path, "main", {("revalued", "dog-walk"): 80.0, ("decqn", "dog-walk"): 100.0})
    figure = curves.curves_over_minutes(load_results(tmp_path)["main"])
    assert figure is not None
    assert figure.name == "main-minutes"
    assert "minutes" in panel_svg(figure.panels[0])


def test_noise_near_zero_does_not_fill_a_panel() -> None:
    runs = (make_run([1, 2, 1], "decqn", "humanoid-run"), make_run([500] * 3, "decqn", "walker-walk"))
    figure = curves.learning_curves(ExperimentResults("main", {}, runs))
    assert figure is not None
    tops = []
    for panel in figure.panels:
        axes = Canvas().subplots()
        panel.draw(axes)
        tops.append(axes.get_ylim()[1])
    walks, runs_about = tops
    assert runs_about == 40
    assert 500 < walks < 600


def test_minutes_of_two_processors_are_not_mixed(tmp_path: Path) -> None:
    levels = {("revalued", "dog-walk"): 80.0, ("decqn", "dog-walk"): 100.0, ("bdq", "dog-walk"): 90.0}
    folder = write_training(tmp_path, "main", levels, seeds=3)
    facts = json.loads((folder / "provenance.json").read_text())
    for run in facts["runs"]:
        elsewhere = run["variant"] == "bdq" or (run["seed"] == 0 and run["variant"] == "decqn")
        run["processor"] = "abacus" if elsewhere else "loom"
    (folder / "provenance.json").write_text(json.dumps(facts))
    main = load_results(tmp_path)["main"]
    figure = curves.curves_over_minutes(main)
    assert figure is not None
    assert "on one kind of processor (loom)" in figure.caption
    assert "mean over 3 seeds" in figure.caption  # returns are the same anywhere
    assert "DecQN ends at" in figure.panels[0].description
    assert "BDQ" not in figure.panels[0].description  # nobody has timed it there
    everywhere = curves.learning_curves(main)
    assert everywhere is not None
    assert "BDQ ends at" in everywhere.panels[0].description


def test_published_curves_agree_with_the_published_table() -> None:
    """Two sources, one agent: TD-MPC2's files give the means that SimbaV2's table prints after a million steps."""
    for task, row in peers.AT_A_MILLION.items():
        means = peers.peer_curve(task)
        if means is not None:
            assert means[-1] == pytest.approx(row[peers.CURVE_PEER], abs=1.0), task
    assert peers.peer_curve("humanoid-run") is None  # its file is not among those that could be read
    averages = {name: np.mean([row[name] for row in peers.AT_A_MILLION.values()]) for name in ("SimbaV2", "BRO")}
    assert averages["SimbaV2"] > averages["BRO"] > 600


def test_what_others_reach_at_as_many_steps() -> None:
    # dog-walk: 34.6 after 100,000 and 207.7 after 200,000
    assert peers.peer_at("dog-walk", 100_000) == pytest.approx((36.2 + 48.6 + 19.1) / 3)
    assert peers.peer_at("dog-walk", 150_000) == pytest.approx(((36.2 + 48.6 + 19.1) + (110.3 + 232.3 + 280.5)) / 6)
    assert peers.peer_at("dog-walk", 50_000) is None
    assert peers.peer_at("walker-walk", 150_000) is None


def test_beside_peers_short_and_long(tmp_path: Path) -> None:
    levels = {("revalued", "dog-walk"): 80.0, ("decqn", "walker-walk"): 100.0}
    write_training(tmp_path / "short", "main", levels, env_steps=150_000)
    short = load_results(tmp_path / "short")["main"]
    figure = curves.beside_peers(short)
    assert figure is not None
    (panel,) = figure.panels  # walker-walk has no published line
    assert "published: TD-MPC2 121 after 150,000" in panel.description
    assert peers.CURVE_SOURCE in figure.caption
    assert peers.TABLE_SOURCE not in figure.caption
    table = front.peer_table(short)
    assert table.rows == (("dog-walk", "150,000", "80 (REValueD, 2 seeds)", "121", "935", "916", "931", "493"),)
    write_training(tmp_path / "long", "long-run", levels, seeds=1, env_steps=1_000_000)
    figure = curves.beside_peers(load_results(tmp_path / "long")["long-run"])
    assert figure is not None
    assert "SimbaV2 935 after 1,000,000" in figure.panels[0].description
    assert peers.TABLE_SOURCE in figure.caption
    assert "SimbaV2 935" in panel_svg(figure.panels[0])
    write_training(tmp_path / "none", "main", {("revalued", "walker-walk"): 1.0})
    assert curves.beside_peers(load_results(tmp_path / "none")["main"]) is None


def test_success_has_a_column_only_where_it_is_known(tmp_path: Path) -> None:
    write_training(tmp_path, "metaworld", {("revalued", "metaworld:reach-v3"): 80.0})
    assert success_table(load_results(tmp_path)["metaworld"]).rows == (("reach-v3", "–"),)


def test_an_algorithm_stands_with_all_that_it_has_reached_shared_runs_once(tmp_path: Path) -> None:
    write_training(tmp_path, "main", {("decqn", "dog-walk"): 80.0, ("bdq", "dog-walk"): 9.0}, env_steps=150_000)
    write_training(tmp_path, "sum", {("decqn", "dog-walk"): 80.0, ("decqn", "fish-swim"): 50.0}, env_steps=150_000)
    write_training(tmp_path, "long-run", {("decqn", "dog-walk"): 300.0}, env_steps=1_000_000)
    results = load_results(tmp_path)
    table = front.algorithm_table([results[name] for name in ("main", "sum", "long-run")], "decqn")
    assert table.rows == (
        ("dog-walk", "38", "150,000", "80 ± 5", "2", "641 after 2,000,000"),
        ("fish-swim", "5", "150,000", "50 ± 5", "2", "–"),
        ("dog-walk", "38", "1,000,000", "300 ± 5", "2", "641 after 2,000,000"),
    )
    assert not front.algorithm_table(results.values(), "dqn").rows
