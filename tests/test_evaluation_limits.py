"""Test episodes that never end are cut off; those that are stopped in their middle are held again, to the bit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from revalued import REValueD
from revalued.config import TrainConfig
from revalued.errors import UserError
from revalued.run.progress import Silent
from revalued.run.start import evaluate, resume, start
from revalued.training import evaluation
from run_helpers import assert_same_run, end, flags_of, newest, quick_config, rows, train, wait_for

STOPPED: dict[str, TrainConfig] = {
    "one update in a cycle": quick_config("toy-levers", eval_every=7),
    "several updates in a cycle": quick_config(
        "toy-levers", env_steps=200, updates_per_env_step=1.0, eval_every=3, checkpoint_every=4
    ),
    "normalised observations and noise": quick_config(
        "toy-counting", env_steps=200, updates_per_env_step=0.6, eval_every=4, eval_episodes=2,
        normalise_observations=True, state_noise=0.1, reward_noise=0.1,
    ),
    "masks": quick_config("toy-masked", env_steps=200, updates_per_env_step=1.0, eval_every=8),
    "beyond the paper": quick_config(
        "toy-counting", env_steps=400, action_repeat=2, updates_per_env_step=0.6, eval_every=4, target_critics=1,
        act_with="critic-per-episode", epsilon_schedule="exploratory-actions", epsilon_decay=0.98,
    ),
    "every combination of the choices": quick_config(
        "toy-levers", "dqn", env_steps=200, updates_per_env_step=1.0, eval_every=4
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STOPPED)
def test_a_run_stopped_within_test_episodes_equals_one_never_stopped(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = STOPPED[name]
    whole = train(config, tmp_path / "whole")
    monkeypatch.setattr(evaluation, "SECONDS_BETWEEN_QUESTIONS", 0.0)  # asked after every step of an episode
    rng = np.random.default_rng(5)
    stopped = tmp_path / "stopped"

    def should_stop() -> bool:
        return bool(rng.random() < 0.015)

    _, outcome = start(config, stopped, should_stop=should_stop)
    stops = in_the_middle = 0
    while not outcome.finished:
        stops += 1
        in_the_middle += "lanes.chosen" in newest(stopped).arrays
        outcome = resume(stopped, should_stop=should_stop)
    assert stops > 2
    assert in_the_middle > 0, "no stop fell into test episodes"
    assert_same_run(whole, stopped)


def test_stopped_within_the_very_last_test_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = quick_config("toy-levers", eval_every=10_000)
    whole = train(config, tmp_path / "whole")
    monkeypatch.setattr(evaluation, "SECONDS_BETWEEN_QUESTIONS", 0.0)
    cycles = config.schedule.env_steps // config.schedule.num_envs
    left = iter(range(cycles + 1))
    _, outcome = start(config, tmp_path / "stopped", should_stop=lambda: next(left, None) is None)
    assert (outcome.finished, outcome.summary["env_steps"]) == (False, config.schedule.env_steps)
    assert rows(tmp_path / "stopped", "eval.csv") == []
    assert resume(tmp_path / "stopped").finished
    assert_same_run(whole, tmp_path / "stopped")


def test_damaged_actions_in_the_middle_of_a_cycle_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "SECONDS_BETWEEN_QUESTIONS", 0.0)
    path = tmp_path / "run"
    asked: list[int] = []

    def should_stop() -> bool:
        asked.append(len(rows(path, "metrics.csv")) if path.exists() else 0)
        return asked[-1] > 0  # a row of the log is written right before the test episodes of this run

    start(quick_config("toy-levers", eval_every=5, log_every=5), path, should_stop=should_stop)
    (file,) = (path / "checkpoint").glob("*/arrays/lanes.chosen.npy")
    actions = np.load(file)
    for wrong in (actions - 1, actions + 100, actions[:-1], actions.astype(np.float32)):
        np.save(file, wrong)
        _sign(file)
        with pytest.raises(UserError, match="its actions"):
            resume(path)


def _sign(file: Path) -> None:
    """Make the checkpoint's checksums right again."""
    folder = file.parents[1]
    manifest = json.loads((folder / "manifest.json").read_text())
    data = file.read_bytes()
    manifest[str(file.relative_to(folder))] = {"bytes": len(data), "crc32": zlib.crc32(data)}
    (folder / "manifest.json").write_text(json.dumps(manifest))


