"""Ids for other libraries: registered without weight, clean under Gymnasium's checker, the same task as by name."""

from __future__ import annotations

import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

import revalued
from revalued.envs import TaskSpec, make_env
from revalued.envs.kinds import task_names
from revalued.envs.suites.rendering import headless_backend
from revalued.errors import UserError


def can_draw() -> bool:
    try:
        headless_backend()
    except UserError:
        return False
    return True


def test_importing_the_package_registers_every_task_and_loads_no_simulator() -> None:
    program = (
        "import sys, gymnasium, revalued\n"
        "heavy = {'torch', 'dm_control', 'mujoco', 'metaworld', 'matplotlib'} & set(sys.modules)\n"
        "print(sorted(heavy), len([name for name in gymnasium.registry if name.startswith('revalued/')]))\n"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert finished.stdout == f"[] {len(task_names()) + 1}\n"
    assert revalued.__version__


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("walker-walk", {"bins": 3}),
        ("dog-walk", {}),
        ("cartpole-balance", {"bins": 5, "state_noise": 0.1, "reward_noise": 0.1}),
        ("toy-levers", {}),
        ("toy-counting", {}),
        ("toy-masked", {}),
        ("toy-fmdp", {}),
        ("task", {"task": "gym:CartPole-v1"}),
        ("task", {"task": "gym:Taxi-v4"}),
        ("task", {"task": "gym:Blackjack-v1"}),
        ("task", {"task": "gym:Pendulum-v1", "bins": 4}),
        ("task", {"task": "metaworld:reach-v3"}),
    ],
)
def test_every_family_passes_the_checker_without_a_warning(name: str, options: dict[str, object]) -> None:
    if "metaworld" in str(options):
        pytest.importorskip("metaworld")
    env = gymnasium.make(f"revalued/{name}-v0", **options)  # type: ignore[arg-type]
    assert isinstance(env.action_space, spaces.MultiDiscrete)
    # pictures of Gymnasium's own classics need pygame
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check="gym:" in str(options) or not can_draw())
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", task_names())
def test_every_id_can_be_made(name: str) -> None:
    env = gymnasium.make(f"revalued/{name}-v0")
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_a_registered_task_is_the_task_of_that_name() -> None:
    registered = gymnasium.make("revalued/walker-walk-v0", bins=5)
    own = make_env(TaskSpec("walker-walk", bins=5))
    rng = np.random.default_rng(0)
    assert registered.reset(seed=3)[0].tobytes() == own.reset(seed=3)[0].tobytes()
    for _ in range(1000):
        action = rng.integers(5, size=6)
        observation, reward, terminated, truncated, _ = registered.step(action)
        expected, same_reward, *_ = own.step(action)
        assert observation.tobytes() == expected.tobytes()
        assert reward == same_reward
        assert not terminated
    assert truncated


def test_a_picture_can_be_had() -> None:
    if not can_draw():
        pytest.skip("neither EGL nor OSMesa works here")
    env = gymnasium.make("revalued/cheetah-run-v0", render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    assert isinstance(picture, np.ndarray)
    assert picture.shape == (240, 320, 3)
    assert picture.dtype == np.uint8
    assert picture.std() > 5
    env.close()


def test_other_render_modes_are_refused() -> None:
    with pytest.raises(UserError, match="render_mode 'human' is not possible"):
        make_env(TaskSpec("walker-walk"), "human")
    with pytest.raises(UserError, match="toy-levers has no pictures"):
        make_env(TaskSpec("toy-levers"), "rgb_array")
