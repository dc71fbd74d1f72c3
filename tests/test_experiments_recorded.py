"""A table of results is enough to go on with: where run folders are gone, or were elsewhere, nothing is repeated."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from experiment_helpers import SCALE, TOY, InThisProcess, read_csv
from revalued.errors import UserError
from revalued.experiments.ledger import Ledger
from revalued.experiments.overview import Overview
from revalued.experiments.plan import Experiment, Variant, plan
from revalued.experiments.runner import carry_out
from revalued.experiments.whole_plan import recorded_in_all, share_runs, work_order
from revalued.experiments.workload import Workload
from revalued.run.provenance import machine

ABLATION = replace(TOY, name="ablation", variants=(Variant("decqn", "DecQN", {"algo": "decqn"}),))
"""Shares all its runs with the other experiment."""


def reproduce(out: Path, *experiments: Experiment, seeds: int = 1) -> tuple[list[Path], Workload]:
    """Carry out experiments, and return which runs were trained."""
    ledgers = [Ledger(experiment, SCALE, plan(experiment, SCALE, seeds), out) for experiment in experiments]
    share_runs(ledgers)
    work = Workload(*work_order(ledgers), 1, recorded_in_all(ledgers))
    executor = InThisProcess()
    assert carry_out(ledgers, work, executor, Overview(), keep_checkpoints=False) == {}
    assert work.to_do == []
    return executor.trained, work


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Results that came from somewhere: tables, no run folders."""
    trained, _ = reproduce(tmp_path, TOY)
    assert len(trained) == 2
    shutil.rmtree(tmp_path / "runs")
    return tmp_path


def test_recorded_runs_are_not_repeated(elsewhere: Path) -> None:
    before = (elsewhere / "toy" / "results.csv").read_bytes()
    trained, work = reproduce(elsewhere, TOY)
    assert (trained, len(work.finished)) == ([], 2)
    assert (elsewhere / "toy" / "results.csv").read_bytes() == before
    assert {run["status"] for run in json.loads((elsewhere / "toy" / "provenance.json").read_text())["runs"]} == {
        "finished"
    }


def test_how_long_recorded_runs_took_is_known(elsewhere: Path) -> None:
    _, work = reproduce(elsewhere, TOY)
    facts = json.loads((elsewhere / "toy" / "provenance.json").read_text())["runs"]
    assert work.is_measured
    assert sorted(work.expected_seconds(path) or 0 for path in work.runs) == sorted(run["wall_s"] for run in facts)


def test_times_of_another_processor_tell_nothing_about_this_one(elsewhere: Path) -> None:
    path = elsewhere / "toy" / "provenance.json"
    facts = json.loads(path.read_text())
    assert {run["processor"] for run in facts["runs"]} == {machine()["processor"]}
    for run in facts["runs"]:
        run["processor"] = "an abacus"
    path.write_text(json.dumps(facts))
    trained, work = reproduce(elsewhere, TOY)
    assert (trained, work.is_measured) == ([], False)
    assert {run["processor"] for run in json.loads(path.read_text())["runs"]} == {"an abacus"}


def test_only_what_is_new_is_trained(elsewhere: Path) -> None:
    trained, _ = reproduce(elsewhere, TOY, seeds=2)
    assert sorted(path.name.split("-")[1] for path in trained) == ["seed1", "seed1"]
    assert len(read_csv(elsewhere / "toy" / "results.csv")) == 4 * 3


def test_another_experiment_takes_over_what_it_shares(elsewhere: Path) -> None:
    trained, _ = reproduce(elsewhere, ABLATION, TOY)
    assert trained == []
    own = read_csv(elsewhere / "ablation" / "results.csv", without=("experiment",))
    theirs = [
        row for row in read_csv(elsewhere / "toy" / "results.csv", without=("experiment",)) if row["variant"] == "decqn"
    ]
    assert own == theirs != []
    provenance = [json.loads((elsewhere / name / "provenance.json").read_text()) for name in ("ablation", "toy")]
    assert provenance[0]["versions"] == provenance[1]["versions"]
    assert provenance[0]["runs"] == [run for run in provenance[1]["runs"] if run["variant"] == "decqn"]


def test_a_damaged_table_of_an_experiment_that_shares_nothing_is_not_opened(elsewhere: Path) -> None:
    (elsewhere / "toy" / "results.csv").write_text("nonsense")
    other = replace(ABLATION, overrides={"n_step": 1})
    trained, _ = reproduce(elsewhere, other)
    assert len(trained) == 1
    with pytest.raises(UserError, match=r"toy/results\.csv has other columns"):
        reproduce(elsewhere, replace(ABLATION, name="sharing"))


def test_what_is_measured_in_every_update_is_not_taken_over(elsewhere: Path) -> None:
    """Gradient norms are not in the tables of others."""
    trained, _ = reproduce(elsewhere, replace(ABLATION, measures_stability=True, overrides={"log_every": 1}))
    assert len(trained) == 1


def test_a_table_of_other_settings_does_not_count(elsewhere: Path) -> None:
    file = elsewhere / "toy" / "provenance.json"
    facts = json.loads(file.read_text())
    for run in facts["runs"]:
        run["folder"] = run["folder"][:-1] + ("0" if run["folder"][-1] != "0" else "1")
    file.write_text(json.dumps(facts))
    trained, _ = reproduce(elsewhere, TOY)
    assert len(trained) == 2


def test_longer_runs_are_wanted(elsewhere: Path) -> None:
    longer = replace(SCALE, env_steps=400)
    ledger = Ledger(TOY, longer, plan(TOY, longer, 1), elsewhere)
    assert recorded_in_all([ledger]) == {}
