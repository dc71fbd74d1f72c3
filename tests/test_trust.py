"""A run that came from elsewhere runs no code: its files hold none, and it names modules, but does not import them."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from gym_envs import Kitchen
from revalued import REValueD, UserError, load
from revalued.cli import main
from revalued.envs import TaskSpec, find_task, make_env
from revalued.envs.spaces.choice_table import choice_table, choices_in
from revalued.envs.spaces.factored import factored_layer
from revalued.envs.spaces.stored import space_from_json, space_to_json
from revalued.run.start import resume, start
from run_helpers import (
    checkpoints_in,
    end,
    flags_of,
    launch,
    newest,
    quick_config,
    rows,
    sign,
    stop_after,
    train,
    wait_for,
)

MODULE = "somebodys_env"
TASK = f"gym:{MODULE}:Somebodys-v0"
SOURCE = """
import gymnasium
from pathlib import Path
Path(CANARY).write_text("run")
gymnasium.register("Somebodys-v0", "gymnasium.envs.classic_control:PendulumEnv", max_episode_steps=20)
"""


def forget() -> None:
    """Make this process one that has never imported the module."""
    import gymnasium

    from revalued.envs.kinds import task_info

    sys.modules.pop(MODULE, None)
    gymnasium.registry.pop("Somebodys-v0", None)
    task_info.cache_clear()


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Somebody's module, which everybody could import, and which leaves a file behind when it is run."""
    canary = tmp_path / "canary"
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / f"{MODULE}.py").write_text(SOURCE.replace("CANARY", repr(str(canary))))
    monkeypatch.syspath_prepend(str(tmp_path / "library"))
    yield canary
    forget()


@pytest.fixture
def run(canary: Path, tmp_path: Path) -> Path:
    """A run on somebody's task, as it arrives in another process."""
    path, _ = start(quick_config(TASK, bins=5), tmp_path / "run", should_stop=stop_after(40))
    assert canary.exists()
    canary.unlink()
    forget()
    return path


def commands(run: Path) -> list[list[str]]:
    return [
        ["evaluate", str(run), "--episodes", "1"],
        ["inspect", str(run), "--no-video", "-o", str(run / "page.html")],
        ["resume", str(run), "--quiet"],
    ]


def test_a_module_that_a_file_names_is_not_imported(
    run: Path, canary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in commands(run):
        assert main(words) == 2, words
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"revalued: the run's task {TASK!r} says to import the module {MODULE!r}")
        assert line.endswith(f"add --trust-module {MODULE} (in Python trust_modules=[...])")
    agent = load(run)
    for attempt in (lambda: agent.learn(50), agent.evaluate, agent.make_env, lambda: resume(run)):
        with pytest.raises(UserError, match="--trust-module"):
            attempt()
    assert not canary.exists()
    assert MODULE not in sys.modules


def test_one_word_is_enough_to_trust_it(run: Path, canary: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in commands(run):
        forget()
        canary.unlink(missing_ok=True)
        assert main([*words, "--trust-module", "another", "--trust-module", MODULE]) == 0, capsys.readouterr().err
        assert canary.exists()
    forget()
    agent = load(run, trust_modules=[MODULE])
    assert agent.learn(20).env_steps == 370
    assert len(agent.evaluate(1)) == 1
    assert not main(["evaluate", str(run), "--episodes", "1"]), "imported already, it runs no code any more"


def test_what_needs_no_environment_works_without_it(
    run: Path, canary: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(run), str(tmp_path / "policy.onnx")]) == 0
    assert main(["inspect", str(run), "--episodes", "0", "-o", str(tmp_path / "page.html")]) == 0
    assert "Replay" in (tmp_path / "page.html").read_text()
    agent = load(run)
    observations = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    actions = agent.predict(observations)[0]
    copy = load(agent.save(tmp_path / "copy", replay=False))
    assert not canary.exists()
    assert MODULE not in sys.modules

    built = load(run, trust_modules=[MODULE])
    assert built.make_env().action_space == agent.action_space == copy.action_space
    assert built.observation_space == agent.observation_space == built.make_env().observation_space
    assert actions.shape == (4, 1)
    assert actions.dtype == np.float32
    assert set(np.abs(actions).ravel().tolist()) <= {0.0, 1.0, 2.0}, "of 5 torques between -2 and 2"
    assert np.array_equal(actions, copy.predict(observations)[0])
    assert main(["export", str(run), str(tmp_path / "again.onnx"), "--trust-module", MODULE]) == 0
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "policy.onnx").read_bytes()


