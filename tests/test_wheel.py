"""The wheel: what is in it, what it says about itself, and that it works where nothing else of the project is."""

from __future__ import annotations

import email
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from doc_pages import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TRAIN = (
    "train toy-levers --env-steps 300 --critics 2 --hidden-size 16 --batch-size 16 --warmup-env-steps 100 --threads 1"
)


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build from a copy of the sources, so that nothing is left behind in the tree; no network is needed."""
    folder = tmp_path_factory.mktemp("build")
    copy = folder / "project"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for name in ("src", "tests", "benchmarks", "docs"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, cwd=copy)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.slow
def test_what_is_in_it(wheel: Path) -> None:
    assert wheel.name == f"revalued-{PROJECT['version']}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    info = f"revalued-{PROJECT['version']}.dist-info"
    assert sources | {"revalued/py.typed", f"{info}/licenses/LICENSE"} <= names
    assert {name.split("/")[0] for name in names} == {"revalued", info}


@pytest.mark.slow
def test_what_it_says_about_itself(wheel: Path) -> None:
    info = f"revalued-{PROJECT['version']}.dist-info"
    files = zipfile.ZipFile(wheel)
    facts = email.message_from_bytes(files.read(f"{info}/METADATA"))
    assert facts["Name"] == "revalued"
    assert facts["License-Expression"] == "MIT"
    assert facts["Requires-Python"] == ">=3.11"
    assert facts["Description-Content-Type"] == "text/markdown"
    assert "factorised action spaces" in facts["Summary"]
    assert set(facts.get_all("Provides-Extra") or []) == set(PROJECT["optional-dependencies"])
    assert "revalued = revalued.cli:main" in files.read(f"{info}/entry_points.txt").decode()


@pytest.mark.slow
def test_it_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    here, there = (
        Path(sysconfig.get_path("purelib")),
        Path(run(python, "-c", "import site; print(site.getsitepackages()[0])", cwd=tmp_path).strip()),
    )
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    # a path file among the path's files is not read: dependencies are found, this project's sources are not
    (there / "dependencies.pth").write_text(f"{here}\n")
    place = run(python, "-c", "import revalued; print(revalued.__file__)", cwd=tmp_path).strip()
    assert Path(place).is_relative_to(there)
    revalued = home / "bin" / "revalued"
    assert run(revalued, "--version", cwd=tmp_path) == f"revalued {PROJECT['version']}\n"
    assert "300" in run(revalued, *TRAIN.split(), cwd=tmp_path)
    assert (tmp_path / "runs" / "toy-levers" / "revalued-seed0" / "summary.json").is_file()
    assert "2 episodes" in run(revalued, "evaluate", "runs/toy-levers/revalued-seed0", "--episodes", "2", cwd=tmp_path)


def test_every_version_is_the_same() -> None:
    import revalued

    assert PROJECT["version"] == revalued.__version__
    assert f"\nversion: {revalued.__version__}\n" in (ROOT / "CITATION.cff").read_text()
