"""`revalued compare`: the judge, and who learns under it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from compare_helpers import order, rows
from revalued.compare.learners import ours, sb3, uniform
from revalued.compare.meter import COLUMNS, Meter, RunOrder, play_episode
from revalued.envs import LeverGame

# --- the judge


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("revalued.compare.meter.time.monotonic", found)
    monkeypatch.setattr("revalued.compare.meter.time.process_time", found)
    return found


def right_positions(observation: Any, mask: Any) -> Any:
    return LeverGame().right_positions[int(np.argmax(observation[:-1]))]


def test_the_clock_stands_still_while_the_judge_plays(tmp_path: Path, clock: Clock) -> None:
    def slow(observation: Any, mask: Any) -> Any:
        clock.now += 1_000.0
        return right_positions(observation, mask)

    judge = Meter(order(tmp_path, budget_seconds=12.0, env_steps=None, clock="cpu"))
    for steps in range(13):
        assert judge.goes_on(10 * steps, slow) == (steps < 12)
        assert judge.seconds == steps
        clock.now += 1.0
    found = rows(tmp_path)
    assert [float(row["seconds"]) for row in found] == list(range(13))
    assert {row["return"] for row in found} == {"10"}  # all levers right, ten steps


def test_the_judge_looks_after_a_thousand_interactions_and_twice_as_many(tmp_path: Path, clock: Clock) -> None:
    judge = Meter(order(tmp_path, budget_seconds=1e9, env_steps=None))
    for env_steps in range(0, 9_000, 300):
        judge.goes_on(env_steps, right_positions)
    assert [int(row["env_steps"]) for row in rows(tmp_path)] == [0, 1_200, 2_100, 4_200, 8_100]


def test_a_run_is_over_after_its_interactions_and_that_moment_is_judged(tmp_path: Path, clock: Clock) -> None:
    judge = Meter(order(tmp_path, env_steps=100))
    assert judge.goes_on(99, right_positions)
    assert not judge.goes_on(100, right_positions)
    assert not judge.goes_on(100, right_positions)
    assert [int(row["env_steps"]) for row in rows(tmp_path)] == [99, 100]


def test_everybody_plays_the_same_test_episodes(tmp_path: Path, clock: Clock) -> None:
    env = LeverGame()
    seeds = Meter(order(tmp_path))._seeds
    assert seeds == Meter(order(tmp_path, contestant="sb3-ppo", seed=7))._seeds

    def stays(observation: Any, mask: Any) -> Any:
        return np.zeros(3, np.int64)

    assert [play_episode(env, seed, stays) for seed in seeds] == [play_episode(env, seed, stays) for seed in seeds]


def test_masks_reach_who_asks_for_them() -> None:
    env = gymnasium.make("revalued/toy-masked-v0")
    seen: list[Any] = []

    def first_legal(observation: Any, mask: Any) -> Any:
        seen.append(mask)
        return np.array([int(np.argmax(part)) for part in np.split(mask, [2, 5])])

    assert play_episode(env, 3, first_legal)[0] > 0  # nothing blocked was chosen, for that is fined
    assert seen[0].shape == (10,)


def test_an_order_survives_its_file(tmp_path: Path) -> None:
    given = order(tmp_path, budget_seconds=1.5)
    given.write(tmp_path / "order.json")
    assert RunOrder.read(str(tmp_path / "order.json")) == given


# --- learners


def test_ours_learns_under_the_judge(tmp_path: Path) -> None:
    ours.learn(order(tmp_path))
    found = rows(tmp_path)
    assert tuple(found[0]) == COLUMNS
    assert int(found[0]["env_steps"]) == 0
    assert 200 <= int(found[-1]["env_steps"]) < 210


def test_the_random_policy_plays_more_episodes_once(tmp_path: Path) -> None:
    uniform.learn(order(tmp_path, contestant="random", settings={}, task="toy-masked"))
    (only,) = rows(tmp_path)
    assert float(only["return"]) > 0  # legal choices alone


@pytest.mark.parametrize(
    ("contestant", "settings"),
    [("sb3-ppo", {"n_steps": 32, "batch_size": 16, "normalise": True}), ("sb3-dqn", {"learning_starts": 10})],
)
def test_stable_baselines_learns_under_the_judge(
    tmp_path: Path, contestant: str, settings: dict[str, Any], recwarn: pytest.WarningsRecorder
) -> None:
    sb3.learn(order(tmp_path, contestant=contestant, settings=settings, env_steps=70))
    found = rows(tmp_path)
    assert int(found[0]["env_steps"]) == 0
    assert int(found[-1]["env_steps"]) == 70


def test_joint_actions_are_all_different() -> None:
    joint = sb3.Joint(gymnasium.make("revalued/toy-levers-v0").unwrapped)
    assert isinstance(joint.action_space, spaces.Discrete)
    assert joint.action_space.n == 30
    assert len({tuple(joint.action(number)) for number in range(30)}) == 30
    assert joint.action(7).tolist() == [0, 1, 2]