def test_an_older_checkpoint_without_spaces_needs_the_environment(
    run: Path, canary: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkpoint,) = checkpoints_in(run)
    meta = json.loads((checkpoint / "meta.json").read_text())
    del meta["environment"]
    del meta["record"]["rows"]
    (checkpoint / "meta.json").write_text(json.dumps(meta))
    sign(checkpoint, "meta.json")
    words = ["export", str(run), str(tmp_path / "policy.onnx")]
    with pytest.raises(UserError, match="--trust-module"):
        load(run)
    assert main(words) == 2
    assert not canary.exists()
    assert main([*words, "--trust-module", MODULE]) == 0
    assert load(run, trust_modules=[MODULE]).learn(10).env_steps == 210


def test_a_module_in_the_current_folder_is_found_by_train_and_sweep_alone(tmp_path: Path) -> None:
    (tmp_path / "my_package.py").write_text(SOURCE.replace("CANARY", "'canary'"))
    (tmp_path / "numpy.py").write_text("raise SystemExit('a module of the current folder was taken for NumPy')")
    program = "import sys; from revalued.cli import main; sys.exit(main())"
    quick = ["--quiet", "--env-steps", "60", "--hidden-size", "8", "--critics", "1", "--threads", "1"]
    task = "gym:my_package:Somebodys-v0"

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        # -P, as for the installed command: the working folder is not on the path
        command = [sys.executable, "-P", "-c", program, *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)

    done = call("sweep", task, *quick, "--seeds", "1", "--workers", "1", "--out", "sweeps")
    assert (done.returncode, done.stderr) == (0, ""), [log.read_text() for log in tmp_path.rglob("log.txt")]
    (path,) = (file.parent for file in tmp_path.rglob("summary.json"))
    assert float(rows(path, "eval.csv")[-1]["length"]) == 20
    refused = call("evaluate", str(path), "--trust-module", "my_package")
    assert refused.returncode == 2
    assert "the current folder is not searched, unless you set PYTHONPATH=." in refused.stderr


def test_the_command_to_go_on_repeats_what_was_trusted(
    canary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "library"))
    path = tmp_path / "run"
    words = [*flags_of(quick_config(TASK, env_steps=10**6)), "--out", str(path)]
    process = launch("train", *words)
    try:
        assert wait_for((path / "metrics.csv").exists, process)
        process.send_signal(signal.SIGTERM)
        *_, last = process.communicate(timeout=60)[1].splitlines()
    finally:
        end(process)
    prefix, _, advice = last.partition(": ")
    assert prefix == "stopped; go on with"
    revalued, *command = shlex.split(advice)
    assert (revalued, command) == ("revalued", ["resume", str(path), "--trust-module", MODULE])