class Endless(gymnasium.Env[Any, Any]):
    """Never ends an episode."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.MultiDiscrete([2, 2])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(2, np.float32), 1.0, False, False, {}


def test_an_episode_without_end_is_cut_off_and_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = quick_config("custom:endless", env_steps=350, eval_every=10, max_eval_steps=30)
    path, outcome = start(config, tmp_path / "run", Silent(), env=Endless)
    assert outcome.finished
    assert [(row["length"], row["return"]) for row in rows(path, "eval.csv")] == [("30.0", "30.0")] * 5
    errors = capsys.readouterr().err.splitlines()
    assert errors == ["warning: a test episode was cut off after 30 steps, it had not ended (--max-eval-steps)"]
    said: list[str] = []
    episodes = list(evaluate(path, 3, 0, said.append, env=Endless))
    assert [(episode.length, episode.is_cut_off) for episode in episodes] == [(30, True)] * 3
    assert [f"warning: {text}" for text in said] == errors  # as the command prints it


def test_a_limit_that_is_not_reached_changes_nothing(tmp_path: Path) -> None:
    one = train(quick_config("toy-levers"), tmp_path / "one")
    two = train(quick_config("toy-levers", max_eval_steps=10_000), tmp_path / "two")
    assert rows(one, "eval.csv") == rows(two, "eval.csv")
    agent = REValueD(Endless(), max_eval_steps=7, critics=1, hidden_size=8)
    assert [episode.length for episode in agent.evaluate(2)] == [7, 7]


def test_the_limit_itself_must_be_possible() -> None:
    with pytest.raises(UserError, match="max_eval_steps = 0 is not possible: it must be at least 1"):
        REValueD("toy-levers", max_eval_steps=0)


PROGRAM = """
import sys
import gymnasium
import numpy as np
from gymnasium import spaces
from revalued.cli import main

class Endless(gymnasium.Env):
    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.MultiDiscrete([2, 2])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        if sys.argv[1] == "evaluate":
            open("stepping", "w").close()
        return np.zeros(2, np.float32), 1.0, False, False, {}

gymnasium.register("Endless-v0", Endless)
sys.exit(main())
"""
"""The command line with an environment whose episodes have no end."""


def _interrupted(arguments: list[str], folder: Path, ready: Callable[[], bool]) -> str:
    """Send Ctrl-C as soon as it is ready; return what it said."""
    words = [sys.executable, "-c", PROGRAM, *arguments]
    process = subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert wait_for(ready, process), process.communicate()
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    finally:
        end(process)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    return errors.strip()


def test_ctrl_c_ends_an_episode_that_never_ends(tmp_path: Path) -> None:
    config, path = quick_config("gym:Endless-v0", eval_every=2, log_every=2), tmp_path / "run"
    words = ["train", *flags_of(config), "--out", str(path), "--max-eval-steps", "1000000000"]
    log = path / "metrics.csv"  # whose first row is written right before the first test episode
    in_test_episode = _interrupted(words, tmp_path, lambda: log.exists() and log.read_text().count("\n") == 2)
    assert in_test_episode.splitlines()[-1] == f"stopped; go on with: revalued resume {path}"
    assert newest(path).meta["updates"] == 2
    said = _interrupted(["evaluate", str(path)], tmp_path, (tmp_path / "stepping").exists)
    assert said == "revalued: interrupted"


def test_an_environments_own_true_reward_is_its_own(tmp_path: Path) -> None:
    class Own(Endless):
        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            return np.zeros(2, np.float32), 1.0, True, False, {"true_reward": "none of yours", "success": "perhaps"}

    agent = REValueD(Own(), critics=1, hidden_size=8)
    (episode,) = agent.evaluate(1)
    assert (episode.total_reward, episode.success) == (1.0, None)
