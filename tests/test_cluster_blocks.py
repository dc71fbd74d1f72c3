"""Blocks: what an actor sends is what happened, and whatever else arrives is refused with its place named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cluster_helpers import BASE
from naive_blocks import naive_replay
from revalued.acting.exploration import epsilon_at
from revalued.config import TrainConfig
from revalued.envs import CountingEnv, task_of
from revalued.networks import initialise
from revalued.seeding import Stream, episode_seed, episode_stream, exploration_rng
from revalued.training.actors.actor import Actor, ActorPlan, lanes_of
from revalued.training.actors.block import Arrays, Block, BlockError, Ticket, read_block
from revalued.training.actors.loop import store_block
from revalued.training.build import agent_shape, make_replay
from run_helpers import evolve, quick_config


def plan_of(config: TrainConfig) -> ActorPlan:
    task = task_of(config)
    shape = agent_shape(config, task.info)
    return ActorPlan(task, shape.network, shape.support, config.exploration, config.seed, config.schedule.num_envs)


def weights_of(plan: ActorPlan) -> Arrays:
    import torch

    parameters = initialise(plan.network, torch.Generator().manual_seed(5), torch.device("cpu"))
    return {f"online.{name}": tensor.numpy() for name, tensor in parameters.items()}


def make_actor(plan: ActorPlan, actor: int = 1, incarnation: int = 0) -> Actor:
    made = Actor(plan, actor, incarnation)
    assert made.prepare() == {}
    return made


def read(plan: ActorPlan, arrays: Arrays, number: int = 0, num_steps: int = 6, **changes: Any) -> Block:
    ticket = Ticket(1, 0, number, version=3, env_steps=0, num_steps=num_steps, max_updates=0)
    return read_block(arrays, plan.block_shape, replace(ticket, **changes))


PLAN = plan_of(BASE)


def test_a_block_tells_what_happened_in_the_actors_own_lanes() -> None:
    actor, weights = make_actor(PLAN), weights_of(PLAN)
    before = None
    for number in range(5):
        block = read(PLAN, actor.collect(weights, number, 3, 0, 6), number)
        if before is not None:
            assert np.array_equal(block.first_observations, before)
        current = block.first_observations
        for step in range(6):
            following = block.next_observations[step]
            assert np.array_equal(following[:, 0], current[:, 0])  # of the same episode
            assert np.array_equal(following[:, 1], current[:, 1] + 1)
            assert np.array_equal(following[:, 2:], block.actions[step])
            assert np.array_equal(block.rewards[step], following[:, 1])
            current = block.observations()[step]
            assert np.array_equal(current[:, 1] == 0, block.ended[step])
        before = block.observations()[-1]
    first = CountingEnv.fingerprint(episode_seed(BASE.seed, Stream.TRAINING, 2, 0))
    assert read(PLAN, make_actor(PLAN).collect(weights, 0, 3, 0, 6)).first_observations[0, 0] == np.float32(first)


def test_actors_and_incarnations_share_no_episodes_and_no_random_numbers() -> None:
    seeds = {
        episode_seed(0, episode_stream(incarnation), lane, episode)
        for incarnation in range(5)
        for actor in range(4)
        for lane in lanes_of(actor, 3)
        for episode in range(50)
    }
    assert len(seeds) == 5 * 4 * 3 * 50
    draws = {exploration_rng(0, actor, incarnation).random() for actor in range(5) for incarnation in range(5)}
    assert len(draws) == 25


def test_actions_follow_the_weights_and_epsilon_the_number_of_interactions() -> None:
    config = evolve(BASE, epsilon_decay=0.9, epsilon_min=0.0, num_envs=1, critics=1)
    plan = plan_of(config)
    weights = {name: np.zeros_like(array) for name, array in weights_of(plan).items()}
    weights["online.head.bias"][0, 0, [1, 5]] = (
        1.0  # utilities [2, 3 choices padded to 3]: the best choices are 1 and 2
    )
    late = read(plan, make_actor(plan).collect(weights, 0, 3, 10_000, 200), num_steps=200)
    assert (late.actions[:, 0] == [1, 2]).all()
    # the same random numbers, so actions differ from the greedy ones only while ε is above them
    early = read(plan, make_actor(plan).collect(weights, 0, 3, 0, 200), num_steps=200)
    greedy = (early.actions[:, 0] == [1, 2]).all(axis=1)
    assert not greedy[:5].all()
    assert epsilon_at(config.exploration, 120) < 1e-5
    assert greedy[120:].all()


def test_new_weights_are_loaded_with_a_new_version_only() -> None:
    config = evolve(BASE, epsilon_decay=0.1, epsilon_min=0.0, num_envs=1, critics=1)
    plan = plan_of(config)
    low = {name: np.zeros_like(array) for name, array in weights_of(plan).items()}
    high = {**low, "online.head.bias": low["online.head.bias"].copy()}
    high["online.head.bias"][0, 0, [1, 5]] = 1.0
    for array in (*low.values(), *high.values()):
        array.flags.writeable = False
    actor = make_actor(plan)
    chosen = [
        actor.collect(weights, number, version, 1000, 4)["actions"].max()
        for number, (weights, version) in enumerate([(low, 0), (high, 0), (high, 1), (low, 1), (low, 2)])
    ]
    assert chosen == [0, 0, 2, 2, 0]


@pytest.mark.parametrize("task", ["toy-counting", "toy-masked"])
@pytest.mark.parametrize("n_step", [1, 3])
def test_blocks_in_the_replay_equal_steps_one_lane_at_a_time(task: str, n_step: int) -> None:
    """Three actors' blocks in a random order, one actor replaced in between, against a twin that knows only lanes."""
    config = quick_config(task, actors=3, num_envs=2, n_step=n_step, env_steps=600)
    plan, rng = plan_of(config), np.random.default_rng(0)
    replay = make_replay(config, agent_shape(config, plan.task.info))
    twin = naive_replay(config, plan)
    weights = weights_of(plan)
    actors = {actor: make_actor(plan, actor) for actor in range(3)}
    numbers, incarnations = [0, 0, 0], [0, 0, 0]
    for turn in range(40):
        if turn == 20:
            actors[1] = make_actor(plan, 1, incarnation=1)
            numbers[1], incarnations[1] = 0, 1
        actor = int(rng.integers(3))
        arrays = actors[actor].collect(weights, numbers[actor], 3, 0, int(rng.integers(1, 6)))
        block = read(plan, arrays, numbers[actor], len(arrays["rewards"]), actor=actor, incarnation=incarnations[actor])
        store_block(replay, block)
        twin.store(block)
        numbers[actor] += 1
    ours, theirs = replay.state(), twin.state()
    assert [name for name in ours if not np.array_equal(ours[name], theirs[name])] == []
    assert len(replay) > 150


