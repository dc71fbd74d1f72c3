"""Problems whose actions are made of many choices: stand-ins of the same shape, and the packages where they are."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from revalued.envs import TaskSpec, find_task, make_env
from revalued.envs.examine import examine
from revalued.envs.faults import EnvFault
from revalued.envs.kinds import task_listing
from revalued.envs.spaces.factored import Factored
from revalued.envs.suites import traffic
from revalued.envs.suites.mobile import SeededPhones, with_seeds
from revalued.envs.suites.problems import PROBLEMS
from revalued.envs.suites.sepsis import LEVELS, SepsisEnv, SepsisTables, known_values, read_tables
from revalued.envs.suites.sigmoid import NUM_CHOICES, NUM_STEPS, Coupling, SigmoidEnv, read_instances
from revalued.errors import UserError

ACTIONS = LEVELS**2


def small_tables() -> SepsisTables:
    """Two patients' states, then death, survival, the end; doses (0, 0) heal three of four, all others one of four."""
    transitions = np.zeros((5, ACTIONS, 5))
    transitions[0, :, 1] = 1.0  # the first state is only waiting
    transitions[1, :, 2], transitions[1, :, 3] = 0.75, 0.25
    transitions[1, 0, 2], transitions[1, 0, 3] = 0.25, 0.75
    transitions[2:, :, 4] = 1.0
    rewards = np.zeros_like(transitions)
    rewards[:, :, 3] = 1.0
    return SepsisTables(np.array([0.5, 0.5, 0.0, 0.0, 0.0]), transitions, rewards)


def test_sepsis_values_are_those_computed_by_hand() -> None:
    at_random, best = known_values(small_tables())
    assert best == pytest.approx(0.75)
    assert at_random == pytest.approx((0.75 + 24 * 0.25) / 25)


def test_sepsis_pays_for_survival_and_ends() -> None:
    env = SepsisEnv(small_tables())
    total, episodes = 0.0, 2_000
    for seed in range(episodes):
        state, _ = env.reset(seed=seed)
        assert state in (0, 1)
        terminated, steps = False, 0
        while not terminated:
            state, reward, terminated, truncated, _ = env.step(np.array([0, 0]))
            total, steps = total + reward, steps + 1
            assert not truncated
        assert state in (2, 3)
        assert steps <= 2
    assert total / episodes == pytest.approx(0.75, abs=3 * np.sqrt(0.75 * 0.25 / episodes))


def test_fluids_come_first() -> None:
    tables = small_tables()
    tables.transitions[1] = 0.0
    tables.transitions[1, :, 2] = 1.0
    tables.transitions[1, 2 * LEVELS + 4] = [0.0, 0.0, 0.0, 1.0, 0.0]
    env = SepsisEnv(tables)
    env.reset(seed=0)
    if env._state == 0:
        env.step(np.array([0, 0]))
    assert env.step(np.array([2, 4]))[1] == 1.0


def test_sepsis_tables_are_read_without_pickle(tmp_path: Path) -> None:
    (tmp_path / "envs" / "assets").mkdir(parents=True)
    tables = small_tables()
    np.savez(
        tmp_path / "envs" / "assets" / "dynamics.npz",
        d_0=tables.start, tx_mat=tables.transitions, r_mat=tables.rewards,
    )  # fmt: skip
    read_tables.cache_clear()
    found = read_tables(tmp_path)
    np.testing.assert_array_equal(found.transitions, tables.transitions)
    read_tables.cache_clear()


INSTANCES = np.array([[[1.0, 5.0], [-2.0, 3.0]], [[0.5, 4.0], [3.0, 6.0]]])


@pytest.mark.parametrize("coupling", ["product", "mean"])
def test_sigmoid_pays_what_its_equation_says(coupling: Coupling) -> None:
    env = SigmoidEnv(INSTANCES[:1], coupling)
    env.reset(seed=0)
    observation, reward, terminated, truncated, _ = env.step(np.array([0, 2]))
    right = [1 / (1 + np.exp(-1.0 * (1 - 5))), 1 / (1 + np.exp(2.0 * (1 - 3)))]
    near = [1 - abs(right[0] - 0.0), 1 - abs(right[1] - 1.0)]
    assert reward == pytest.approx(near[0] * near[1] if coupling == "product" else sum(near) / 2)
    assert observation.tolist() == [NUM_STEPS - 1, 1.0, 5.0, -2.0, 3.0, 0.0, 2.0]
    assert not terminated
    assert not truncated


