"""Result files of experiments that were crafted or damaged: one line that names the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from revalued.errors import UserError
from revalued.experiments.result_files import RESULT_COLUMNS, read_provenance, read_table
from revalued.report.results import load_results
from run_helpers import refusal

PROVENANCE: dict[str, Any] = {
    "seeds": [0],
    "tasks": ["walker-walk"],
    "variants": {"decqn": {"label": "DecQN", "overrides": {"critics": 1}}},
    "runs": [{"variant": "decqn", "task": "walker-walk", "seed": 0, "status": "finished"}],
}


@pytest.mark.parametrize(
    "change",
    [
        {"runs": [{"variant": "decqn", "task": "walker-walk", "seed": "x", "status": "finished"}]},
        {"runs": 3},
        {"runs": [[]]},
        {"seeds": "01"},
        {"tasks": [None]},
        {"variants": {"decqn": {"overrides": {"critics": [[]]}}}},
        {"variants": []},
        {"scale": 10**400},
        {"planned_env_steps": "many"},
        {"versions": {"numpy": None}},
    ],
)
def test_provenance_of_another_form(change: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "main"
    folder.mkdir()
    (folder / "results.csv").write_text(",".join(RESULT_COLUMNS) + "\nmain,decqn,walker-walk,0,1,5,1.0,2.0\n")
    (folder / "provenance.json").write_text(json.dumps(PROVENANCE))
    assert load_results(tmp_path)["main"].tasks == ["walker-walk"]
    (folder / "provenance.json").write_text(json.dumps({**PROVENANCE, **change}))
    for read in (lambda: load_results(tmp_path), lambda: read_provenance(folder)):
        with pytest.raises(UserError, match=r"provenance\.json cannot be used"):
            read()


@pytest.mark.parametrize("row", ["main,decqn,walker-walk,x,1,5,1.0,2.0", "main", "a,b,c,0,1,5,1.0,2.0,9,9", "\xff"])
def test_results_of_another_form(row: str, tmp_path: Path) -> None:
    table = tmp_path / "results.csv"
    table.write_bytes(f"{','.join(RESULT_COLUMNS)}\n{row}\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"results\.csv cannot be used"):
        read_table(table, RESULT_COLUMNS)


def test_a_run_folder_that_provenance_puts_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    elsewhere = {**PROVENANCE["runs"][0], "folder": "../../etc"}
    (tmp_path / "results" / "main").mkdir(parents=True)
    (tmp_path / "results" / "main" / "provenance.json").write_text(json.dumps({"runs": [elsewhere]}))
    words = ["main", "--scale", "smoke", "--seeds", "1", "--tasks", "toy-levers", "--quiet"]
    assert "is somewhere else" in refusal(capsys, "reproduce", *words)