def test_a_cluster_that_a_file_names_is_not_joined(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever runs a cluster can run code in those who join it."""
    pytest.importorskip("ray")
    path, _ = start(quick_config(), tmp_path / "run", should_stop=stop_after(40))
    config = json.loads((path / "config.json").read_text())
    config["execution"] |= {"actors": 1, "cluster": "127.0.0.1:9"}
    (path / "config.json").write_text(json.dumps(config))
    assert main(["resume", str(path), "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("revalued: the run's config.json says to join the cluster '127.0.0.1:9'")
    assert "add --cluster 127.0.0.1:9 (" in line
    with pytest.raises(UserError, match="says to join the cluster"):
        load(path).learn(10)
    assert main(["resume", str(path), "--quiet", "--cluster", "127.0.0.1:9"]) == 2
    assert "says to join" not in capsys.readouterr().err, "tried, and nobody is there"


# --- spaces in checkpoints

SPACES: list[spaces.Space[Any]] = [
    spaces.Box(-1.0, np.array([[1.0, np.inf]], np.float32), (1, 2), np.float32),
    spaces.Box(-np.inf, np.inf, (3,), np.float64),
    spaces.Box(0, 255, (2, 2), np.uint8),
    spaces.Box(np.array([0.1, 1 / 3]), np.array([0.2, 2 / 3]), dtype=np.float64),
    spaces.Box(-5, 2**40, (1,), np.int64),
    spaces.Box(0, 1, (0,), np.float32),
    spaces.Discrete(5, start=-2),
    spaces.Discrete(3, dtype=np.int32),
    spaces.MultiDiscrete(np.array([[2, 3], [4, 5]]), start=np.array([[1, 0], [-1, 7]]), dtype="int32"),
    spaces.MultiBinary(4),
    spaces.MultiBinary([2, 3]),
    spaces.Dict([("z", spaces.Discrete(2)), ("a", spaces.Tuple([spaces.MultiBinary(2), spaces.Box(0, 1)]))]),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_spaces_come_back_from_json(space: spaces.Space[Any]) -> None:
    back = space_from_json(json.loads(json.dumps(space_to_json(space), allow_nan=False)))
    assert back == space
    assert (str(back), back.dtype, back.shape) == (str(space), space.dtype, space.shape)
    if isinstance(space, spaces.Dict):
        assert list(back.spaces) == list(space.spaces)  # type: ignore[attr-defined]


def nested(depth: int) -> dict[str, Any]:
    return {"kind": "Tuple", "parts": [[0, nested(depth - 1) if depth else {"kind": "MultiBinary", "n": 1}]]}


@pytest.mark.parametrize(
    "data",
    [
        {}, [], None, "Box", {"kind": "os.system"}, {"kind": "Box"}, {"kind": "Dict", "parts": 3}, nested(200),
        {"kind": "Box", "shape": [10**9, 10**9], "dtype": "float32", "low": 0, "high": 1},
        {"kind": "Box", "shape": [2], "dtype": "O", "low": 0, "high": 1},
        {"kind": "Box", "shape": [2], "dtype": "float32", "low": [0, 0, 0], "high": 1},
        {"kind": "Box", "shape": [2], "dtype": "float32", "low": "x", "high": 1},
        {"kind": "Box", "shape": [-2], "dtype": "float32", "low": 0, "high": 1},
        {"kind": "Discrete", "n": 0, "start": 0, "dtype": "int64"},
        {"kind": "Discrete", "n": 10**400, "start": 0, "dtype": "int64"},
        {"kind": "MultiDiscrete", "shape": [1], "dtype": "int64", "nvec": [None], "start": [0]},
        {"kind": "MultiBinary", "n": 10**12},
    ],
    ids=lambda data: str(data)[:60],
)  # fmt: skip
def test_what_is_no_space_is_refused(data: Any) -> None:
    with pytest.raises(ValueError):  # whatever the words, nothing else may come out
        space_from_json(data)


@pytest.mark.parametrize("task", ["gym:Pendulum-v1", "gym:Taxi-v4", "walker-walk", "toy-levers", "toy-masked"])
def test_a_loaded_agent_acts_as_the_one_that_was_saved(task: str, tmp_path: Path) -> None:
    one = REValueD(task, critics=2, hidden_size=16, batch_size=8, warmup_env_steps=20, state_noise=0.1)
    one.learn(40)
    other = load(one.save(tmp_path / "saved", replay=False))
    env = one.make_env()
    env.observation_space.seed(0)
    for _ in range(5):
        observation = np.clip(env.observation_space.sample(), -10, 10) if task != "gym:Taxi-v4" else env.reset()[0]
        assert str(one.predict(observation)) == str(other.predict(observation))
    assert (other.observation_space, other.action_space) == (env.observation_space, env.action_space)
    first, second = ([episode.total_reward for episode in agent.evaluate(1)] for agent in (one, other))
    assert first == second


def test_choices_are_known_without_the_environment() -> None:
    for spec in (TaskSpec("walker-walk", bins=5), TaskSpec("gym:gym_envs:tests/Kitchen-v0")):
        known = find_task(spec).info.spaces
        assert known is not None
        env = make_env(spec)
        expected = choice_table(env)
        found = choices_in(known.own_action, factored_layer(env).action_codec, known.action_names)
        assert (found.names, found.sizes, found.values()) == (expected.names, expected.sizes, expected.values())


def test_a_nested_space_is_predicted_in_its_own_form(tmp_path: Path) -> None:
    one = REValueD(Kitchen, critics=1, hidden_size=8, warmup_env_steps=20, batch_size=8).learn(30)
    path = one.save(tmp_path / "saved")
    assert newest(path).meta["environment"]["keeps_spaces"]
    observation, _ = Kitchen().reset(seed=3)
    action, _ = load(path).predict(observation)
    assert Kitchen().action_space.contains(action)
    assert str(action) == str(one.predict(observation)[0])


def test_an_environment_that_has_changed_is_refused_when_it_is_built(tmp_path: Path) -> None:
    path = train(quick_config("gym:CartPole-v1"), tmp_path / "run")
    (checkpoint,) = checkpoints_in(path)
    for file, name in ((path / "config.json", None), (checkpoint / "meta.json", "meta.json")):
        file.write_text(file.read_text().replace("gym:CartPole-v1", "gym:Acrobot-v1"))
        if name is not None:
            sign(checkpoint, name)
    agent = load(path)
    with pytest.raises(UserError, match=r"environment has observations of 6 numbers .* trained with 4 numbers"):
        agent.evaluate()
    with pytest.raises(UserError, match="the environment has observations of 6 numbers"):
        agent.learn(10)
    shutil.rmtree(path)
