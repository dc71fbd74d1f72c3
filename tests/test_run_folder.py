"""The run folder: what is in it, and that nothing in it is ever lost."""

from __future__ import annotations

import csv
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from revalued.cli import main
from revalued.config import from_dict, to_dict
from revalued.errors import UserError
from revalued.run.files import Table, read_json, replace_file, replacing, write_json
from revalued.run.folder import EVAL_COLUMNS, METRIC_COLUMNS, RunFolder, default_path
from revalued.run.prepare import prepare
from revalued.run.start import resume, start
from run_helpers import evolve, quick_config, rows, stop_after, train

CONFIG = quick_config("toy-levers")
ACTORS_ONLY = {"staleness", "max_staleness"}
"""Columns of runs with actors; empty in all others."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(CONFIG, tmp_path_factory.mktemp("folder") / "run")


def header(file: Path) -> tuple[str, ...]:
    with file.open(newline="") as lines:
        return tuple(next(csv.reader(lines)))


def test_contents(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    assert names == {"config.json", "eval.csv", "metrics.csv", "summary.json", "checkpoint", "tensorboard"}
    assert [path.name for path in (finished / "checkpoint").iterdir()] == ["env-steps-000000000350"]


def test_configuration_comes_back(finished: Path) -> None:
    written = json.loads((finished / "config.json").read_text())
    assert from_dict(written) == RunFolder.open(finished).config() == prepare(CONFIG).config
    assert to_dict(from_dict(written)) == written


def test_auto_is_written_as_what_it_stood_for(tmp_path: Path) -> None:
    config = evolve(CONFIG, env_steps=5, device="auto", threads=None)
    path, _ = start(config, tmp_path / "run")
    execution = RunFolder.open(path).config().execution
    assert execution.device in ("cpu", "cuda")
    assert execution.threads == len(os.sched_getaffinity(0))


def test_tables(finished: Path) -> None:
    columns = ("updates", "env_steps", "return", "length", "success", "wall_seconds")
    assert header(finished / "eval.csv") == EVAL_COLUMNS == columns
    assert header(finished / "metrics.csv") == METRIC_COLUMNS
    assert [row["updates"] for row in rows(finished, "eval.csv")] == ["20", "40", "50"]
    assert [row["updates"] for row in rows(finished, "metrics.csv")] == ["15", "30", "45"]
    for row in rows(finished, "metrics.csv"):
        assert {name for name, value in row.items() if value == ""} == ACTORS_ONLY
    for row in rows(finished, "eval.csv"):
        assert 0 <= float(row["return"]) <= 10
        assert float(row["length"]) == 10


def test_summary(finished: Path) -> None:
    summary = json.loads((finished / "summary.json").read_text())
    returns = [float(row["return"]) for row in rows(finished, "eval.csv")]
    updates = [int(row["updates"]) for row in rows(finished, "eval.csv")]
    assert summary["finished"] is True
    assert (summary["task"], summary["algo"], summary["seed"]) == ("toy-levers", "revalued", 0)
    assert (summary["updates"], summary["env_steps"], summary["train_episodes"]) == (50, 350, 35)
    assert summary["final_return"] == returns[-1]
    assert summary["best_return"] == max(returns)
    assert summary["best_at_updates"] == updates[returns.index(max(returns))]
    assert summary["wall_seconds"] > 0
    assert {"python", "revalued", "torch", "numpy", "mujoco"} <= summary["versions"].keys()
    assert summary["machine"].keys() == {"system", "architecture", "processor", "cores"}


def scalars(path: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(path / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def expected_scalars(path: Path, table: str, column: str) -> list[tuple[int, Any]]:
    return [(int(row["updates"]), pytest.approx(float(row[column]), rel=1e-6)) for row in rows(path, table)]


def test_tensorboard_shows_the_tables(finished: Path) -> None:
    found = scalars(finished)
    assert found["eval/return"] == expected_scalars(finished, "eval.csv", "return")
    for column in METRIC_COLUMNS[2:-1]:
        assert len(found.get(f"train/{column}", [])) == (0 if column in ACTORS_ONLY else 3)
    assert found["train/loss"] == expected_scalars(finished, "metrics.csv", "loss")


def test_tensorboard_after_a_kill_and_a_resume(tmp_path: Path) -> None:
    """Events after the last checkpoint are written again; TensorBoard must show each of them once."""
    path = tmp_path / "run"
    start(evolve(CONFIG, checkpoint_every=18), path, should_stop=stop_after(68))
    for checkpoint in sorted((path / "checkpoint").iterdir())[1:]:  # as if the last ones had never been written
        checkpoint.rename(tmp_path / checkpoint.name)
    # The names of event files begin with the second they were made in, and are read in this order.
    second = int(time.time())
    while int(time.time()) == second:
        time.sleep(0.05)
    assert resume(path).finished
    found = scalars(path)
    assert found["eval/return"] == expected_scalars(path, "eval.csv", "return")
    assert found["train/loss"] == expected_scalars(path, "metrics.csv", "loss")
    assert [step for step, _ in found["eval/return"]] == [20, 40, 50]


def test_an_unfinished_run_says_so(tmp_path: Path) -> None:
    path, _ = start(CONFIG, tmp_path / "run", should_stop=stop_after(10))
    summary = RunFolder.open(path).summary()
    assert summary is not None
    assert summary["finished"] is False
    assert summary["final_return"] is None
    resume(path)
    summary = RunFolder.open(path).summary()
    assert summary is not None
    assert summary["finished"] is True


def test_wall_time_goes_on_after_a_resume(tmp_path: Path) -> None:
    path, _ = start(CONFIG, tmp_path / "run", should_stop=stop_after(50))
    resume(path)
    wall = [float(row["wall_seconds"]) for row in RunFolder.open(path).eval_table.rows()]
    assert wall == sorted(wall)


def test_a_folder_that_exists_is_never_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "thesis"
    path.mkdir()
    (path / "chapter1.txt").write_text("years of work")
    with pytest.raises(UserError, match="already exists"):
        start(CONFIG, path)
    assert main(["train", "toy-levers", "--out", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "already exists" in line
    assert [file.name for file in path.iterdir()] == ["chapter1.txt"]
    assert main(["train", "toy-levers", "--out", str(path / "chapter1.txt")]) == 2
    assert (path / "chapter1.txt").read_text() == "years of work"


def test_an_empty_folder_is_fine(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    start(evolve(CONFIG, env_steps=5), tmp_path / "empty")


def test_default_paths_are_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = evolve(CONFIG, env_steps=5, seed=4)
    paths = [str(start(config)[0]) for _ in range(3)]
    base = "runs/toy-levers/revalued-seed4"
    assert paths == [base, f"{base}-2", f"{base}-3"]
    assert default_path("gym:Taxi/v3", "dqn", 0) == Path("runs/gym-Taxi-v3/dqn-seed0")


def test_only_one_process_trains_in_a_folder(tmp_path: Path) -> None:
    path, _ = start(CONFIG, tmp_path / "run", should_stop=stop_after(10))
    folder = RunFolder.open(path)
    with folder.locked(), pytest.raises(UserError, match="in use"):
        resume(path, env_steps=1_000)
    assert folder.config().schedule.env_steps == CONFIG.schedule.env_steps, "the refused resume changed nothing"
    assert resume(path).finished


def test_tables_survive_half_a_row(tmp_path: Path) -> None:
    table = Table(tmp_path / "table.csv", ("updates", "loss", "note"))
    table.create()
    for updates in (10, 20, 30):
        table.add({"updates": updates, "loss": 0.5})
    with table.path.open("a") as file:
        file.write("40,0.")
    assert [row["updates"] for row in table.rows()] == ["10", "20", "30"]
    table.forget_after(20)
    assert table.path.read_text().splitlines() == ["updates,loss,note", "10,0.5,", "20,0.5,"]
    with pytest.raises(ValueError, match="no column"):
        table.add({"updates": 50, "los": 1})


def test_a_missing_table_is_made_again(tmp_path: Path) -> None:
    path, _ = start(CONFIG, tmp_path / "run", should_stop=stop_after(10))
    (path / "eval.csv").unlink()
    resume(path)
    assert len(rows(path, "eval.csv")) == 3


def test_configurations_that_were_edited_by_hand(finished: Path) -> None:
    data = to_dict(CONFIG)
    with pytest.raises(UserError, match=r"did you mean learner\.hidden_size"):
        from_dict({**data, "learner": {**data["learner"], "hiden_size": 3}})
    with pytest.raises(UserError, match="missing"):
        from_dict({key: value for key, value in data.items() if key != "task"})
    with pytest.raises(UserError, match="wrong type"):
        from_dict({**data, "seed": "zero"})
    assert from_dict(data) == replace(CONFIG)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    replace_file(path, "first")

    def stumble() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half of the sec")
            assert path.read_text() == "first"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stumble()
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("notes.txt", "first")]
    replace_file(path, b"second")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("notes.txt", "second")]


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b"3", b"\xff"])
def test_json_that_is_no_object_is_refused_by_name(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"facts\.json cannot be used"):
        read_json(path, dict[str, Any])
    write_json(path, {"é": 1})
    assert read_json(path, dict[str, Any]) == {"é": 1}
