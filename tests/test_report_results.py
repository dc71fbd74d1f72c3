"""Reading results: what is understood, what is refused, which runs count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from report_data import write_csv, write_cvar, write_provenance, write_training
from revalued.errors import UserError
from revalued.experiments.result_files import RESULT_COLUMNS
from revalued.report import results

LEVELS = {("revalued", "walker-walk"): 500.0, ("decqn", "walker-walk"): 400.0}


def row(**changes: object) -> dict[str, object]:
    base = {"experiment": "mine", "variant": "a", "task": "t", "seed": 0, "updates": 10, "env_steps": 100}
    return base | {"return": 1.5, "wall_s": 2.5} | changes


def test_an_experiment_is_read_back(tmp_path: Path) -> None:
    write_training(tmp_path, "main", LEVELS, unfinished={("decqn", "walker-walk", 1): "failed"})
    (tmp_path / "runs" / "walker-walk").mkdir(parents=True)  # where the run folders live
    found = results.load_results(tmp_path)
    assert list(found) == ["main"]
    main = found["main"]
    assert main.tasks == ["walker-walk"]
    assert main.variants == ["revalued", "decqn"]
    assert [run.seed for run in main.of("revalued", "walker-walk")] == [0, 1]
    assert [run.seed for run in main.of("decqn", "walker-walk")] == [0]
    assert len(main.of("decqn", "walker-walk", finished_only=False)) == 2
    assert main.of("revalued", "walker-walk")[0].env_steps[-1] == 120_000
    assert [run["status"] for run in main.unfinished()] == ["failed"]
    assert main.scale == "laptop scale: K = 3, 120,000 interactions, 1 to 2 seeds"
    assert main.scale_note.startswith("Laptop scale: 120,000 interactions per run (paper: 500,000)")


def test_planned_but_missing_tasks_and_variants_are_known(tmp_path: Path) -> None:
    write_training(tmp_path, "main", LEVELS, unfinished={("decqn", "walker-walk", s): "missing" for s in (0, 1)})
    assert results.load_results(tmp_path)["main"].variants == ["revalued", "decqn"]


def test_tasks_come_in_the_paper_s_order_whatever_was_run_first(tmp_path: Path) -> None:
    tasks = ("metaworld:reach-v3", "dog-walk", "cheetah-run@100", "cheetah-run", "reacher-hard")
    write_training(tmp_path, "main", {("decqn", task): 1.0 for task in tasks})
    found = results.load_results(tmp_path)["main"].tasks
    assert found[0] == "reacher-hard"
    assert found[-2:] == ["dog-walk", "metaworld:reach-v3"]
    assert set(found[1:3]) == {"cheetah-run", "cheetah-run@100"}


def test_without_provenance_a_run_counts_if_it_is_as_long_as_the_others_on_its_task(tmp_path: Path) -> None:
    rows = [
        row(),
        row(seed=1, env_steps=94),
        row(seed=2, env_steps=95, updates=9),
        row(seed=2, env_steps=50, updates=5),
        row(task="short", env_steps=10, wall_s=""),
    ]
    write_csv(tmp_path / "mine" / "results.csv", RESULT_COLUMNS, rows)
    found = results.load_results(tmp_path)["mine"]
    assert [(run.task, run.seed, run.finished) for run in found.runs] == [
        ("short", 0, True),
        ("t", 0, True),
        ("t", 1, False),
        ("t", 2, True),
    ]
    assert found.runs[3].env_steps.tolist() == [50, 95]
    assert found.scale == "a scale that is not recorded"


def test_further_columns_are_ignored(tmp_path: Path) -> None:
    write_csv(tmp_path / "sweep" / "results.csv", (*RESULT_COLUMNS, "length"), [row(length=1000)])
    assert len(results.load_results(tmp_path)["sweep"].runs) == 1


def test_cvar_alone_is_an_experiment(tmp_path: Path) -> None:
    write_cvar(tmp_path, {("decqn", "walker-walk"): [1.0, 2.0]})
    found = results.load_results(tmp_path)["stability"]
    assert found.tasks == ["walker-walk"]
    assert [entry["cvar95"] for entry in found.rows] == [1.0, 2.0]


def refused(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        results.load_results(folder)
    return str(caught.value)


def test_folders_without_results_are_refused(tmp_path: Path) -> None:
    assert "is no folder" in refused(tmp_path / "nowhere")
    assert "holds no results" in refused(tmp_path)
    (tmp_path / "file").write_text("x")
    assert "is no folder" in refused(tmp_path / "file")


def test_broken_tables_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine" / "results.csv"
    write_csv(path, [name for name in RESULT_COLUMNS if name != "wall_s"], [])
    assert "no column 'wall_s'" in refused(tmp_path)
    write_csv(path, RESULT_COLUMNS, [row(), row(**{"return": "high"})])
    assert "line 3, column 'return': 'high' is no number" in refused(tmp_path)
    write_csv(path, RESULT_COLUMNS, [row(env_steps="nan")])
    assert "'nan' is no number" in refused(tmp_path)
    path.write_text("")
    assert "no column 'experiment'" in refused(tmp_path)
    path.write_bytes(b"\xff\xfe\x00bad")
    assert "cannot be used" in refused(tmp_path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "cannot be used"),
        ("[]", "must hold one JSON object"),
        (json.dumps({"runs": [{"variant": "a"}]}), "runs[0] lacks seed, status, task"),
        (json.dumps({"variants": {"a": 3}}), "variants.'a' is 3"),
        (json.dumps({"tasks": "walker-walk"}), "tasks is 'walker-walk'"),
    ],
)
def test_broken_provenance_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    write_csv(tmp_path / "mine" / "results.csv", RESULT_COLUMNS, [row()])
    (tmp_path / "mine" / "provenance.json").write_text(text)
    assert complaint in refused(tmp_path)


def test_computed_experiments_need_their_own_columns(tmp_path: Path) -> None:
    write_csv(tmp_path / "theorems" / "results.csv", RESULT_COLUMNS, [])
    write_provenance(tmp_path / "theorems", "theorems")
    assert "no column 'theorem'" in refused(tmp_path)
