"""What a run does about checkpoints that are damaged, do not fit, or cannot be written."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cluster_helpers import session
from revalued.cli import main
from revalued.errors import UserError
from revalued.run.folder import RunFolder
from revalued.run.start import resume, start
from run_helpers import checkpoints_in, evolve, full_disk, newest, quick_config, sign, stop_after, train, truncate


def test_a_full_disk_ends_a_run_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = quick_config("toy-levers")
    start(config, tmp_path / "run", should_stop=stop_after(30))
    monkeypatch.setattr(np, "save", full_disk)
    assert main(["resume", str(tmp_path / "run"), "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "No space left" in line
    assert newest(tmp_path / "run").meta["env_steps"] == 150


def test_a_resumed_run_falls_back_and_heals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = quick_config("toy-levers", checkpoint_every=20)
    path = tmp_path / "run"
    start(config, path, should_stop=stop_after(65))
    older, newer = checkpoints_in(path)
    truncate(newer)
    assert main(["resume", str(path), "--quiet"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: checkpoint {newer.name} is damaged")
    expected = newest(train(config, tmp_path / "uninterrupted")).tensors
    assert all(torch.equal(tensor, expected[name]) for name, tensor in newest(path).tensors.items())
    assert older not in checkpoints_in(path)


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("misfit") / "run"
    start(quick_config("toy-levers"), path, should_stop=stop_after(40))
    return path


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": 48},
        {"critics": 3},
        {"num_envs": 7},
        {"replay_capacity": 1000},
        {"n_step": 5},
        {"discount": 0.9},
        {"task": "toy-counting"},
        {"head": "dueling", "decomposition": "branch"},
    ],
    ids=str,
)
def test_a_checkpoint_that_does_not_fit_its_configuration(
    change: dict[str, Any], unfinished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run"
    shutil.copytree(unfinished, path)
    folder = RunFolder.open(path)
    folder.write_config(evolve(folder.config(), **change))
    assert main(["resume", str(path), "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "does not match config.json" in line


def test_a_checkpoint_of_the_other_way_to_collect(tmp_path: Path) -> None:
    """Lanes have unfinished episodes to go on with, actors have incarnations: neither can stand in for the other."""
    lanes = quick_config("toy-levers", num_envs=4)
    actors = evolve(lanes, num_envs=2, actors=2)
    path, _ = start(lanes, tmp_path / "lanes", should_stop=stop_after(10))
    with pytest.raises(ValueError, match="by a run without actors"):
        session(actors, path)
    session(actors, tmp_path / "actors").run(stop_after(10))
    RunFolder.open(tmp_path / "actors").write_config(lanes)
    with pytest.raises(UserError, match=r"does not match config\.json: it was written by a run with actors"):
        resume(tmp_path / "actors")


def test_evaluating_a_checkpoint_that_does_not_fit(
    unfinished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run"
    shutil.copytree(unfinished, path)
    folder = RunFolder.open(path)
    folder.write_config(evolve(folder.config(), hidden_size=48))
    assert main(["evaluate", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "does not match config.json" in line


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"task": 3}'])
def test_a_configuration_that_cannot_be_read(
    text: str, unfinished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run"
    shutil.copytree(unfinished, path)
    (path / "config.json").write_text(text)
    for command in ("resume", "evaluate"):
        assert main([command, str(path)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "config" in line


def test_lanes_that_do_not_fit(unfinished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything agrees but the lanes: only somebody's hand can do that, and still there is no traceback."""
    path = tmp_path / "run"
    shutil.copytree(unfinished, path)
    (checkpoint,) = checkpoints_in(path)
    for name in ("lanes.observations.npy", "lanes.lengths.npy"):
        array = np.load(checkpoint / "arrays" / name)
        np.save(checkpoint / "arrays" / name, array[:-1])
        sign(checkpoint, f"arrays/{name}")
    assert main(["resume", str(path), "--quiet"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
