"""Folders that are damaged, foreign or no runs at all: one clear line each, at every door."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from revalued import UserError, load
from revalued.cli import main
from revalued.envs import LeverGame
from revalued.run.folder import RunFolder
from revalued.run.start import evaluate, resume
from run_helpers import checkpoints_in, quick_config, sign, train, truncate
from test_agent import agent

CONFIG = quick_config("toy-levers", env_steps=150)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(CONFIG, tmp_path_factory.mktemp("errors") / "run")


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def rewrite(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def another_version(run: Path) -> None:
    (checkpoint,) = checkpoints_in(run)
    rewrite(checkpoint / "meta.json", format=99)
    sign(checkpoint, "meta.json")


def another_task(run: Path) -> None:
    (checkpoint,) = checkpoints_in(run)
    rewrite(checkpoint / "meta.json", task="walker-walk")
    sign(checkpoint, "meta.json")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda run: shutil.rmtree(run), "no run folder"),
        (lambda run: (run / "config.json").unlink(), "no run folder"),
        (lambda run: cut(run / "config.json"), r"config\.json cannot be used"),
        (lambda run: rewrite(run / "config.json", algoritm={}), "did you mean algorithm"),
        (lambda run: truncate(checkpoints_in(run)[0]), "all are damaged"),
        (lambda run: cut(checkpoints_in(run)[0] / "manifest.json"), "all are damaged"),
        (another_version, "checkpoint format 99"),
        (another_task, "is of the task walker-walk"),
    ],
)
@pytest.mark.filterwarnings("ignore:checkpoint env-steps")
def test_damaged_folders(run: Path, damage: Callable[[Path], object], message: str) -> None:
    damage(run)
    with pytest.raises(UserError, match=message):
        load(run)
    with pytest.raises(UserError, match=message):
        list(evaluate(run, 1, 0))
    with pytest.raises(UserError, match=message):
        resume(run, env_steps=200)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda run: (run / "eval.csv").write_bytes(b"\xff\xfe\x00updates"), r"eval\.csv cannot be used"),
        (lambda run: (run / "metrics.csv").write_text("nonsense\n1,2\n"), "its first line is not updates,"),
        (lambda run: cut(run / "summary.json"), r"summary\.json cannot be used"),
        (lambda run: (run / "summary.json").write_text("[]"), r"summary\.json cannot be used"),
        (lambda run: (run / "wandb.json").write_text("[]"), r"wandb\.json cannot be used"),
    ],
)
def test_damaged_tables_are_noticed_when_learning_goes_on(
    run: Path, damage: Callable[[Path], object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    damage(run)
    with pytest.raises(UserError, match=message):
        load(run, folder=run).learn(50, wandb="wandb" in message)


def test_a_damaged_newest_checkpoint_is_left_out_with_a_warning(tmp_path: Path) -> None:
    run = train(quick_config("toy-levers", checkpoint_every=10), tmp_path / "run")
    truncate(checkpoints_in(run)[-1])
    with pytest.warns(UserWarning, match="damaged and left out"):
        assert load(run).env_steps < 350


def test_a_refused_resume_changes_nothing(run: Path) -> None:
    another_task(run)
    with pytest.raises(UserError):
        resume(run, env_steps=9_999)
    assert RunFolder.open(run).config().schedule.env_steps == 150


def test_the_wrong_environment(tmp_path: Path) -> None:
    """Sizes (2, 3) and (3, 2) are padded to the same tensors; only what the checkpoint says tells them apart."""
    one = agent(lambda: LeverGame((2, 3)))
    path = one.learn(50).save(tmp_path / "saved")
    for sizes, colours in (((3, 2), 4), ((2, 3), 3), ((2, 3, 4), 4)):
        with pytest.raises(UserError, match=r"trained with observations of 5 numbers and actions of sizes \[2, 3\]"):
            load(path, env=lambda sizes=sizes, colours=colours: LeverGame(sizes, colours))
    assert load(path, env=lambda: LeverGame((2, 3))).env_steps == 50
    named = agent("toy-levers").learn(5).save(tmp_path / "named")
    with pytest.raises(UserError, match="contradict each other"):
        load(named, env=LeverGame)


def test_flags_of_logging(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run"
    assert main(["train", "toy-levers", "--wandb-project", "mine", "--out", str(path)]) == 2
    assert "but not --wandb" in capsys.readouterr().err
    assert not path.exists()
    quiet = ["--env-steps", "5", "--hidden-size", "8", "--threads", "1", "--quiet"]
    assert main(["train", "toy-levers", *quiet, "--no-tensorboard", "--out", str(path)]) == 0
    assert not (path / "tensorboard").exists()
    assert main(["resume", str(path), "--env-steps", "10", "--quiet"]) == 0
    assert (path / "tensorboard").is_dir()


def test_wandb_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("revalued.run.loggers.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'revalued\[wandb\]'"):
        agent("toy-levers", folder=tmp_path / "run").learn(5, wandb=True)
    assert not (tmp_path / "run").exists()
