"""Bins in numbers worked out by hand."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray

from revalued.envs.spaces.factored import Factored
from revalued.envs.suites.control_suite import ControlSuiteEnv
from revalued.errors import UserError


class Echo(gymnasium.Env[NDArray[np.float32], NDArray[np.float64]]):
    """Remembers the continuous action that reached it."""

    def __init__(self, low: list[float], high: list[float]) -> None:
        self.action_space = spaces.Box(np.array(low), np.array(high), dtype=np.float64)
        self.observation_space = spaces.Box(0, 1, (1,), np.float32)
        self.received: list[float] = []

    def step(self, action: NDArray[np.float64]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, object]]:
        self.received = action.tolist()
        return np.zeros(1, np.float32), 0.0, False, False, {}


def received(env: Echo, bins: int, choices: list[int]) -> list[float]:
    Factored(env, bins).step(np.array(choices))
    return env.received


def test_three_bins_are_full_back_off_full_ahead() -> None:
    env = Echo([-1, -1, -1], [1, 1, 1])
    assert received(env, 3, [0, 1, 2]) == [-1.0, 0.0, 1.0]


def test_each_dimension_has_its_own_range() -> None:
    env = Echo([-1, 0, -0.8], [1.1, 4, 0.8])
    assert received(env, 3, [1, 1, 1]) == pytest.approx([0.05, 2.0, 0.0])
    assert received(env, 5, [3, 3, 3]) == pytest.approx([0.575, 3.0, 0.4])
    assert received(env, 2, [1, 0, 1]) == [1.1, 0.0, 0.8]  # the ends exactly, without rounding


def test_quadruped_reaches_its_bound_of_one_point_one() -> None:
    env = Factored(ControlSuiteEnv("quadruped-walk"), 3)
    assert env.action_codec.decode(np.full(12, 2)).tolist() == [1.0, 1.1, 0.8] * 4
    assert env.action_codec.decode(np.full(12, 0)).tolist() == [-1.0, -1.0, -0.8] * 4
    assert env.action_codec.decode(np.full(12, 1)) == pytest.approx(np.array([0.0, 0.05, 0.0] * 4))


def test_the_space_has_bins_choices_in_every_dimension() -> None:
    assert Factored(Echo([-1, -1], [1, 1]), 30).action_space == spaces.MultiDiscrete([30, 30])


def test_a_choice_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(IndexError):
        Factored(Echo([-1, -1], [1, 1]), 3).step(np.array([0, 3]))


@pytest.mark.parametrize("bins", [1, 0, -3])
def test_fewer_than_two_bins_are_refused(bins: int) -> None:
    with pytest.raises(UserError, match="at least 2"):
        Factored(Echo([-1], [1]), bins)


def test_unbounded_actions_are_refused() -> None:
    with pytest.raises(UserError, match="without bounds"):
        Factored(Echo([-1, -np.inf], [1, 1]), 3)


def test_gymnasium_finds_nothing_to_complain_about() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # The checker advises against wrappers as such; this one is what is to be checked.
        warnings.filterwarnings("ignore", message=".*is different from the unwrapped version")
        check_env(Factored(ControlSuiteEnv("walker-walk"), 3), skip_render_check=True)
