"""Carrying out an experiment, in this process: files, sharing of runs, failures, interruptions, mixing."""

from __future__ import annotations

import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiment_helpers import NOISY, SCALE, TOY, InThisProcess, carry_out_toy, planned, read_csv
from revalued.errors import UserError
from revalued.experiments import runner
from revalued.experiments.ledger import Ledger
from revalued.experiments.overview import Overview
from revalued.experiments.plan import ComputedExperiment, Variant
from revalued.experiments.result_files import RESULT_COLUMNS, read_provenance
from revalued.experiments.run_folders import run_path
from revalued.experiments.scales import SCALES
from revalued.run.start import start
from run_helpers import evolve, rows


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy experiment, carried out without interruption; not to be changed."""
    out = tmp_path_factory.mktemp("whole")
    outcome = carry_out_toy(out, InThisProcess())
    assert outcome.is_complete
    return out


def without(whole: Path, out: Path, *numbers: int) -> Path:
    """Copy the runs of the whole experiment, except some, to where nothing is known about them."""
    shutil.copytree(whole / "runs", out / "runs")
    for number in numbers:
        shutil.rmtree(run_path(out, planned()[number].config))
    return out


def provenance(out: Path, name: str = "toy") -> dict[str, Any]:
    data = read_provenance(out / name)
    assert data is not None
    return data


def statuses(out: Path) -> dict[tuple[str, str, int], str]:
    return {(run["variant"], run["task"], run["seed"]): run["status"] for run in provenance(out)["runs"]}


def test_results_are_the_evaluations_of_all_runs(whole: Path) -> None:
    table = read_csv(whole / "toy" / "results.csv", without=())
    assert tuple(table[0]) == RESULT_COLUMNS
    assert {row["experiment"] for row in table} == {"toy"}
    expected = [
        (run.variant, run.task, str(run.seed), row["updates"], row["env_steps"], row["return"])
        for run in sorted(planned(), key=lambda run: run.key)
        for row in rows(run_path(whole, run.config), "eval.csv")
    ]
    columns = ("variant", "task", "seed", "updates", "env_steps", "return")
    assert [tuple(row[name] for name in columns) for row in table] == expected
    assert len(expected) == 2 * 2 * 3
    assert all(float(row["wall_s"]) > 0 for row in table)


def test_provenance(whole: Path) -> None:
    data = provenance(whole)
    assert (data["experiment"], data["title"], data["scale"]) == ("toy", "Toys", "smoke")
    assert "350 interactions per run" in data["scale_note"]
    assert "without toy-counting" in data["scale_note"]
    assert (data["seeds"], data["tasks"], data["planned_env_steps"]) == ([0, 1], ["toy-levers"], 350)
    critics = {"critics": 2, "hidden_size": 32, "learning_rate": 1e-4, "normalise_observations": False}
    assert data["variants"]["revalued"] == {"label": "REValueD", "overrides": {"algo": "revalued", **critics}}
    assert data["versions"]["torch"]
    assert data["machine"]["cores"] >= 1
    assert data["commit"]
    assert data["written_at"].endswith("+00:00")
    assert len(data["runs"]) == 4
    for run in data["runs"]:
        assert (run["status"], run["env_steps"], run["threads"]) == ("finished", 350, 1)
        assert run["wall_s"] > 0
        assert run["commit"] == data["commit"]
        assert (whole / run["folder"] / "config.json").is_file()


def test_finished_runs_are_never_repeated(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "copy"
    shutil.copytree(whole, out)
    executor = InThisProcess()
    assert carry_out_toy(out, executor).is_complete
    assert executor.trained == []
    assert (out / "toy" / "results.csv").read_bytes() == (whole / "toy" / "results.csv").read_bytes()


def test_a_run_trained_by_hand_is_adopted(whole: Path, tmp_path: Path) -> None:
    run = planned()[0]
    by_hand = evolve(run.config, checkpoint_every=10)
    start(by_hand, tmp_path / "by hand")
    out = without(whole, tmp_path / "out", 0)
    place = run_path(out, by_hand)
    (tmp_path / "by hand").rename(place)
    executor = InThisProcess()
    carry_out_toy(out, executor)
    assert executor.trained == []
    assert read_csv(out / "toy" / "results.csv") == read_csv(whole / "toy" / "results.csv")
    commits = {entry["folder"]: entry["commit"] for entry in provenance(out)["runs"]}
    assert commits.pop(place.relative_to(out).as_posix()) is None
    assert None not in commits.values()


def test_experiments_share_runs(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "copy"
    shutil.copytree(whole, out)
    ablation = replace(
        TOY,
        name="ablation",
        variants=(
            Variant("revalued", "REValueD", {"algo": "revalued"}),
            Variant("revalued-beta0", "without", {"algo": "revalued", "beta": 0.0, "critics": 1}),  # which is DecQN
            Variant("revalued-beta1", "with more", {"algo": "revalued", "beta": 1.0}),
        ),
    )
    executor = InThisProcess()
    assert carry_out_toy(out, executor, experiment=ablation).is_complete
    assert len(executor.trained) == 2
    decqn = [row["return"] for row in read_csv(out / "toy" / "results.csv") if row["variant"] == "decqn"]
    table = read_csv(out / "ablation" / "results.csv")
    assert [row["return"] for row in table if row["variant"] == "revalued-beta0"] == decqn
    assert {row["variant"] for row in table} == {"revalued", "revalued-beta0", "revalued-beta1"}


def test_equal_variants_are_trained_once(tmp_path: Path) -> None:
    same = replace(TOY, variants=(TOY.variants[0], replace(TOY.variants[0], id="decqn-again")))
    executor = InThisProcess()
    outcome = carry_out_toy(tmp_path, executor, seeds=1, experiment=same)
    assert (outcome.runs, outcome.finished, len(executor.trained)) == (1, 1, 1)
    assert {row["variant"] for row in read_csv(tmp_path / "toy" / "results.csv")} == {"decqn", "decqn-again"}


def test_an_interrupted_experiment_goes_on_to_the_same_results(whole: Path, tmp_path: Path) -> None:
    out = without(whole, tmp_path, 1, 3)
    outcome = carry_out_toy(out, InThisProcess(stops_in_run=0))
    assert (outcome.runs, outcome.finished, outcome.failures) == (4, 2, {})
    assert statuses(out) == {
        ("decqn", "toy-levers", 0): "finished",
        ("decqn", "toy-levers", 1): "finished",
        ("revalued", "toy-levers", 0): "unfinished",
        ("revalued", "toy-levers", 1): "missing",
    }
    assert {row["variant"] for row in read_csv(out / "toy" / "results.csv")} == {"decqn"}
    executor = InThisProcess()
    assert carry_out_toy(out, executor).is_complete
    assert len(executor.trained) == 2
    assert read_csv(out / "toy" / "results.csv") == read_csv(whole / "toy" / "results.csv")


def test_a_failed_run_does_not_stop_the_rest_and_is_tried_again(whole: Path, tmp_path: Path) -> None:
    out = without(whole, tmp_path, 1, 3)
    broken = run_path(out, planned()[1].config)
    outcome = carry_out_toy(out, InThisProcess(fails=lambda path: path == broken))
    assert (outcome.runs, outcome.finished) == (4, 3)
    assert outcome.failures == {broken: "the arm fell off"}
    assert statuses(out)["revalued", "toy-levers", 0] == "failed"
    assert carry_out_toy(out, InThisProcess()).is_complete
    assert read_csv(out / "toy" / "results.csv") == read_csv(whole / "toy" / "results.csv")


def test_a_run_that_ends_early_without_an_error_counts_as_failed(tmp_path: Path) -> None:
    class Careless(InThisProcess):
        def execute(self, paths: Any, stop: Any) -> Any:
            for event in super().execute(paths, stop):
                yield replace(event, kind="finished") if event.kind == "interrupted" else event

    outcome = carry_out_toy(tmp_path, Careless(stops_in_run=0), seeds=1)
    assert list(outcome.failures.values()) == ["ended before it had all its interactions"]


def test_narrower_and_wider_calls_lose_no_rows(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "copy"
    shutil.copytree(whole, out)
    before = read_csv(out / "toy" / "results.csv")
    carry_out_toy(out, InThisProcess(), seeds=1)
    assert read_csv(out / "toy" / "results.csv") == before
    carry_out_toy(out, InThisProcess(), seeds=1, tasks=("toy-counting",))
    table = read_csv(out / "toy" / "results.csv")
    assert [row for row in table if row["task"] == "toy-levers"] == before
    assert {row["seed"] for row in table if row["task"] == "toy-counting"} == {"0"}
    data = provenance(out)
    assert (data["seeds"], data["tasks"]) == ([0, 1], ["toy-counting", "toy-levers"])
    assert len(data["runs"]) == 6


def test_rows_outlive_their_run_folder_until_the_run_is_finished_anew(whole: Path, tmp_path: Path) -> None:
    """As in a clone of a repository that holds results but no runs."""
    out = tmp_path / "copy"
    shutil.copytree(whole / "toy", out / "toy")
    outcome = carry_out_toy(out, InThisProcess(stops_in_run=1))
    assert outcome.finished == 1
    assert read_csv(out / "toy" / "results.csv") == read_csv(whole / "toy" / "results.csv")
    assert set(statuses(out).values()) == {"finished"}


def test_noise_belongs_to_the_task(tmp_path: Path) -> None:
    noisy = replace(TOY, settings=(NOISY,), variants=TOY.variants[:1])
    carry_out_toy(tmp_path, InThisProcess(), seeds=1, experiment=noisy)
    assert {row["task"] for row in read_csv(tmp_path / "toy" / "results.csv")} == {"toy-levers+reward-noise"}
    (entry,) = provenance(tmp_path)["runs"]
    config = json.loads((tmp_path / entry["folder"] / "config.json").read_text())
    assert config["reward_noise"] == 0.1
    assert entry["folder"].startswith("runs/toy-levers/decqn-seed0-")


def test_stability_is_measured_from_every_update(tmp_path: Path) -> None:
    stability = replace(TOY, overrides={"log_every": 1}, measures_stability=True, variants=TOY.variants[:1])
    carry_out_toy(tmp_path, InThisProcess(), seeds=1, experiment=stability)
    (row,) = read_csv(tmp_path / "toy" / "cvar.csv")
    assert (row["variant"], row["task"], row["seed"], row["updates"]) == ("decqn", "toy-levers", "0", "50")
    path = run_path(tmp_path, planned(1, (), stability)[0].config)
    norms = [float(row["gradient_norm"]) for row in rows(path, "metrics.csv")]
    jumps = sorted(later - earlier for earlier, later in itertools.pairwise(norms))
    # 49 differences: the 95% quantile lies at rank 48 · 0.95 = 45.6, so the largest three are above it
    assert float(row["cvar95"]) == pytest.approx(sum(jumps[-3:]) / 3)


def test_scales_do_not_mix(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "copy"
    shutil.copytree(whole, out)
    other = replace(SCALE, name="laptop")
    with pytest.raises(UserError, match=r"holds results at smoke scale \(toy\).*choose another --out"):
        Ledger(TOY, other, planned(), out)


def test_a_variant_does_not_change_its_meaning(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "copy"
    shutil.copytree(whole, out)
    other = replace(TOY, variants=(replace(TOY.variants[0], overrides={"algo": "decqn", "n_step": 1}),))
    with pytest.raises(UserError, match=r"decqn with algo decqn, critics 1, hidden_size 32, .* which cannot be mixed"):
        carry_out_toy(out, InThisProcess(), experiment=other)


def test_a_wrong_folder_in_a_runs_place_is_refused(tmp_path: Path) -> None:
    first, second = planned()[:2]
    carry_out_toy(tmp_path, InThisProcess(), seeds=1)
    shutil.rmtree(run_path(tmp_path, first.config))
    run_path(tmp_path, second.config).rename(run_path(tmp_path, first.config))
    with pytest.raises(UserError, match="holds another run than its name says"):
        carry_out_toy(tmp_path, InThisProcess(), seeds=1)


COMPUTED = ComputedExperiment("sums", "Sums", "No figure", "Sums.", "revalued.experiments.sums:sum_rows")


def test_a_computed_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def sum_rows(scale: str, report: Any) -> list[dict[str, Any]]:
        calls.append(scale)
        report(1.0)
        return [{"a": 1, "b": 2.5}]

    module = SimpleNamespace(sum_rows=sum_rows)
    monkeypatch.setattr(runner.importlib, "import_module", lambda name: module)  # type: ignore[attr-defined]
    for _ in range(2):  # the second time it is there already
        runner.compute_experiment(COMPUTED, SCALES["smoke"], tmp_path, Overview())
    assert calls == ["smoke"]
    assert (tmp_path / "sums" / "results.csv").read_text() == "a,b\n1,2.5\n"
    data = provenance(tmp_path, "sums")
    assert (data["experiment"], data["scale"], data["runs"]) == ("sums", "smoke", [])
    with pytest.raises(UserError, match="at smoke scale, not laptop: choose another --out"):
        runner.compute_experiment(COMPUTED, SCALES["laptop"], tmp_path, Overview())
