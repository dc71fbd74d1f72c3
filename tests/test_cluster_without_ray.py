"""Ray is an extra: nothing but actors needs it, and whoever asks for those without it is told what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import revalued
from revalued.cli import main
from revalued.errors import UserError
from revalued.run.start import start
from revalued.validation import validate
from run_helpers import evolve, quick_config

CONFIG = quick_config(actors=2)


@pytest.mark.slow
def test_training_and_the_command_line_never_import_ray(tmp_path: Path) -> None:
    program = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from revalued.run.start import start
from revalued.cli import main
from run_helpers import quick_config
start(quick_config(env_steps=150), Path({str(tmp_path)!r}) / "run")
main(["list", "algos"])
print([name for name in sys.modules if name.partition(".")[0] == "ray" or name.startswith("revalued.training.actors")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_ray_is_imported_in_one_file() -> None:
    source = Path(revalued.__file__).parent
    importing = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        for line in path.read_text().splitlines()
        if line.strip().startswith(("import ray", "from ray ", "from ray."))
    }
    assert importing == {"training/actors/ray_link.py"}


def test_without_ray_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # importing it now fails
    with pytest.raises(UserError, match=r"pip install 'revalued\[ray\]'"):
        start(CONFIG, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    code = main(["train", "toy-counting", "--actors", "2", "--out", str(tmp_path / "run"), "--quiet"])
    assert code == 2
    assert capsys.readouterr().err == "revalued: actors need Ray, which is not installed: pip install 'revalued[ray]'\n"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actors": -1}, "actors = -1 is not possible: it must be at least 0"),
        ({"workers": 1}, "give --actors or --workers, not both"),
        ({"block_steps": 0}, "block_steps = 0"),
        ({"max_staleness": -1}, "max_staleness = -1"),
        ({"cluster": ""}, "must be local, auto or HOST:PORT"),
        ({"replay_capacity": 69}, "replay_capacity = 69 is not possible: it must be at least 70 here"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, object], message: str) -> None:
    validate(CONFIG)
    with pytest.raises(UserError, match=message):
        validate(evolve(CONFIG, **changes))
