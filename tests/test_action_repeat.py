"""Every action is held for N steps: what is summed, what is counted, what ends it early, on every kind of task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from numpy.typing import NDArray

from cluster_helpers import BASE, session
from revalued import DecQN
from revalued.envs import CountingEnv, LeverGame, TaskSpec, find_task, lanes_from, make_env, task_of
from revalued.envs.noise import TRUE_REWARD, Noisy
from revalued.envs.repeat import STEPS, Repeated
from revalued.errors import UserError
from revalued.run.start import evaluate, resume, start
from revalued.training.actors.pacing import Pace
from revalued.training.build import agent_shape
from revalued.validation import validate
from run_helpers import assert_same_run, evolve, newest, quick_config, rows, stop_after, train
from test_cluster_blocks import make_actor, plan_of, read, weights_of

CONFIG = quick_config("toy-counting", action_repeat=2, env_steps=700, warmup_env_steps=200)


class Script(gymnasium.Env[NDArray[np.float32], NDArray[np.int64]]):
    """Plays five steps whose infos are given; the observation and the reward are the number of the step."""

    def __init__(self, infos: list[dict[str, Any]]) -> None:
        self.action_space, self.observation_space = spaces.MultiDiscrete([2, 2]), spaces.Box(0, 9, (1,), np.float32)
        self._infos, self._step = infos, 0
        self.actions: list[list[int]] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self._step, self.actions = 0, []
        return np.zeros(1, np.float32), self._infos[0]

    def step(self, action: NDArray[np.int64]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        self._step += 1
        self.actions.append(np.asarray(action).tolist())
        seen = np.full(1, self._step, np.float32)
        return seen, float(self._step), self._step == 5, False, self._infos[self._step]


def test_rewards_add_up_and_the_end_of_the_episode_ends_the_repeat() -> None:
    own = Script([{}] * 6)
    env = Repeated(own, 3)
    env.reset(seed=0)
    assert env.step(np.array([0, 1])) == (np.array([3]), 1 + 2 + 3, False, False, {STEPS: 3})
    assert env.step(np.array([1, 1])) == (np.array([5]), 4 + 5, True, False, {STEPS: 2})
    assert own.actions == [[0, 1]] * 3 + [[1, 1]] * 2


def test_a_task_solved_on_the_way_stays_solved() -> None:
    infos: list[dict[str, Any]] = [
        {},
        {"success": False},
        {"success": True},
        {"success": False},
        {"success": False},
        {"success": np.True_},
    ]
    env = Repeated(Script(infos), 3)
    env.reset()
    assert [bool(env.step(np.zeros(2))[4]["success"]) for _ in range(2)] == [True, True]
    env.reset()
    assert Repeated(Script([{"is_success": 0.0}] * 6), 2).step(np.zeros(2))[4] == {"is_success": 0.0, STEPS: 2}


@pytest.mark.parametrize("is_flat", [True, False])
def test_a_mask_that_changes_ends_the_repeat(is_flat: bool) -> None:
    mask = np.ones(4, bool)

    def said(values: list[int]) -> dict[str, Any]:
        mask[:] = values  # the same array every time, as some environments do
        return {"action_mask": mask if is_flat else (mask[:2], mask[2:])}

    class Masked(Script):
        def reset(self, **options: Any) -> Any:
            return super().reset(**options)[0], said([1, 1, 1, 0])

        def step(self, action: NDArray[np.int64]) -> Any:
            *answer, _ = super().step(action)
            return *answer, said([1, 1, 1, 0] if self._step < 3 else [1, 0, 1, 1])

    env = Repeated(Masked([{}] * 6), 4)
    env.reset()
    # the mask of step 3 is another; from then on it stays, up to the end
    assert [env.step(np.zeros(2))[4][STEPS] for _ in range(2)] == [3, 2]


def test_noise_is_the_environments_in_every_step_and_reported_returns_are_without() -> None:
    """The same episode, seed and actions, taken step by step and two steps at a time."""
    single = Noisy(LeverGame(), 0.5, 0.3)
    double = make_env(TaskSpec("toy-levers", reward_noise=0.5, state_noise=0.3, action_repeat=2))
    single.reset(seed=3)
    double.reset(seed=3)
    for number in range(5):
        action = np.array([number % 2, number % 3, number])
        steps = [single.step(action) for _ in range(2)]
        observation, reward, terminated, truncated, info = double.step(action)
        assert observation.tobytes() == steps[1][0].tobytes()
        assert reward == steps[0][1] + steps[1][1]
        assert info[TRUE_REWARD] == sum(step[4][TRUE_REWARD] for step in steps)
        assert abs(info[TRUE_REWARD] - reward) > 1e-3
        assert (terminated, truncated) == (number == 4, False)


@pytest.mark.parametrize("task", ["toy-levers", "gym:CartPole-v1", "cartpole-balance", "metaworld:reach-v3"])
def test_every_kind_of_task_repeats(task: str) -> None:
    if task.startswith("metaworld"):
        pytest.importorskip("metaworld")
    plain, repeated = make_env(TaskSpec(task)), make_env(TaskSpec(task, action_repeat=3))
    plain.reset(seed=1)
    repeated.reset(seed=1)
    action = np.zeros_like(plain.action_space.sample())
    steps = [plain.step(action) for _ in range(3)]
    observation, reward, *_, info = repeated.step(action)
    assert observation.tobytes() == steps[-1][0].tobytes()
    assert (reward, info[STEPS]) == (sum(float(step[1]) for step in steps), 3)
    assert find_task(TaskSpec(task, action_repeat=3)).info == find_task(TaskSpec(task)).info
    plain.close()
    repeated.close()


def test_a_thousand_steps_are_five_hundred_decisions() -> None:
    task = find_task(TaskSpec("walker-walk", action_repeat=2))
    assert task.info.max_episode_steps == 1000
    with lanes_from(task, range(1), 0, 0) as lanes:
        lanes.reset()
        for _ in range(499):
            lanes.step_async(np.zeros((1, 6), np.int64))
            assert not lanes.step_wait().truncated[0]
        lanes.step_async(np.zeros((1, 6), np.int64))
        assert lanes.step_wait().truncated[0]


def test_interactions_are_steps_of_the_environment(tmp_path: Path) -> None:
    path = train(CONFIG, tmp_path / "run")
    meta, arrays = newest(path).meta, newest(path).arrays
    # 5 lanes make 10 interactions in each of 70 cycles; those after 200 pay for an update per 5
    assert (meta["env_steps"], meta["updates"]) == (700, 100)
    assert meta["epsilon"] == 0.99995**700
    # 70 decisions of 5 lanes; an action is stored once
    assert arrays["replay.heads"].sum() < 2 * 70 * 5
    lengths = [float(row["length"]) for row in rows(path, "eval.csv")]
    assert max(lengths) <= 12  # of the environment's steps
    assert any(length % 2 for length in lengths)  # an odd number ended in the middle of a repeat


def test_test_episodes_report_the_environments_steps_and_returns(tmp_path: Path) -> None:
    path = train(evolve(CONFIG, reward_noise=0.5), tmp_path / "run")
    for episode in evaluate(path, 6, 0):
        # the reward of step n is n
        assert episode.total_reward == episode.length * (episode.length + 1) / 2
    agent = DecQN(lambda: CountingEnv(min_steps=11, max_steps=11), action_repeat=4, max_eval_steps=7, hidden_size=8)
    assert [(episode.length, episode.is_cut_off) for episode in agent.evaluate(1)] == [(8, True)]


@pytest.mark.parametrize("name", ["plain", "masked", "noisy"])
def test_resumed_equals_uninterrupted(name: str, tmp_path: Path) -> None:
    changes: dict[str, dict[str, Any]] = {
        "plain": {},
        "masked": {"task": "toy-masked"},
        "noisy": {"reward_noise": 0.1, "state_noise": 0.1},
    }
    config = evolve(CONFIG, **changes[name])
    expected = train(config, tmp_path / "expected")
    _, outcome = start(config, tmp_path / "run", should_stop=stop_after(53))
    assert outcome.summary["env_steps"] == 530
    assert resume(tmp_path / "run", workers=2).finished
    assert_same_run(expected, tmp_path / "run")


def test_actors_count_alike(tmp_path: Path) -> None:
    pace = Pace.of(evolve(CONFIG, actors=4, num_envs=5, block_steps=3))
    assert pace.max_staleness == 2 * 4 * 6  # blocks of 30 interactions pay for 6 updates
    assert [pace.max_updates(steps) for steps in (1, 2, 3)] == [2, 4, 6]
    assert [pace.next_steps(done, []) for done in (0, 680, 690, 699)] == [3, 2, 1, 1]
    run = session(evolve(BASE, in_order=True, action_repeat=2), tmp_path / "run")
    assert run.run().summary["env_steps"] == 600
    assert [ticket.env_steps for ticket in run.link.tickets] == [16 * number for number in range(38)]
    config = evolve(CONFIG, epsilon_decay=0.9, epsilon_min=0.0, num_envs=1, critics=1, action_repeat=10)
    plan = replace(plan_of(config), action_repeat=10)
    weights = {name: np.zeros_like(array) for name, array in weights_of(plan).items()}
    weights["online.head.bias"][0, 0, [1, 5]] = 1.0
    early = read(plan, make_actor(plan).collect(weights, 0, 3, 0, 100), num_steps=100)
    greedy = (early.actions[:, 0] == [1, 2]).all(axis=1)
    assert not greedy[:3].all()
    assert greedy[20:].all()  # 0.9^200 is 7e-10; by decisions ε would be 0.12 here


def test_the_support_of_returns_covers_added_rewards() -> None:
    def support(action_repeat: int) -> Any:
        config = quick_config("toy-levers", "decqn-c51", action_repeat=action_repeat)
        return agent_shape(config, task_of(config).info).support

    assert (support(1), support(2)) == ((0.0, 100.0), (0.0, 200.0))


def test_users_get_environments_that_repeat_too() -> None:
    agent = DecQN(lambda: CountingEnv(min_steps=12, max_steps=12), action_repeat=5, hidden_size=8)
    env = agent.make_env()
    observation, _ = env.reset(seed=0)
    observation, reward, *_ = env.step(agent.predict(observation)[0])
    assert (observation[1], reward) == (5, 15)
    registered = gymnasium.make("revalued/toy-counting-v0", action_repeat=3)
    registered.reset(seed=0)
    assert registered.step(np.array([0, 0]))[1] == 6


def test_pictures_come_at_the_true_speed() -> None:
    env = Script([{}] * 6)
    assert Repeated(env, 2).metadata == env.metadata  # which says nothing about it
    env.metadata = {"render_fps": 50}
    assert Repeated(env, 4).metadata["render_fps"] == 12
    assert env.metadata["render_fps"] == 50


def test_repeating_never_is_refused() -> None:
    with pytest.raises(UserError, match="action_repeat = 0 is not possible: it must be at least 1"):
        validate(evolve(CONFIG, action_repeat=0))
