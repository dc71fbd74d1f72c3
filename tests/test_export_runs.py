"""Exported runs: one file that tells what it is, never written over another, and that runs without torch."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from export_helpers import session_of
from gym_envs import Kitchen
from revalued import export
from revalued.envs import MaskedLevers
from revalued.errors import UserError
from revalued.export import export_run
from revalued.run.load import load_run
from revalued.run.start import start
from run_helpers import checkpoints_in, evolve, quick_config, train, truncate

DOCUMENT = (Path(__file__).parents[1] / "docs" / "export.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(quick_config("gym:Pendulum-v1"), tmp_path_factory.mktemp("pendulum") / "run")


@pytest.fixture(scope="module")
def masked_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(quick_config("toy-masked"), tmp_path_factory.mktemp("masked") / "run")


def test_one_file_with_everything_about_it(run: Path, tmp_path: Path) -> None:
    metadata = export_run(run, tmp_path / "policy.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["policy.onnx"]
    model = onnx.load(tmp_path / "policy.onnx")
    onnx.checker.check_model(model, full_check=True)
    stored = {entry.key: entry.value for entry in model.metadata_props}
    assert stored == metadata
    assert (stored["task"], stored["algo"]) == ("gym:Pendulum-v1", "revalued")
    facts = {name: json.loads(value) for name, value in stored.items() if name not in ("task", "algo")}
    versions = facts.pop("versions")
    assert versions.keys() >= {"revalued", "torch", "numpy", "onnx", "python"}
    assert facts == {
        "format_version": 1,
        "seed": 0,
        "updates": 50,
        "env_steps": 350,
        "critics": 2,
        "observation_size": 3,
        "bins": 3,
        "action_repeat": 1,
        "names": ["action[0]"],
        "sizes": [3],
        "bounds": [[-2.0, 2.0]],
        "values": [[-2.0, 0.0, 2.0]],
        "masked": False,
    }


def test_it_acts_as_the_run(run: Path, masked_run: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number, path in enumerate((run, masked_run)):
        policy = load_run(path).policy
        out = tmp_path / f"{number}.onnx"
        export_run(path, out)
        observations = rng.standard_normal((1000, policy.shape.observation_size)).astype(np.float32)
        (chosen,) = session_of(out).run(["sub_actions"], {"observation": observations})
        assert np.array_equal(chosen, policy.greedy(observations))


def test_a_masked_environment_never_sees_an_illegal_choice(masked_run: Path, tmp_path: Path) -> None:
    export_run(masked_run, tmp_path / "policy.onnx")
    session, env = session_of(tmp_path / "policy.onnx"), MaskedLevers(strict=True)
    observation, info = env.reset(seed=0)
    for _ in range(10):
        given = {"observation": observation[None], "mask": info["action_mask"][None]}
        observation, _, terminated, _, info = env.step(session.run(["action"], given)[0][0])
    assert terminated


def test_nothing_is_replaced_unless_asked(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "policy.onnx"
    out.write_text("precious")
    with pytest.raises(UserError, match=r"already exists: choose another name, or replace it with --force"):
        export_run(run, out)
    assert out.read_text() == "precious"
    export_run(run, out, force=True)
    onnx.checker.check_model(out)


@pytest.mark.parametrize(
    ("name", "message"),
    [("policy.pt", "must be an .onnx file"), ("nowhere/policy.onnx", "no folder"), ("folder.onnx", "is a folder")],
)
def test_places_that_cannot_be_written_to(run: Path, tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(UserError, match=message):
        export_run(run, tmp_path / name)


def test_folders_that_hold_no_policy(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run folder"):
        export_run(tmp_path, tmp_path / "policy.onnx")
    path, _ = start(quick_config(), tmp_path / "run")
    for checkpoint in checkpoints_in(path):
        truncate(checkpoint)
    with pytest.raises(UserError, match="all are damaged"):
        export_run(path, tmp_path / "policy.onnx")
    for checkpoint in checkpoints_in(path):
        checkpoint.rename(tmp_path / checkpoint.name)
    with pytest.raises(UserError, match="no checkpoint yet"):
        export_run(path, tmp_path / "policy.onnx")
    assert not (tmp_path / "policy.onnx").exists()


def test_an_environment_of_your_own_is_not_needed_again(tmp_path: Path) -> None:
    path, _ = start(quick_config("custom:kitchen"), tmp_path / "run", env=Kitchen)
    metadata = export_run(path, tmp_path / "policy.onnx", env=Kitchen)
    assert json.loads(metadata["names"])[0] == "burner"
    assert export_run(path, tmp_path / "alone.onnx") == metadata
    assert (tmp_path / "alone.onnx").read_bytes() == (tmp_path / "policy.onnx").read_bytes()


def test_a_model_too_large_for_one_file_is_refused(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "_LARGEST_BYTES", 10_000)
    with pytest.raises(UserError, match="at most 2 GiB"):
        export_run(run, tmp_path / "policy.onnx")


def test_a_missing_package_is_named(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UserError, match=r"pip install 'revalued\[export\]'"):
        export_run(run, tmp_path / "policy.onnx")


def without_torch(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code where neither torch nor this package can be imported."""
    blocked = "import sys; sys.modules.update({name: None for name in ('torch', 'revalued', 'onnx', 'gymnasium')})\n"
    return subprocess.run([sys.executable, "-c", blocked + code], cwd=folder, capture_output=True, text=True)


def test_the_smallest_example_runs_without_torch(run: Path, tmp_path: Path) -> None:
    export_run(run, tmp_path / "policy.onnx")
    done = without_torch(EXAMPLES[0], tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert json.loads(lines[-1]) in ([[-2.0]], [[0.0]], [[2.0]])
    assert "ModuleNotFoundError" in without_torch("import torch", tmp_path).stderr


def test_the_example_with_a_mask(masked_run: Path, tmp_path: Path) -> None:
    export_run(masked_run, tmp_path / "policy.onnx")
    example = next(example for example in EXAMPLES if '"mask"' in example)
    done = without_torch(example + "\nprint(action.tolist())", tmp_path)
    assert done.returncode == 0, done.stderr
    ((first, second, third),) = json.loads(done.stdout.splitlines()[-1])
    assert (first, second) == (0, 2)
    assert 0 <= third < 5


def test_the_example_that_reads_the_metadata(run: Path, tmp_path: Path) -> None:
    export_run(run, tmp_path / "policy.onnx")
    example = next(example for example in EXAMPLES if "custom_metadata_map" in example)
    done = without_torch(example, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "gym:Pendulum-v1" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["decqn", "revalued", "bdq", "decqn-c51", "dqn"])
def test_every_algorithm_on_the_control_suite(algo: str, tmp_path: Path) -> None:
    path = train(evolve(quick_config("reacher-hard", algo), env_steps=200, eval_every=1000), tmp_path / "run")
    policy = load_run(path).policy
    export_run(path, tmp_path / "policy.onnx")
    observations = np.random.default_rng(0).standard_normal((10_000, 6)).astype(np.float32)
    chosen, action = session_of(tmp_path / "policy.onnx").run(["sub_actions", "action"], {"observation": observations})
    own = policy.shape.actions.to_environment(policy.greedy(observations))
    assert (chosen == own).mean() >= 0.999
    assert np.array_equal(action, np.array([-1.0, 0.0, 1.0])[chosen])
