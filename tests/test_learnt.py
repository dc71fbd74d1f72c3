"""What docs/learnt.md and the README say in short, held against the tables of results."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from benchmarks.problems import comparisons

from revalued.experiments.catalogue import dimensions_of
from revalued.report import peers, statistics
from revalued.report.results import ExperimentResults, load_results
from revalued.report.statistics import final_performance
from revalued.report.verdicts import minutes_of, training_findings

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def found() -> dict[str, ExperimentResults]:
    return load_results(ROOT / "results")


def final(experiment: ExperimentResults, variant: str, task: str) -> float:
    return float(np.mean([final_performance(run) for run in experiment.of(variant, task)]))


def overall(experiment: ExperimentResults, statement: str) -> str:
    (finding,) = [finding for finding in training_findings(experiment) if finding.statement == statement]
    assert finding.overall is not None
    return finding.overall.decision


def test_what_to_start_with(found: dict[str, ExperimentResults]) -> None:
    statement = "Does lean beat a DecQN of its price that was tuned as hard?"
    assert overall(found["confirmation"], statement) == "holds"
    assert overall(found["main"], "Does lean beat REValueD with the same critics?") == "holds"
    assert overall(found["main"], "Does lean beat DecQN with one of its critics?") == "holds"
    assert overall(found["main"], "Does lean beat DecQN with one critic of its price?") == "undecided"
    statement = "Does REValueD with ten lean critics beat DecQN with one that costs the same?"
    assert overall(found["main"], statement) == "does not hold"


def test_how_many_critics(found: dict[str, ExperimentResults]) -> None:
    long = found["long-run"]
    assert final(long, "decqn-ensemble", "dog-walk") > 3 * final(long, "decqn", "dog-walk")
    for task in found["wall-time"].tasks:
        minutes = {
            variant: np.mean([taken for taken, _ in minutes_of(found["wall-time"], variant, task)])
            for variant in ("revalued", "decqn")
        }
        assert minutes["revalued"] > 2 * minutes["decqn"], task
    assert (
        minutes_of(found["wall-time"], "revalued", "walker-walk")[0][0]
        > 3 * (minutes_of(found["wall-time"], "decqn", "walker-walk")[0][0])
    )


def test_the_end_of_a_long_run(found: dict[str, ExperimentResults]) -> None:
    long = found["long-run"]
    ensemble, regularised = (final(long, variant, "dog-walk") for variant in ("decqn-ensemble", "revalued"))
    assert ensemble > peers.AT_A_MILLION["dog-walk"][peers.CURVE_PEER]
    assert regularised < 0.75 * ensemble
    (run,) = long.of("decqn-ensemble", "dog-walk")
    assert 50 * 60 < run.wall_s[-1] < 70 * 60


def test_how_wide() -> None:
    runs: dict[tuple[str, str, str], list[float]] = {}
    with (ROOT / "results" / "recipe" / "results.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            runs.setdefault((row["variant"], row["task"], row["seed"]), []).append(float(row["return"]))

    def mean(variant: str, task: str) -> float:
        return float(
            np.mean([returns[-1] for (name, where, _), returns in runs.items() if (name, where) == (variant, task)])
        )

    narrower = {
        "decqn-256-3e-4-norm-tr01": "decqn-512-3e-4-norm-tr01",
        "ens-10x96-1e-3-norm-mean": "ens-10x160-1e-3-norm-mean",
    }
    behind = [
        mean(narrow, task) < mean(usual, task)
        for narrow, usual in narrower.items()
        for task in {task for name, task, _ in runs if name == narrow}
    ]
    assert len(behind) == 7
    assert sum(behind) >= 5


def test_which_beta(found: dict[str, ExperimentResults]) -> None:
    for name in ("regulariser", "long-run"):
        assert final(found[name], "revalued", "dog-walk") < final(found[name], "decqn-ensemble", "dog-walk"), name
    main = found["main"]
    lost = {
        task: final(main, "revalued", task) / final(main, "lean", task)
        for task in main.tasks
        if main.of("revalued", task) and main.of("lean", task) and final(main, "lean", task) > 20
    }
    few = [ratio for task, ratio in lost.items() if (dimensions_of(task) or 0) <= 2]
    many = [ratio for task, ratio in lost.items() if (dimensions_of(task) or 0) >= 12]
    assert np.median(many) < 0.5 < np.median(few)


def test_how_long(found: dict[str, ExperimentResults]) -> None:
    main = found["main"]
    rising = []
    for task in main.tasks:
        for variant in main.variants_with_runs:
            runs = main.of(variant, task)
            if not runs or (dimensions_of(task) or 0) <= 2 or final(main, variant, task) < 20:
                continue
            curve = statistics.curve(runs)
            middle = float(np.interp(curve.xs[-1] / 2, curve.xs, curve.mean))
            rising.append(final(main, variant, task) > 1.1 * middle)
    assert len(rising) > 10
    assert np.mean(rising) > 0.5


@pytest.mark.parametrize("problem", ["phones-small", "sigmoid-mean", "traffic"])
def test_how_far_to_look_ahead(problem: str) -> None:
    entries = {entry.name: entry.at_budget for entry in comparisons()[problem].entries}
    one_step, three_steps = entries["lean-at-once"].interval, entries["lean"].interval
    assert one_step is not None
    assert three_steps is not None
    assert one_step[0] > three_steps[1]