@pytest.mark.parametrize("coupling", ["product", "mean"])
def test_the_best_return_of_sigmoid_is_what_trying_all_actions_finds(coupling: Coupling) -> None:
    env = SigmoidEnv(INSTANCES, coupling)
    env.reset(seed=3)
    promised, found, over = env.optimal_return, 0.0, False
    while not over:
        step = env._step
        rewards = []
        for action in itertools.product(range(NUM_CHOICES), repeat=2):
            env._step = step
            _, reward, _, over, _ = env.step(np.array(action))
            rewards.append(reward)
        found += max(rewards)
    assert promised == pytest.approx(found)


def test_sigmoid_instances_are_read_from_a_table(tmp_path: Path) -> None:
    folder = tmp_path / "instance_sets" / "function_approximation"
    folder.mkdir(parents=True)
    header = ["ID", *(f"function_{d}_{key}" for d in range(5) for key in ("identifier", "a", "b"))]
    numbers = ["0", *(text for d in range(5) for text in ("0", f"{d}.5", f"-{d}"))]
    (folder / "sigmoid_5D3M_train.csv").write_text(f"{','.join(header)}\n{','.join(numbers)}\n")
    read_instances.cache_clear()
    assert read_instances(tmp_path).tolist() == [[[d + 0.5, -d] for d in range(5)]]
    read_instances.cache_clear()


class Part:
    """Like a part of mobile-env: makes its generator once, from the seed it was built with."""

    def __init__(self) -> None:
        self.seed = 1
        self.rng: np.random.Generator | None = None

    def reset(self) -> None:
        if self.rng is None:
            self.rng = np.random.default_rng(self.seed)


class Phones(gymnasium.Env[Any, Any]):
    """Like mobile-env: forgets the seed of a reset."""

    observation_space = spaces.Box(0.0, 1.0, (5,), np.float64)
    action_space = spaces.MultiDiscrete([4, 4])
    EP_MAX_TIME = 100

    def __init__(self) -> None:
        self.parts = [Part() for _ in range(5)]
        self.arrival, self.channel, self.scheduler, self.movement, self.utility = self.parts
        self.seed, self.rng = 0, None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        for part in self.parts:
            part.reset()
        return np.array([part.rng.random() for part in self.parts if part.rng is not None]), {}


def test_phones_follow_the_seed_of_their_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Phones()
    assert plain.reset(seed=3)[0].tolist() != plain.reset(seed=3)[0].tolist()  # what is to be mended
    env = SeededPhones(Phones())
    first = env.reset(seed=3)[0].tolist()
    following = env.reset()[0].tolist()
    assert env.reset(seed=4)[0].tolist() != first
    assert env.reset(seed=3)[0].tolist() == first
    assert env.reset()[0].tolist() == following != first
    assert len(set(first)) == 5  # every part draws from a seed of its own
    assert with_seeds(plain) is plain
    monkeypatch.setattr(Phones, "__module__", "mobile_env.core.base")
    assert isinstance(with_seeds(Phones()), SeededPhones)


class Robots(gymnasium.Env[Any, Any]):
    """Like lbforaging and rware: Tuple spaces, and a reward for each robot."""

    action_space = spaces.Tuple([spaces.Discrete(3), spaces.Discrete(3)])
    observation_space = spaces.Tuple([spaces.Box(-1.0, 1.0, (2,), np.float32)] * 2)

    def __init__(self, rewards: Any) -> None:
        self.rewards = rewards

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return (np.zeros(2, np.float32), np.ones(2, np.float32)), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        assert action in self.action_space
        return self.reset()[0], self.rewards, True, False, {}


@pytest.mark.parametrize("rewards", [[1, 0], (1.0, 0.0), np.array([1.0, 0.0]), 0.5])
def test_robots_share_their_rewards(rewards: Any) -> None:
    env = Factored(Robots(rewards), bins=3)
    observation, _ = env.reset()
    assert observation.tolist() == [0.0, 0.0, 1.0, 1.0]
    assert env.step(np.array([2, 1]))[1] == 0.5


@pytest.mark.parametrize("rewards", [[1, 0, 1], [1, "much"], [[1, 0], [0, 1]], []])
def test_rewards_that_are_not_one_for_each_robot_are_a_fault(rewards: Any) -> None:
    with pytest.raises(EnvFault, match="the reward should be a number"):
        Factored(Robots(rewards), bins=3).step(np.array([0, 0]))


