"""What was once a traceback, a hang or the wrong thing blamed: one clear line each."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from revalued.cli import main
from revalued.envs import EnvFault, LaneError, TaskSpec, find_task, lanes_from
from revalued.errors import UserError
from run_helpers import command, end, quick_config, train


class Answering(gymnasium.Env[Any, Any]):
    """Returns from every step what it was made with."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.MultiDiscrete([2, 2])

    def __init__(self, reward: Any = 1.0, terminated: Any = False, truncated: Any = False, info: Any = None) -> None:
        self._answer = (reward, terminated, truncated, {} if info is None else info)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), *self._answer


def stepped(**answer: Any) -> tuple[Any, ...]:
    env = find_task(TaskSpec("custom:it"), lambda: Answering(**answer)).make()
    env.reset(seed=0)
    return env.step(np.zeros(2, np.int64))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"terminated": np.array([True, False])}, r"^terminated should be True or False, it is array\(\[ True, False"),
        ({"terminated": None}, "^terminated should be True or False, it is None"),
        ({"truncated": "no"}, "^truncated should be True or False, it is 'no'"),
        ({"truncated": 2}, "^truncated should be True or False, it is 2"),
        ({"reward": None}, "^the reward should be a number, it is None"),
        ({"reward": np.zeros(5000)}, r"^the reward should be a number, it is array.{,80}$"),
        ({"info": ["info"]}, r"^info should be a dictionary, it is \['info'\]"),
    ],
)
def test_the_right_thing_is_blamed(answer: dict[str, Any], words: str) -> None:
    with pytest.raises(EnvFault, match=words):
        stepped(**answer)


@pytest.mark.parametrize("flag", [True, np.True_, 1, 1.0, np.array(True), np.array([1])])
def test_whatever_means_true_is_true(flag: Any) -> None:
    assert stepped(terminated=flag)[2] is True
    assert stepped(truncated=flag)[3] is True


class Raising(Answering):
    """Raises in its first step."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    def step(self, action: Any) -> Any:
        raise self._error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SystemExit(3), "SystemExit: 3$"),
        (RuntimeError("one\ntwo\n" + "x" * 5000), r"RuntimeError: one two x+\.\.\.$"),
        (AssertionError(), "AssertionError:$"),
    ],
)
def test_whatever_an_environment_raises_is_one_line(error: BaseException, words: str) -> None:
    lanes = lanes_from(find_task(TaskSpec("custom:it"), lambda: Raising(error)), range(1), 0, 0)
    lanes.reset()
    lanes.step_async(np.zeros((1, 2), np.int64))
    with pytest.raises(LaneError) as raised:
        lanes.step_wait()
    assert re.search(words, str(raised.value))  # without the traceback that is noted beside it
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize("name", ["action_space", "observation_space"])
def test_an_environment_without_a_space_is_one_line(name: str) -> None:
    class Without(gymnasium.Env[Any, Any]):
        def __init__(self) -> None:
            if name != "action_space":
                self.action_space = spaces.MultiDiscrete([2, 2])

    with pytest.raises(UserError, match=f"^the environment does not tell its {name}: AttributeError"):
        find_task(TaskSpec("custom:it"), Without)


def test_a_constructor_without_render_mode_is_no_obstacle() -> None:
    gymnasium.register("WithoutRenderMode-v0", lambda **settings: Answering(**settings))
    assert find_task(TaskSpec("gym:WithoutRenderMode-v0")).info.sizes == (2, 2)
    with pytest.raises(UserError, match="cannot be built: TypeError"):
        find_task(TaskSpec("gym:WithoutRenderMode-v0")).make("rgb_array")


@pytest.mark.parametrize("name", ["evaluate", "inspect"])
def test_a_seed_below_0_is_one_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = train(quick_config("toy-levers"), tmp_path / "run")
    assert main([name, str(path), "--seed", "-1"]) == 2
    assert capsys.readouterr().err == "revalued: seed = -1 is not possible: it must be at least 0\n"


def test_a_terminal_without_our_signs(tmp_path: Path) -> None:
    path = train(quick_config("toy-levers"), tmp_path / "run")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(command("evaluate", path), env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "mean return" in ended.stdout


@pytest.mark.parametrize("name", ["train", "evaluate"])
def test_a_path_that_is_no_text_is_one_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = os.fsdecode(bytes(tmp_path / "bad") + b"\xff\xfe")
    words = ["train", "toy-levers", "--out", path] if name == "train" else ["evaluate", path]
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "is no UTF-8 text" in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("delay", [0.2, 0.5, 1.0, 1.8])
def test_ctrl_c_while_everything_is_imported(delay: float, tmp_path: Path) -> None:
    words = command("train", "toy-levers", "--env-steps", "100000000", "--out", tmp_path / "run", "--quiet")
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        end(process)
    *_, last = errors.splitlines()
    assert process.returncode == 130
    assert last == "revalued: interrupted" or last.startswith("stopped; go on with: ")
    assert "Traceback" not in errors


def test_what_cannot_be_written_is_not_computed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import revalued.experiments.theorems as theorems

    for name in [name for name in vars(theorems) if "rows" in name]:
        monkeypatch.delattr(theorems, name)  # whoever asks for them fails
    assert main(["reproduce", "theorems", "--out", "/proc/x"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("revalued: ")
    assert "/proc/x" in line


@pytest.mark.parametrize("words", [["reproduce", "main"], ["sweep", "toy-levers"]])
def test_so_many_seeds_are_refused_at_once(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--seeds", "999999999999", "--dry-run"]) == 2
    expected = "revalued: seeds = 999999999999 is not possible: it must be at least 1 and at most 10,000\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    "words",
    [
        ["reproduce", "main", "--scale", "laptop", "--seeds", "10000"],
        ["sweep", "toy-levers", "--seeds", "10000", "--critics", "1,2,3,4", "--n-step", "1,2,3,4"],
    ],
)
def test_so_many_runs_are_refused_at_once(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--dry-run"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("revalued: these are ")
    assert line.endswith(" runs: at most 100,000 are possible at a time")
    many = ",".join(map(str, range(1, 5000)))
    assert main(["sweep", "toy-levers", "--critics", many, "--dry-run"]) == 2
    expected = "revalued: --critics has 4,999 values: at most 100 are possible in a sweep\n"
    assert capsys.readouterr().err == expected


def test_a_page_that_cannot_be_written_is_not_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = train(quick_config("toy-levers"), tmp_path / "run")
    monkeypatch.delattr("revalued.report.inspection.page.page_of")  # whoever asks for it fails
    assert main(["inspect", str(path), "-o", "/proc/page.html"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("revalued: [Errno")
