"""Parallel environments of many agents as one agent with many choices: a stand-in of the same shape, and a real one."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from revalued import DecQN
from revalued.envs import TaskSpec, find_task
from revalued.envs.suites.pettingzoo import OneAgent
from revalued.errors import UserError
from revalued.run.start import resume, start
from run_helpers import assert_same_run, quick_config, stop_after


class Crew:
    """Three agents with 2, 3 and 4 choices; agent i leaves at the end of step `leaves[i]`.

    Agent i earns i + 1 for choosing its largest legal choice. From step 2 on, the last agent's largest is illegal.
    """

    metadata: dict[str, Any] = {"name": "crew"}  # noqa: RUF012
    possible_agents = ("ann", "ben", "cat")
    render_mode = None

    def __init__(self, leaves: tuple[int, int, int] = (2, 4, 5), by: str = "termination", masks: str = "info") -> None:
        self._leaves, self._by, self._masks = dict(zip(self.possible_agents, leaves, strict=True)), by, masks
        self.agents: list[str] = []

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2 + self.possible_agents.index(agent))

    def observation_space(self, agent: str) -> Any:
        seen = spaces.Box(0, 10, (2,), np.float32)
        mask = spaces.MultiBinary(2 + self.possible_agents.index(agent))
        return spaces.Dict({"observation": seen, "action_mask": mask}) if self._masks == "observation" else seen

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        self.agents, self._step = list(self.possible_agents), 0
        return self._look(self.agents)

    def step(self, actions: dict[str, int]) -> Any:
        assert set(actions) == set(self.agents), "only those who are present act"
        acting, self._step = list(self.agents), self._step + 1
        rewards = {
            agent: float(1 + self.possible_agents.index(agent)) * (choice == self.action_space(agent).n - 1)
            for agent, choice in actions.items()
        }
        gone = {agent: self._leaves[agent] == self._step for agent in acting}
        self.agents = [agent for agent in acting if not gone[agent]]
        kept = dict.fromkeys(acting, False)
        ends = (gone, kept) if self._by == "termination" else (kept, gone)
        observations, infos = self._look(acting)
        return observations, rewards, *ends, infos

    def _look(self, agents: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        seen = {a: np.array([self._step, self.possible_agents.index(a)], np.float32) for a in agents}
        masks = {a: np.ones(self.action_space(a).n, np.int8) for a in agents}
        if "cat" in masks and self._step >= 2:
            masks["cat"][-1] = 0
        if self._masks == "observation":
            return {a: {"observation": seen[a], "action_mask": masks[a]} for a in agents}, {a: {} for a in agents}
        return seen, {a: {"action_mask": masks[a]} if self._masks == "info" else {} for a in agents}

    def close(self) -> None:
        pass


def crew() -> Any:
    return Crew()


LARGEST = {"ann": 1, "ben": 2, "cat": 3}


@pytest.mark.parametrize("masks", ["info", "observation"])
def test_agents_act_as_one_and_leave_one_by_one(masks: str) -> None:
    env = OneAgent(Crew(masks=masks))
    observation, info = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    assert {agent: seen.tolist() for agent, seen in observation.items()} == {
        "ann": [0, 0],
        "ben": [0, 1],
        "cat": [0, 2],
    }
    assert [mask.tolist() for mask in info["action_mask"]] == [[True] * 2, [True] * 3, [True] * 4]
    told = [env.step(LARGEST) for _ in range(5)]
    assert [step[1] for step in told] == [(1 + 2 + 3) / 3, 2, (2 + 3) / 3, (2 + 3) / 3, 3 / 3]
    assert [step[2:4] for step in told] == [(False, False)] * 4 + [(True, False)]
    # ann has left after her second step: shown as zeros, with nothing to choose
    assert told[1][0]["ann"].tolist() == [2, 0]
    assert told[2][0]["ann"].tolist() == [0, 0]
    assert [mask.tolist() for mask in told[2][4]["action_mask"]] == [[True, False], [True] * 3, [True] * 3 + [False]]
    assert [mask.tolist() for mask in told[3][4]["action_mask"]][1] == [True, False, False]


def test_those_cut_short_still_have_choices_in_their_last_observation() -> None:
    env = OneAgent(Crew((3, 3, 3), by="truncation"))
    env.reset(seed=0)
    told = [env.step(LARGEST) for _ in range(3)]
    assert [step[2:4] for step in told] == [(False, False)] * 2 + [(False, True)]
    assert [mask.tolist() for mask in told[-1][4]["action_mask"]] == [[True] * 2, [True] * 3, [True] * 3 + [False]]


@pytest.mark.parametrize(("reward", "expected"), [("mean", 2.0), ("sum", 6.0), ("ben", 2.0), ("cat", 3.0)])
def test_whose_reward_counts(reward: str, expected: float) -> None:
    env = OneAgent(Crew(), reward)
    env.reset(seed=0)
    assert env.step(LARGEST)[1] == expected


def test_an_object_is_taken_as_well_as_a_function() -> None:
    found: Any = Crew()
    assert find_task(TaskSpec("custom:crew"), found).info.sizes == (2, 3, 4)


def test_as_a_task_it_has_one_dimension_for_each_agent() -> None:
    info = find_task(TaskSpec("custom:crew"), crew).info
    assert (info.sizes, info.observation_size, info.masked) == ((2, 3, 4), 6, True)


class Backwards(Crew):
    possible_agents = ("zoe", "ben", "cat")


def backwards() -> Any:
    return Backwards()


def test_agents_keep_their_order_whatever_their_names() -> None:
    task = find_task(TaskSpec("custom:crew"), backwards)
    env = task.make()
    observation, info = env.reset(seed=0)
    assert task.info.sizes == (2, 3, 4)
    assert observation.tolist() == [0, 0, 0, 1, 0, 2]
    assert [len(mask) for mask in info["action_mask"]] == [2, 3, 4]
    assert env.step(np.array([1, 0, 0]))[1] == pytest.approx(1 / 3)  # zoe's largest choice


def test_it_is_learnt_and_resumed_to_the_bit(tmp_path: Path) -> None:
    config = quick_config("custom:crew", "decqn")
    whole, _ = start(config, tmp_path / "whole", env=crew)
    path, _ = start(config, tmp_path / "parts", env=crew, should_stop=stop_after(30))
    assert resume(path, env=crew).finished
    assert_same_run(whole, path)


def test_an_agent_predicts_what_each_one_does() -> None:
    agent = DecQN(crew, hidden_size=16, warmup_env_steps=50, env_steps=200, threads=1)
    agent.learn(150)
    observation, info = agent.make_env().reset(seed=0)
    action, _ = agent.predict(observation, action_masks=info["action_mask"])
    assert set(action) == {"ann", "ben", "cat"}


class Painter(Crew):
    def action_space(self, agent: str) -> Any:
        return spaces.Box(0, 1, (2,)) if agent == "ben" else super().action_space(agent)


def test_what_cannot_work_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="agent 'ben' has a Box action; every agent needs one Discrete choice"):
        OneAgent(Painter())
    with pytest.raises(UserError, match="reward='max' is none of mean, sum, ann, ben, cat"):
        OneAgent(Crew(), "max")
    with pytest.raises(UserError, match="named 'no_such_zoo': install the package that has 'no_such_zoo'"):
        find_task(TaskSpec("pettingzoo:no_such_zoo"))
    monkeypatch.setitem(sys.modules, "mpe2", None)  # as if it were not there
    with pytest.raises(UserError, match="pip install --no-deps mpe2 pettingzoo pygame"):
        find_task(TaskSpec("pettingzoo:mpe2.simple_spread_v3"))
    turns = types.ModuleType("zoo_of_turns")
    turns.env = Crew  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "zoo_of_turns", turns)
    with pytest.raises(UserError, match=r"only the turn-by-turn \(AEC\) way"):
        find_task(TaskSpec("pettingzoo:zoo_of_turns"))
    turns.parallel_env = lambda: 1 / 0  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="cannot be built: ZeroDivisionError"):
        find_task(TaskSpec("pettingzoo:zoo_of_turns"))


def test_a_module_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("zoo_of_crews")
    module.parallel_env = Crew  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "zoo_of_crews", module)
    assert find_task(TaskSpec("pettingzoo:zoo_of_crews")).info.sizes == (2, 3, 4)


@pytest.mark.skipif(importlib.util.find_spec("mpe2") is None, reason="mpe2 is not installed")
def test_the_real_package() -> None:
    task = find_task(TaskSpec("pettingzoo:mpe2.simple_spread_v3"))
    assert task.info.sizes == (5, 5, 5)
    assert task.info.observation_size == 54
    differing = find_task(TaskSpec("pettingzoo:mpe2.simple_speaker_listener_v4"))
    assert differing.info.sizes == (3, 5)  # the speaker comes first
