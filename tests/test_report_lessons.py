"""What was learnt: sentences that stand on runs, and say so where there are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from report_data import make_run, write_csv, write_provenance, write_training
from revalued.experiments.catalogue import DIMENSIONS, EXPERIMENTS, dimensions_of
from revalued.experiments.result_files import RESULT_COLUMNS
from revalued.report.blocks import with_results
from revalued.report.contents import chapters
from revalued.report.lessons import Answer, Lesson, compared, lessons
from revalued.report.results import ExperimentResults, load_results
from revalued.report.statistics import final_success


def found(out: Path, question: str) -> Lesson:
    (lesson,) = [lesson for lesson in lessons(load_results(out)) if question in lesson.question]
    return lesson


def texts(lesson: Lesson) -> list[str]:
    return [answer.text for answer in lesson.answers]


def experiment(*runs: tuple[str, str, float, int]) -> ExperimentResults:
    """Return runs whose every evaluation has the return given, by variant, task, return and seed."""
    made = tuple(make_run([value] * 4, variant, task, seed) for variant, task, value, seed in runs)
    return ExperimentResults("main", {}, made)


def test_ahead_behind_and_not_told_apart_by_hand() -> None:
    pairs = {"walker-walk": (500, 100), "fish-swim": (10, 300), "dog-walk": (50, 50), "dog-run": (9, 8)}
    runs = []
    for task, (ours, theirs) in pairs.items():
        for seed in range(1 if task == "dog-run" else 2):
            offset = seed * (20 if task == "dog-walk" else 1)
            runs += [("revalued", task, ours + offset, seed), ("decqn", task, theirs + 1.5 * offset, seed)]
    answer = compared(experiment(*runs), "revalued", "decqn")
    assert answer is not None
    head = "REValueD against DecQN, 4 tasks, 1 to 2 seeds: "
    assert answer.text.startswith(
        head + "ahead on 1, behind on 1, not told apart on 2. Together: difference of interquartile means "
    )
    assert answer.detail == (
        "Ahead: walker-walk 500 and 101; behind: fish-swim 10 and 301; not told apart: dog-walk 60 and 65, "
        "dog-run 9 and 8."
    )


def test_variants_without_a_task_in_common_are_not_compared() -> None:
    found = experiment(("revalued", "walker-walk", 1.0, 0), ("decqn", "dog-walk", 1.0, 0))
    assert compared(found, "revalued", "decqn") is None
    assert compared(found, "revalued", "bdq") is None


def test_where_data_is_missing_it_says_so(tmp_path: Path) -> None:
    write_training(tmp_path, "beta", {("revalued-beta0.5", "cheetah-run"): 100.0}, unfinished={
        ("revalued-beta0.5", "cheetah-run", 0): "missing", ("revalued-beta0.5", "cheetah-run", 1): "unfinished",
    })  # fmt: skip
    everything = lessons(load_results(tmp_path))
    assert all(lesson.answers == () for lesson in everything)
    assert {lesson.experiment for lesson in everything} == {
        name for name in EXPERIMENTS if name not in ("tabular", "theorems")
    }
    page = with_results(
        "<!-- results: learnt -->\n<!-- end of results -->", chapters(load_results(tmp_path)), "results"
    )
    assert "- How strong a regulariser? `revalued reproduce beta`\n" in page


def test_single_seeds_are_called_so(tmp_path: Path) -> None:
    levels = {("revalued", "dog-walk"): 200.0, ("decqn", "dog-walk"): 100.0, ("decqn-ensemble", "dog-walk"): 150.0}
    write_training(tmp_path, "long-run", levels, seeds=1)
    assert texts(found(tmp_path, "million"))[:2] == [
        "decqn-ensemble against DecQN, 1 seed, higher with one seed: dog-walk 150 and 100.",
        "REValueD against decqn-ensemble, 1 seed, higher with one seed: dog-walk 200 and 150.",
    ]


def test_the_best_number_of_critics_and_those_that_are_as_good(tmp_path: Path) -> None:
    levels = {(f"revalued-k{size}", "cheetah-run"): level for size, level in ((1, 100.0), (3, 296.0), (10, 300.0))}
    write_training(tmp_path, "ensemble-size", levels, spread=20.0)
    (answer,) = found(tmp_path, "How many critics").answers
    # two seeds 20 apart have a standard error of 10: 296 + 10 reaches 300, 100 + 10 does not
    assert answer == Answer(
        "cheetah-run, 2 seeds: highest at K = 10; within a standard error of it: 3 (1: 100, 3: 296, 10: 300)."
    )


def test_one_number_of_critics_is_not_the_best(tmp_path: Path) -> None:
    write_training(tmp_path, "ensemble-size", {("revalued-k10", "cheetah-run"): 100.0})
    assert found(tmp_path, "How many critics").answers == ()


def test_whether_curves_still_rise() -> None:
    steps = np.arange(1.0, 9.0) * 10_000
    rising = make_run([100 * number for number in range(1, 9)], "decqn", "walker-walk")
    level = make_run([50, 80, 80, 80, 80, 80, 80, 80], "decqn", "fish-swim")
    assert rising.env_steps.tolist() == (steps / 2).tolist()
    results = {"main": ExperimentResults("main", {}, (rising, level))}
    assert how_long(results) == (
        Answer("DecQN, from the middle to the end: walker-walk 300 → 700, fish-swim 80 → 80."),
    )
    more = tuple(replace(level, task=task) for task in ("dog-walk", "dog-run"))
    nothing = replace(level, task="humanoid-run", returns=level.returns / 10)
    results = {"main": ExperimentResults("main", {}, (rising, level, nothing, *more))}
    assert how_long(results) == (
        Answer(
            "DecQN: the end lies more than 10% above the middle of the run on 1 of 4 tasks.",
            "From the middle to the end, still rising: walker-walk 300 → 700; level: fish-swim 80 → 80, "
            "dog-walk 80 → 80, dog-run 80 → 80.",
        ),
    )


def how_long(results: dict[str, ExperimentResults]) -> tuple[Answer, ...]:
    (lesson,) = [lesson for lesson in lessons(results) if lesson.question.startswith("How long to train")]
    return lesson.answers


def test_metaworld_says_how_often_goals_were_reached(tmp_path: Path) -> None:
    task = "metaworld:reach-v3"
    rows = [
        {"experiment": "metaworld", "variant": variant, "task": task, "seed": 0, "updates": 1000 * number,
         "env_steps": 5000 * number, "return": 100.0, "wall_s": number, "success": float(number > reached)}
        for variant, reached in (("revalued", 1), ("decqn", 2))
        for number in (1, 2, 3, 4)
    ]  # fmt: skip
    write_csv(tmp_path / "metaworld" / "results.csv", RESULT_COLUMNS, rows)
    write_provenance(tmp_path / "metaworld", "metaworld", ["metaworld:reach-v3"])
    lesson = found(tmp_path, "robot arms")
    assert texts(lesson)[-1] == (
        "Goals reached in the last test episodes of reach-v3: DecQN 67% (1 seed), REValueD 100% (1 seed)."
    )


def test_success_is_unknown_where_nobody_wrote_it_down() -> None:
    assert final_success(make_run([1, 2])) is None


@pytest.mark.parametrize(("task", "dimensions"), [("dog-walk", 38), ("cheetah-run@30+reward-noise", 6), ("toy", None)])
def test_dimensions(task: str, dimensions: int | None) -> None:
    assert dimensions_of(task) == dimensions


def test_dimensions_are_those_of_the_simulator() -> None:
    from revalued.config import TrainConfig
    from revalued.envs import task_of

    for family, task in (("finger", "finger-spin"), ("ball_in_cup", "ball_in_cup-catch"), ("cheetah", "cheetah-run")):
        assert len(task_of(TrainConfig(task=task)).info.sizes) == DIMENSIONS[family]
