"""MetaWorld: goals from our seed, episodes of 500 steps, success beside return."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from revalued.envs import TaskSpec, make_env
from revalued.envs.kinds import task_info
from revalued.envs.spaces.factored import FactoredEnv
from revalued.errors import UserError
from revalued.run.start import resume, start
from run_helpers import assert_same_run, call, quick_config, rows, stop_after

pytest.importorskip("metaworld")
TASK = "metaworld:drawer-open-v3"


def play(env: FactoredEnv, seed: int, steps: int) -> tuple[bytes, NDArray[np.float32]]:
    """Return an episode with given actions, to the bit, and its first observation."""
    rng = np.random.default_rng(1)
    observation, _ = env.reset(seed=seed)
    first, stream = observation, [observation.tobytes()]
    for _ in range(steps):
        observation, reward, *_, info = env.step(rng.integers(3, size=4))
        stream.append(observation.tobytes() + np.float64(reward).tobytes() + bytes([info["success"]]))
    return b"".join(stream), first


def assert_function_of_the_seed(task: str, steps: int) -> None:
    used, fresh = make_env(TaskSpec(task)), make_env(TaskSpec(task))
    episode, start = play(used, 5, steps)
    _, other_start = play(used, 6, 2 * steps)
    assert play(used, 5, steps)[0] == episode
    assert play(fresh, 5, steps)[0] == episode
    assert start.tobytes() != other_start.tobytes()


@pytest.mark.parametrize("name", ["drawer-open", "reach", "assembly", "hammer"])
def test_an_episode_is_a_function_of_its_seed_in_used_and_fresh_environments(name: str) -> None:
    assert_function_of_the_seed(f"metaworld:{name}-v3", steps=25)


@pytest.mark.slow
def test_all_fifty_tasks_are_functions_of_their_seed() -> None:
    from metaworld.env_dict import ALL_V3_ENVIRONMENTS

    assert len(ALL_V3_ENVIRONMENTS) == 50
    for name in ALL_V3_ENVIRONMENTS:
        assert_function_of_the_seed(f"metaworld:{name}", steps=30)


def test_the_goal_is_seen_and_differs_between_seeds() -> None:
    env = make_env(TaskSpec("metaworld:reach-v3"))
    goals = np.array([env.reset(seed=seed)[0][-3:] for seed in range(8)])
    assert np.ptp(goals, axis=0).min() > 0.05
    assert (np.abs(goals).sum(axis=1) > 0).all()


def test_it_describes_itself() -> None:
    info = task_info(TaskSpec(TASK, bins=5))
    assert (info.observation_size, info.sizes, info.max_episode_steps, info.reward_range) == (
        39, (5,) * 4, 500, (0.0, 10.0),
    )  # fmt: skip


def test_an_episode_is_truncated_after_500_steps() -> None:
    env = make_env(TaskSpec("metaworld:reach-v3"))
    env.reset(seed=0)
    for step in range(1, 501):
        *_, terminated, truncated, info = env.step(np.ones(4, np.int64))
        assert not terminated
        assert truncated == (step == 500)
        assert isinstance(info["success"], bool)
    with pytest.raises(Exception, match="call reset"):
        env.step(np.ones(4, np.int64))


def test_success_stands_beside_return_and_a_run_resumes_to_the_bit(tmp_path: Path) -> None:
    config = quick_config(TASK, num_envs=2, env_steps=160, warmup_env_steps=60, eval_every=1000)
    path, _ = start(config, tmp_path / "whole")
    (row,) = rows(path, "eval.csv")
    assert float(row["length"]) == 500
    assert 0 <= float(row["success"]) <= 1
    start(config, tmp_path / "resumed", should_stop=stop_after(50))
    resume(tmp_path / "resumed")
    assert_same_run(tmp_path / "whole", tmp_path / "resumed")
    answer = json.loads(call("evaluate", path, "--episodes", "2", "--json").stdout)
    assert answer["success_rate"] in (0.0, 0.5, 1.0)
    assert answer["lengths"] == [500, 500]


def test_an_unknown_task_names_its_neighbours() -> None:
    with pytest.raises(UserError, match="unknown MetaWorld task 'drawer-opn-v3': did you mean drawer-open-v3"):
        make_env(TaskSpec("metaworld:drawer-opn-v3"))


def test_a_missing_extra_is_answered_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "metaworld"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "metaworld", None)
    with pytest.raises(UserError, match=r"MetaWorld is not installed: pip install 'revalued\[metaworld\]'"):
        make_env(TaskSpec(TASK))