class Crossings:
    """Like sumo-rl's simulation of two crossings."""

    ts_ids = ("1", "2")

    def __init__(self, **options: Any) -> None:
        self.options = options

    def observation_spaces(self, light: str) -> spaces.Space[Any]:
        return spaces.Box(0.0, 1.0, (3,), np.float32)

    def action_spaces(self, light: str) -> spaces.Space[Any]:
        return spaces.Discrete(4)

    def reset(self, seed: int) -> dict[str, Any]:
        self.seconds, self.start = 0, seed
        return self.observe()

    def observe(self) -> dict[str, Any]:
        return {light: np.full(3, self.start % 97 / 97, np.float32) for light in self.ts_ids}

    def step(self, action: dict[str, int]) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, Any]]:
        self.seconds += self.options["delta_time"]
        over = self.seconds >= self.options["num_seconds"]
        return self.observe(), {"1": 1.0 * action["1"], "2": 3.0}, {"__all__": over}, {}

    def close(self) -> None:
        pass


def test_crossings_are_joined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = SimpleNamespace(SumoEnvironment=Crossings, __file__=str(tmp_path / "environment" / "env.py"))
    monkeypatch.setattr(traffic, "_import_simulation", lambda: module)
    env = Factored(traffic.TrafficEnv(), bins=3)
    first, _ = env.reset(seed=1)
    assert first.shape == (6,)
    assert env.reset(seed=2)[0].tolist() != first.tolist()
    assert env.reset(seed=1)[0].tolist() == first.tolist()
    steps, truncated = 0, False
    while not truncated:
        _, reward, terminated, truncated, _ = env.step(np.array([2, 0]))
        steps += 1
        assert reward == 2.5
        assert not terminated
    assert steps == traffic.SECONDS // traffic.DELTA_SECONDS
    env.close()


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_missing_package_is_named_with_its_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: None)
    with pytest.raises(UserError, match=rf"problem:{name} needs the package '{PROBLEMS[name].package}': pip install "):
        make_env(TaskSpec(f"problem:{name}"))


def test_a_missing_module_of_the_extra_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mobile_env", None)  # as if it were not there

    def refuse(name: str) -> ModuleType:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("revalued.envs.modules.importlib.import_module", refuse)
    with pytest.raises(UserError, match=r"No module named 'mobile_env': pip install 'revalued\[problems\]'"):
        make_env(TaskSpec("gym:mobile_env:mobile-small-central-v0"))


def test_an_unknown_problem_is_answered_with_its_neighbour() -> None:
    with pytest.raises(UserError, match=r"unknown problem 'sepsys'.*sepsis"):
        make_env(TaskSpec("problem:sepsys"))


def test_a_problem_without_pictures_says_so() -> None:
    pytest.importorskip("lbforaging")
    with pytest.raises(UserError, match="problem:foraging has no pictures"):
        make_env(TaskSpec("problem:foraging"), "rgb_array")


def test_the_listing_names_every_problem() -> None:
    (line,) = (line for line in task_listing() if line.startswith("problem:"))
    assert all(name in line for name in PROBLEMS)


def test_every_package_is_in_the_lock_file() -> None:
    lock = (Path(__file__).parents[1] / "requirements-problems.lock").read_text().lower().replace("-", "_")
    assert [problem.package for problem in PROBLEMS.values() if f"{problem.package}==" not in lock] == []


REAL = {
    "phones-small": ((4,) * 5, 35),
    "phones-medium": ((8,) * 15, 225),
    "sepsis": ((5, 5), 716),
    "foraging": ((6,) * 3, 54),
    "warehouse": ((5,) * 4, 284),
    "spread": ((5,) * 3, 54),
    "traffic": ((4,) * 4, 84),
    "sigmoid": ((3,) * 5, 16),
    "sigmoid-mean": ((3,) * 5, 16),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REAL)
def test_the_real_problem_is_what_its_page_says(name: str) -> None:
    if importlib.util.find_spec(PROBLEMS[name].package) is None:
        pytest.skip(f"{PROBLEMS[name].package} is not installed")
    found = examine(find_task(TaskSpec(f"problem:{name}")), episodes=1, seconds=10, seed=0)
    assert (found.sizes, found.observation_size) == REAL[name]
    assert found.repeats


@pytest.mark.slow
def test_the_known_values_of_sepsis_are_those_of_its_tables() -> None:
    found = importlib.util.find_spec("icu_sepsis")
    if found is None or found.origin is None:
        pytest.skip("icu-sepsis is not installed")
    at_random, best = known_values(read_tables(Path(found.origin).parent))
    assert at_random == pytest.approx(0.78, abs=0.005)  # as published
    assert best == pytest.approx(PROBLEMS["sepsis"].optimum, abs=5e-5)