def changed(name: str, change: Callable[[Any], Any]) -> Callable[[Arrays], Any]:
    return lambda arrays: {**arrays, name: change(arrays[name].copy())}


def put(index: tuple[int, ...], value: float) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array[index] = value
        return array

    return change


POISONS: dict[str, tuple[Callable[[Arrays], Any], str]] = {
    "no mapping": (lambda arrays: list(arrays), "is no block"),
    "empty": (lambda arrays: {}, "is no block"),
    "missing": (lambda arrays: {k: v for k, v in arrays.items() if k != "actions"}, "instead of"),
    "extra": (lambda arrays: {**arrays, "more": np.zeros(1)}, "instead of"),
    "object": (changed("rewards", lambda array: array.astype(object)), "rewards is object"),
    "list": (changed("rewards", lambda array: array.tolist()), "rewards is .*list"),
    "float32 rewards": (changed("rewards", lambda a: a.astype(np.float32)), r"rewards is float32 \(6, 2\) instead of"),
    "float64 observations": (changed("next_observations", lambda a: a.astype(np.float64)), "is float64"),
    "signed actions": (changed("actions", lambda a: a.astype(np.int64)), "actions is int64"),
    "short": (changed("terminated", lambda a: a[:-1]), r"terminated is bool \(5, 2\) instead of bool \(6, 2\)"),
    "wide": (changed("next_observations", lambda a: a[..., :3]), r"\(6, 2, 3\) instead of float32 \(6, 2, 4\)"),
    "other lanes": (changed("rewards", lambda a: a[:, :1]), r"\(6, 1\)"),
    "masks from nowhere": (changed("next_masks", lambda a: np.ones((6, 2, 5), np.bool_)), "next_masks is bool"),
    "resets": (changed("truncated", lambda a: ~a), "resets for"),
    "actor": (changed("header", put((0,), 2)), "it says actor 2 where 1 was asked for"),
    "incarnation": (changed("header", put((1,), 4)), "it says incarnation 4"),
    "number": (changed("header", put((2,), 1)), "it says number 1"),
    "version": (changed("header", put((3,), 2)), "it says version 2 where 3 was asked for"),
    "nan reward": (changed("rewards", put((4, 1), np.nan)), "actor 1, block 0, lane 3, step 5 of the block: .* nan"),
    "infinite reward": (changed("rewards", put((0, 0), -np.inf)), "lane 2, step 1 of the block: the reward is -inf"),
    "nan observation": (changed("next_observations", put((2, 1, 3), np.nan)), "lane 3, step 3 of the block"),
    "nan first": (changed("first_observations", put((0, 0), np.nan)), "lane 2, step 0 of the block: the first"),
    "action": (changed("actions", put((1, 0, 1), 3)), "lane 2, step 2 of the block: action"),
}


@pytest.mark.parametrize("name", POISONS)
def test_what_is_no_sound_block_is_refused(name: str) -> None:
    spoil, message = POISONS[name]
    sound = make_actor(PLAN).collect(weights_of(PLAN), 0, 3, 0, 6)
    read(PLAN, sound)
    with pytest.raises(BlockError, match=message):
        read(PLAN, spoil(sound))


def test_a_poisoned_reset_names_where_the_episode_ended() -> None:
    sound = make_actor(PLAN).collect(weights_of(PLAN), 0, 3, 0, 30)
    step, lane = np.argwhere(sound["terminated"] | sound["truncated"])[2].tolist()
    sound["reset_observations"][2, 1] = np.nan
    with pytest.raises(BlockError, match=f"lane {2 + lane}, step {step + 1} of the block") as caught:
        read(PLAN, sound, num_steps=30)
    assert (caught.value.lane, caught.value.step) == (2 + lane, step + 1)


def test_many_choices_travel_in_a_type_that_holds_them() -> None:
    shape = PLAN.block_shape
    types = [str(replace(shape, max_choices=choices).action_type) for choices in (2, 256, 257, 70_000)]
    assert types == ["uint8", "uint8", "uint16", "uint32"]
