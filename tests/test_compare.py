"""`revalued compare`: who takes part, the plan, and what is kept on disk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure as Canvas

from compare_helpers import comparison_folder, row
from revalued.compare.contestants import CONTESTANTS, DEFAULT, NUM_SETTINGS, OURS, unfit
from revalued.compare.pictures import comparison_figure
from revalued.compare.plan import (
    TUNING_SEED,
    TUNING_SHARE,
    Budget,
    default_runs,
    score_at,
    tuned_runs,
    tuned_settings,
    tuning_runs,
)
from revalued.compare.result_table import ComparisonFolder, RunCurve, RunKey, folder_name
from revalued.compare.tables import markdown_table, overview_table, read_comparison
from revalued.errors import UserError
from revalued.report.drawing import panel_svg

# --- who takes part


@pytest.mark.parametrize("name", [name for name in CONTESTANTS if name != "random"])
def test_everybody_has_the_same_number_of_settings(name: str) -> None:
    settings = CONTESTANTS[name].settings
    assert len(settings) == NUM_SETTINGS
    assert next(iter(settings)) == DEFAULT
    assert len({json.dumps(own, sort_keys=True) for own in settings.values()}) == NUM_SETTINGS


def test_our_settings_are_settings(tmp_path: Path) -> None:
    from revalued.settings import configure
    from revalued.validation import validate

    for name in (*OURS, "decqn-paper", "dqn"):
        for own in CONTESTANTS[name].settings.values():
            given = dict(own)
            validate(configure("toy-levers", str(given.pop("algo")), given))


@pytest.mark.parametrize(
    ("name", "sizes", "masked", "reason"),
    [
        ("tianshou-bdq", (2, 3), False, "as many choices in each dimension"),
        ("tianshou-bdq", (3, 3), False, None),
        ("sb3-ppo", (2, 3), True, "no action masks"),
        ("sb3-dqn", (14,) * 30, False, "joint actions"),
        ("sb3-dqn", (5, 5), False, None),
        ("sb3-sac", (3, 3), False, "continuous actions"),
        ("decqn", (2, 3), True, None),
    ],
)
def test_who_cannot_take_part_is_told_why(name: str, sizes: tuple[int, ...], masked: bool, reason: str | None) -> None:
    found = unfit(name, sizes, masked=masked, has_bins=False)
    assert found is None if reason is None else reason in str(found)


# --- plan and scores


def test_a_score_is_the_mean_over_the_last_fifth() -> None:
    positions, returns = np.array([0.0, 80.0, 100.0, 200.0]), np.array([0.0, 8.0, 10.0, 99.0])
    assert score_at(positions, returns, 100.0) == pytest.approx(9.0)
    assert score_at(positions, np.full(4, 5.0), 100.0) == pytest.approx(5.0)
    assert score_at(positions[:2], returns[:2], 100.0) == pytest.approx(8.0)  # what comes after the last look stays


def test_runs_are_planned_seed_by_seed() -> None:
    runs = default_runs(["decqn", "random", "sb3-ppo"], 2)
    assert [(key.contestant, key.seed) for key in runs] == [
        ("random", 0), ("decqn", 0), ("sb3-ppo", 0), ("decqn", 1), ("sb3-ppo", 1),
    ]  # fmt: skip


def curve(*returns: float) -> RunCurve:
    steps = np.linspace(0, 100, len(returns))
    return RunCurve(steps, 60 * steps / 100, np.array(returns))


def test_tuning_chooses_the_best_once_all_have_been_tried() -> None:
    budget = Budget(None, 400, "wall")
    tried = {key: curve(0.0, float(number)) for number, key in enumerate(tuning_runs(["decqn", "random"]))}
    assert {key.share for key in tried} == {TUNING_SHARE}
    assert {key.seed for key in tried} == {TUNING_SEED}
    last = list(CONTESTANTS["decqn"].settings)[-1]
    assert tuned_settings(["decqn", "random"], tried, budget) == {"decqn": last}
    some = dict(list(tried.items())[:-1])
    assert tuned_settings(["decqn"], some, budget) == {}
    assert [key.seed for key in tuned_runs({"decqn": last, "sb3-ppo": DEFAULT}, 2)] == [0, 1]


# --- on disk


@pytest.fixture
def folder(tmp_path: Path) -> ComparisonFolder:
    """Two seeds of ours, one of another, the random policy, a tuning run that does not count."""
    found = comparison_folder(tmp_path / "levers")
    found.add(RunKey("decqn", DEFAULT, 0, 1.0), [row(0, 0.0, 2), row(1_000, 48.0, 8), row(1_200, 60.0, 8)])
    found.add(RunKey("decqn", DEFAULT, 1, 1.0), [row(0, 0.0, 2), row(1_000, 48.0, 6), row(1_200, 60.0, 6)])
    found.add(RunKey("sb3-ppo", DEFAULT, 0, 1.0), [row(0, 0.0, 2), row(4_000, 60.0, 2)])
    found.add(RunKey("sb3-ppo", "entropy", TUNING_SEED, TUNING_SHARE), [row(0, 0.0, 99)])
    found.add(RunKey("random", DEFAULT, 0, 1.0), [row(0, 0.0, 1.5)])
    return found


def test_the_table_says_what_is_on_disk(folder: ComparisonFolder) -> None:
    found = read_comparison(folder)
    assert markdown_table(found).splitlines() == [
        "| | return after 1 minute of one core | interactions made | return after 1,200 interactions | seeds |",
        "|---|---|---|---|---|",
        "| *the best possible* | 10.00 | | | |",
        "| revalued: DecQN | 7.00 (6.00 to 8.00) | 1,200 | 6.98 (5.98 to 7.97) | 2 |",
        "| Stable-Baselines3 PPO | 2.00 | 4,000 | 2.00 | 1 |",
        "| *uniformly random* | 1.50 | | | |",
    ]
    assert overview_table({"levers": found}, ["decqn", "sb3-ppo", "tianshou-bdq"]).splitlines()[-1] == (
        "| levers | 1 min, 1–2 | **7.00** | 2.00 | 1.50 | 10.00 |"
    ), "nobody has seen Tianshou yet"
    assert overview_table({"sepsis": found}, ["decqn"]).splitlines()[-1] == (
        "| sepsis treatment | 1 min, 1–2 | **7.00** | 1.50 | 10.00 |"
    )


def test_whoever_takes_part_somewhere_has_a_column(folder: ComparisonFolder, tmp_path: Path) -> None:
    other = comparison_folder(tmp_path / "others")
    other.add(RunKey("sb3-sac", DEFAULT, 0, 1.0), [row(0, 0.0, 3), row(4_000, 60.0, 3)])
    both = {"levers": read_comparison(folder), "others": read_comparison(other)}
    header, _, first, second = overview_table(both, ["decqn", "sb3-sac"]).splitlines()
    assert header.count("SAC") == 1
    assert first == "| levers | 1 min, 1–2 | **7.00** | – | 1.50 | 10.00 |"
    assert second == "| others | 1 min, 1 | – | 3.00 | – | 10.00 |"


def test_who_cannot_be_told_apart_from_the_best_is_in_bold_too(folder: ComparisonFolder) -> None:
    for seed, value in enumerate((5.0, 6.5)):  # decqn has 6 and 8
        folder.add(RunKey("lean", DEFAULT, seed, 1.0), [row(0, 0.0, value), row(1_200, 60.0, value)])
    last = overview_table({"levers": read_comparison(folder)}, ["lean", "decqn", "sb3-ppo"]).splitlines()[-1]
    assert last == "| levers | 1 min, 1–2 | **5.75** | **7.00** | 2.00 | 1.50 | 10.00 |"


def test_where_random_choices_are_as_good_no_learner_alone_is_the_best(tmp_path: Path) -> None:
    for value, wanted in ((0.5, "| 0.500 | **1.500** | 10.000 |"), (2.0, "| **2.00** | 1.50 | 10.00 |")):
        found = comparison_folder(tmp_path / f"levers-{value}")
        found.add(RunKey("decqn", DEFAULT, 0, 1.0), [row(0, 0.0, value), row(1_200, 60.0, value)])
        found.add(RunKey("random", DEFAULT, 0, 1.0), [row(0, 0.0, 1.5)])
        last = overview_table({"levers": read_comparison(found)}, ["decqn"]).splitlines()[-1]
        assert last == f"| levers | 1 min, 1 {wanted}"


def test_a_variant_stands_in_the_column_of_what_it_varies(folder: ComparisonFolder) -> None:
    for name, value in (("lean", 3.0), ("lean-at-once", 9.0)):
        folder.add(RunKey(name, DEFAULT, 0, 1.0), [row(0, 0.0, value), row(1_200, 60.0, value)])
    found = read_comparison(folder)
    header, _, last = overview_table({"levers": found}, ["lean", "decqn", "sb3-ppo"]).splitlines()
    assert header.count("lean") == 1
    assert last == "| levers | 1 min, 1–2 | **9.00** | 7.00 | 2.00 | 1.50 | 10.00 |"
    assert "revalued: lean, one step and discount 0.9" in markdown_table(found)


def test_the_picture_has_two_panels(folder: ComparisonFolder) -> None:
    figure = comparison_figure("problem-levers", read_comparison(folder))
    assert [label for label, _ in figure.legend] == ["revalued: DecQN", "Stable-Baselines3 PPO"]
    assert "interactions" in panel_svg(figure.panels[0])
    assert "minutes of one core" in panel_svg(figure.panels[1])


def test_everybody_is_drawn_as_far_as_ours_go(folder: ComparisonFolder) -> None:
    folder.add(RunKey("sb3-sac", DEFAULT, 0, 1.0), [row(0, 0.0, 2), row(300, 60.0, 3)])
    axes = Canvas().subplots()
    comparison_figure("problem-levers", read_comparison(folder)).panels[0].draw(axes)
    # 4,000 of PPO's would leave a corner to ours, and all would have to end with SAC's 300
    assert sorted(np.asarray(line.get_xdata())[-1] for line in axes.lines[:3]) == [300, 1_200, 1_200]


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "contestant,setting\n", "\xff"])
def test_a_damaged_table_is_refused_in_one_line(folder: ComparisonFolder, text: str) -> None:
    (folder.path / "results.csv").write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match=r"results.csv cannot be used"):
        folder.finished()


def test_numbers_that_are_none_are_refused(folder: ComparisonFolder) -> None:
    path = folder.path / "results.csv"
    path.write_text(path.read_text() + "decqn,default,0,1.0,0,0,0,nan,10\n")
    with pytest.raises(UserError, match="not finite"):
        folder.finished()


@pytest.mark.parametrize(
    ("task", "name"),
    [("problem:sepsis", "sepsis"), ("gym:a.b:C/D-v0", "gym-a.b-C-D-v0"), ("walker-walk", "walker-walk")],
)
def test_folders_are_named_after_problems(task: str, name: str) -> None:
    assert folder_name(task) == name
