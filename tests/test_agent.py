"""The agent: learning in several calls, saving and loading, and what stays when it is interrupted."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import revalued
from gym_envs import Kitchen
from revalued import BDQ, DQN, Agent, DecQN, DecQNC51, DecQNSum, Event, Lean, REValueD, UserError, load
from revalued.algorithms.presets import PRESETS, preset
from revalued.cli import main
from revalued.run.start import evaluate, resume
from revalued.settings import Settings, places
from run_helpers import QUICK, assert_same_run, newest, quick_config, rows, state_of, train

SMALL: Any = {name: value for name, value in QUICK.items() if name != "env_steps"}


def agent(env: Any = "toy-counting", algo: str = "revalued", **knobs: Any) -> Agent:
    settings = {name: value for name, value in SMALL.items() if name != "critics" or preset(algo).critics > 1}
    return Agent(env, algo, **{**settings, **knobs})


def parameters(of: Agent) -> dict[str, torch.Tensor]:
    return dict(of._acting().policy.parameters)


def same_weights(one: Agent, other: Agent) -> bool:
    pairs = zip(parameters(one).values(), parameters(other).values(), strict=True)
    return all(torch.equal(left, right) for left, right in pairs)


def test_importing_the_package_is_light() -> None:
    code = "import sys, revalued; assert 'REValueD' in dir(revalued); print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "False\n"


def test_public_names() -> None:
    assert all(getattr(revalued, name) is not None for name in revalued.__all__)
    with pytest.raises(AttributeError, match="REValued"):
        revalued.REValued  # noqa: B018
    made = {
        "lean": Lean,
        "revalued": REValueD,
        "decqn": DecQN,
        "decqn-sum": DecQNSum,
        "decqn-c51": DecQNC51,
        "bdq": BDQ,
        "dqn": DQN,
    }
    for algo, make in made.items():
        found = make("toy-levers").config
        assert (found.algo, found.algorithm) == (algo, PRESETS[algo].algorithm)


def test_every_knob_is_a_keyword() -> None:
    assert set(Settings.__annotations__) == set(places())
    config = REValueD("toy-levers", critics=np.int64(5), bins=7, learning_rate=1, eval_every=9, threads=1).config  # type: ignore[arg-type]
    assert (config.algorithm.critics, config.bins, config.schedule.eval_every) == (5, 7, 9)
    assert config.algorithm.beta == 0.5
    assert config.learner.learning_rate == 1


@pytest.mark.parametrize(
    ("arguments", "knobs", "message"),
    [
        (("toy-levers",), {"critic": 3}, "unknown keyword 'critic': did you mean critics"),
        (("toy-levers",), {"critics": 2.5}, "keyword 'algorithm.critics' has the wrong type: 2.5"),
        (("toy-levers",), {"critics": 0}, "critics = 0 is not possible"),
        (("toy-levers", "revalue"), {}, "did you mean revalued"),
        (("toy-lever",), {}, "did you mean toy-levers"),
        (("CartPole-v1",), {}, "write gym:CartPole-v1"),
        ((3,), {}, "must be a Gymnasium environment or a function"),
    ],
)
def test_mistakes_in_making_one(arguments: Any, knobs: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Agent(*arguments, **knobs)


def test_three_calls_of_learn_equal_one(tmp_path: Path) -> None:
    """200 and 300 interactions end at an evaluation (20 and 40 updates), so that the tables are the same too."""
    whole = agent(folder=tmp_path / "whole").learn(350)
    parts = agent(folder=tmp_path / "parts").learn(200).learn(100).learn(50)
    assert (parts.env_steps, parts.updates) == (whole.env_steps, whole.updates) == (350, 50)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_calls_that_end_anywhere_learn_the_same(tmp_path: Path) -> None:
    """The end of each call is evaluated once more; nothing else differs."""
    whole = agent(folder=tmp_path / "whole").learn(350)
    parts = agent(folder=tmp_path / "parts").learn(1).learn(254).learn(90)
    assert parts.env_steps == 350, "each call is rounded up to a step of all five lanes"
    assert same_weights(whole, parts)
    first, second = state_of(tmp_path / "whole"), state_of(tmp_path / "parts")
    assert [name for name in first if first[name] != second[name]] in ([], ["record"])
    extra = {row["updates"]: row for row in rows(tmp_path / "parts", "eval.csv")}
    assert all(extra[row["updates"]] == row for row in rows(tmp_path / "whole", "eval.csv"))
    assert extra.keys() == {"0", "20", "32", "40", "50"}


def test_it_is_what_the_command_line_does(tmp_path: Path) -> None:
    """One code path: the same configuration gives the same run, to the bit."""
    agent(folder=tmp_path / "agent", env_steps=350).learn()
    assert_same_run(train(quick_config(), tmp_path / "run"), tmp_path / "agent")


def test_learn_without_a_number_goes_to_the_configured_end() -> None:
    one = agent(env_steps=120).learn(50).learn()
    assert one.env_steps == 120
    with pytest.raises(UserError, match="has made the 120 interactions"):
        one.learn()
    for wrong in (0, -5, 2.5):
        with pytest.raises(UserError, match="at least 1"):
            one.learn(wrong)  # type: ignore[arg-type]


def test_no_files_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one = agent()
    assert one.folder is None
    folder = one.learn(110).folder
    assert folder is not None
    assert folder.is_dir()
    assert not (folder / "tensorboard").exists()
    assert list(tmp_path.iterdir()) == []
    del one
    gc.collect()
    assert not folder.exists()


def test_a_chosen_folder_stays_and_is_never_overwritten(tmp_path: Path) -> None:
    agent(folder=tmp_path / "run").learn(110)
    gc.collect()
    assert newest(tmp_path / "run").meta["env_steps"] == 110
    assert (tmp_path / "run" / "tensorboard").is_dir()
    with pytest.raises(UserError, match="already exists"):
        agent(folder=tmp_path / "run")


def test_saved_and_loaded_it_goes_on_to_the_bit(tmp_path: Path) -> None:
    whole = agent().learn(350)
    saved = agent().learn(200)
    saved.save(tmp_path / "saved")
    before = state_of(tmp_path / "saved")
    loaded = load(tmp_path / "saved")
    assert same_weights(saved, loaded)
    assert loaded.env_steps == 200
    loaded.learn(150)
    assert same_weights(whole, loaded)
    assert state_of(tmp_path / "saved") == before, "learning goes on in a copy"
    assert_same_run(folder_of(whole), folder_of(loaded))
    assert load(tmp_path / "saved", folder=tmp_path / "saved").learn(150).folder == tmp_path / "saved"
    assert_same_run(folder_of(whole), tmp_path / "saved")
    assert load(tmp_path / "saved", folder=tmp_path / "more").learn(5).env_steps == 355
    assert newest(tmp_path / "more").meta["env_steps"] == 355


def folder_of(one: Agent) -> Path:
    assert one.folder is not None
    return one.folder


def test_a_saved_agent_outlives_the_one_that_saved_it(tmp_path: Path) -> None:
    path = agent("toy-levers").learn(150).save(tmp_path / "deep" / "saved")
    gc.collect()
    assert main(["evaluate", str(path), "--episodes", "1"]) == 0
    assert main(["resume", str(path), "--env-steps", "200", "--quiet"]) == 0
    assert newest(path).meta["env_steps"] == 200


def test_without_the_replay_it_can_act_but_not_learn(tmp_path: Path) -> None:
    one = agent("toy-levers").learn(150)
    whole, small = one.save(tmp_path / "whole"), one.save(tmp_path / "small", replay=False)
    assert size_of(small) < size_of(whole) / 2
    loaded = load(small)
    assert same_weights(one, loaded)
    assert (loaded.env_steps, loaded.updates) == (150, 10)
    assert loaded.evaluate(2, seed=3) == one.evaluate(2, seed=3) == list(evaluate(small, 2, 3))
    with pytest.raises(UserError, match="saved without its replay"):
        loaded.learn(5)
    with pytest.raises(UserError, match="saved without its replay"):
        resume(small, env_steps=500)


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def test_saving_what_has_never_learnt(tmp_path: Path) -> None:
    one = agent("toy-levers", seed=4)
    for replay in (True, False):
        loaded = load(one.save(tmp_path / str(replay), replay=replay))
        assert same_weights(one, loaded)
        assert loaded.env_steps == 0
    whole = load(tmp_path / "True").learn(150)
    assert same_weights(whole, one.learn(150))


def test_saving_overwrites_only_runs_and_only_if_asked(tmp_path: Path) -> None:
    one = agent("toy-levers").learn(5)
    one.save(tmp_path / "saved")
    with pytest.raises(UserError, match="overwrite=True"):
        one.save(tmp_path / "saved")
    one.learn(5).save(tmp_path / "saved", overwrite=True)
    assert load(tmp_path / "saved").env_steps == 10
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.txt").write_text("years of work")
    with pytest.raises(UserError, match="no run folder"):
        one.save(tmp_path / "thesis", overwrite=True)
    with pytest.raises(UserError, match="works in"):
        one.save(folder_of(one), overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["saved", "thesis"], "no leftovers"


def test_an_environment_of_your_own(tmp_path: Path) -> None:
    for env in (Kitchen, Kitchen(), lambda: Kitchen()):
        one = agent(env, warmup_env_steps=20).learn(30)
        assert one.updates == 2
    assert one.config.task == "custom:env"
    one.save(tmp_path / "saved")
    alone = load(tmp_path / "saved")  # it can act, and needs the environment for everything else
    observation, _ = Kitchen().reset(seed=1)
    assert str(alone.predict(observation)) == str(one.predict(observation))
    for attempt in (lambda: alone.learn(5), alone.evaluate, alone.make_env):
        with pytest.raises(UserError, match="an environment of your own"):
            attempt()
    assert load(tmp_path / "saved", env=Kitchen).learn(5).env_steps == 35


def test_ctrl_c_leaves_a_checkpoint_and_a_usable_agent() -> None:
    one = agent("toy-levers")

    def press(event: Event) -> None:
        if event.updates == 5:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        one.learn(10_000, callback=press)
    assert signal.getsignal(signal.SIGINT) is before
    assert one.env_steps == 125
    assert one.outcome is not None
    assert not one.outcome.finished
    assert same_weights(one.learn(25), agent("toy-levers").learn(150))


def test_learning_in_a_thread() -> None:
    """Python delivers no signals there, so nothing is done about them."""
    one = agent("toy-levers")
    thread = threading.Thread(target=one.learn, args=(50,))
    thread.start()
    thread.join()
    assert one.env_steps == 50
