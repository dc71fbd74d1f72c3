"""The exported `action` is what the environment itself receives."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from export_helpers import random_policy, session_of
from gym_envs import Kitchen
from revalued.actions import FactorisedActions
from revalued.envs import LeverGame, TaskSpec, make_env
from revalued.envs.spaces.actions import action_codec
from revalued.envs.spaces.choice_table import choice_table
from revalued.envs.spaces.factored import Factored
from revalued.export import policy_model


class Dials(gymnasium.Env[Any, Any]):
    """Does nothing; only its action space matters."""

    def __init__(self, action_space: spaces.Space[Any]) -> None:
        self.action_space = action_space
        self.observation_space = spaces.Box(-1.0, 1.0, (7,), np.float32)


SPACES = {
    "discrete": spaces.Discrete(4, start=-2),
    "multi-discrete": spaces.MultiDiscrete(np.array([[2, 3], [4, 1]]), start=np.array([[5, 0], [0, 1]])),
    "binary": spaces.MultiBinary([2, 2]),
    "box": spaces.Box(np.array([-1.0, 0.0, 2.0]), np.array([1.1, 0.5, 2.0]), dtype=np.float64),
    "integers": spaces.Box(0, 9, (2, 1), np.uint8),
}


@pytest.mark.parametrize("name", SPACES)
def test_values_types_and_shapes_of_every_space(name: str) -> None:
    env = Factored(Dials(SPACES[name]), bins=5)
    choices = choice_table(env)
    codec = action_codec(SPACES[name], bins=5)
    observations = np.random.default_rng(0).standard_normal((300, 7)).astype(np.float32)
    session = session_of(policy_model(random_policy(FactorisedActions(choices.sizes)), choices))
    chosen, actions = session.run(["sub_actions", "action"], {"observation": observations})
    assert len(np.unique(chosen, axis=0)) > 1
    for row, action in zip(chosen, actions, strict=True):
        expected = codec.decode(row)
        assert np.array_equal(action, expected)
        assert action.dtype == np.asarray(expected).dtype
        assert SPACES[name].contains(action if np.ndim(expected) else int(action))


def test_parts_of_a_nested_action_are_outputs_of_their_own() -> None:
    env = Factored(Kitchen(), bins=3)
    choices = choice_table(env)
    assert choices.names == ("burner", "heat[0]", "taps.0[0]", "taps.0[1]", "taps.1[0]", "taps.1[1]")
    assert choices.values() == [[1, 2, 3], [0.0, 0.5, 1.0], [0, 1], [0, 1], [5, 6], [0, 1, 2, 3]]
    policy = random_policy(FactorisedActions(choices.sizes), observation_size=4)
    session = session_of(policy_model(policy, choices))
    names = ["sub_actions", "action.burner", "action.heat", "action.taps.0", "action.taps.1", "utilities"]
    assert [output.name for output in session.get_outputs()] == names
    observations = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
    _, burners, heats, bits, dials, _ = session.run(None, {"observation": observations})
    for number in range(50):
        action = {"burner": burners[number], "heat": heats[number], "taps": (bits[number], dials[number])}
        assert env.env.action_space.contains(action)


def test_names_come_from_the_environment_where_it_has_them() -> None:
    env = Dials(spaces.Box(-1.0, 1.0, (2,)))
    assert choice_table(Factored(env, 3)).names == ("action[0]", "action[1]")
    env.action_names = ("left", "right")  # type: ignore[attr-defined]
    assert choice_table(Factored(env, 3)).names == ("left", "right")
    env.action_names = ("only one",)  # type: ignore[attr-defined]
    assert choice_table(Factored(env, 3)).names == ("action[0]", "action[1]")


def test_an_environment_that_takes_choices_gets_them_unchanged() -> None:
    choices = choice_table(Factored(LeverGame((2, 3)), bins=3))
    assert choices.values() == [[0, 1], [0, 1, 2]]
    assert choices.parts[0].table.dtype == np.int64


def test_actuators_of_the_control_suite() -> None:
    for noise in (0.0, 0.1):  # a wrapper more
        env = make_env(TaskSpec("reacher-hard", bins=5, reward_noise=noise))
        choices = choice_table(env)
        env.close()
        assert choices.names == ("shoulder", "wrist")
        assert choices.values() == [[-1.0, -0.5, 0.0, 0.5, 1.0]] * 2
        assert choices.parts[0].table.dtype == np.float64
