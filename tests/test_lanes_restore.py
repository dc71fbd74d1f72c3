"""A restored stream equals the uninterrupted one to the bit, and an environment that cannot do that is named."""

from __future__ import annotations

import io
import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from revalued.envs import CountingEnv, LaneState, Task, TaskInfo, TaskSpec, find_task, lanes_from
from revalued.envs.kinds import task_info
from revalued.seeding import Stream, episode_seed
from test_lanes import NUM_LANES, SEED, advance, fingerprint, random_actions


def stored_and_loaded(state: LaneState) -> LaneState:
    """Return the state after a trip through a file that knows no pickle."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **state.to_arrays())
    file.seek(0)
    return LaneState.from_arrays(np.load(file, allow_pickle=False))


def assert_restores(task: str, moment: int, num_steps: int, num_lanes: int, workers: tuple[int, int]) -> None:
    spec = TaskSpec(task)
    actions = random_actions(task_info(spec), num_steps, num_lanes)
    with lanes_from(find_task(spec), range(num_lanes), workers[0], SEED) as lanes:
        current = lanes.reset()
        for step in advance(lanes, actions[:moment]):
            current = step.observations
        state = lanes.state()
        uninterrupted = fingerprint(advance(lanes, actions[moment:]))
        final_state = lanes.state()
    with lanes_from(find_task(spec), range(num_lanes), workers[1], SEED) as lanes:
        restored = lanes.restore(stored_and_loaded(state))
        assert restored.diverged_lanes == ()
        assert restored.observations.tobytes() == current.tobytes()
        assert fingerprint(advance(lanes, actions[moment:])) == uninterrupted
        for key, array in lanes.state().to_arrays().items():
            assert array.tobytes() == final_state.to_arrays()[key].tobytes()


@pytest.mark.parametrize("moment", [0, 1, 2, 11, 12, 13, 37, 100, 251])
def test_toy_streams_go_on_as_if_never_interrupted(moment: int) -> None:
    assert_restores("toy-counting", moment, num_steps=moment + 60, num_lanes=NUM_LANES, workers=(0, 0))


@pytest.mark.parametrize("workers", [(0, 2), (2, 0), (1, 3)])
def test_the_number_of_workers_may_change_in_between(workers: tuple[int, int]) -> None:
    assert_restores("toy-counting", 43, num_steps=100, num_lanes=NUM_LANES, workers=workers)


@pytest.mark.parametrize(
    ("task", "moment", "num_lanes"),
    [("quadruped-walk", 40, 2), ("fish-swim", 90, 2), ("finger-spin", 77, 2), ("dog-walk", 25, 1)],
)
def test_simulations_go_on_as_if_never_interrupted(task: str, moment: int, num_lanes: int) -> None:
    assert_restores(task, moment, num_steps=2 * moment, num_lanes=num_lanes, workers=(0, 0))


def test_a_simulation_goes_on_in_its_second_episode_and_with_workers() -> None:
    assert_restores("cartpole-swingup_sparse", 1040, num_steps=1080, num_lanes=3, workers=(0, 2))


@pytest.mark.slow
@pytest.mark.parametrize("task", ["humanoid-run", "dog-run", "walker-walk", "quadruped-run", "stacker-stack_4"])
def test_simulations_full_of_contacts_go_on_as_if_never_interrupted(task: str) -> None:
    assert_restores(task, 600, num_steps=900, num_lanes=2, workers=(2, 0))


def test_used_lanes_can_be_restored_too() -> None:
    spec = TaskSpec("toy-counting")
    actions = random_actions(task_info(spec), 80)
    with lanes_from(find_task(spec), range(NUM_LANES), 0, SEED) as lanes:
        lanes.reset()
        advance(lanes, actions[:20])
        state = lanes.state()
        first = fingerprint(advance(lanes, actions[20:]))
        lanes.restore(state)
        assert fingerprint(advance(lanes, actions[20:])) == first


def test_the_log_grows_with_an_episode_of_unknown_length() -> None:
    make = partial(CountingEnv, min_steps=900, max_steps=900)
    info = TaskInfo(4, (2, 3), None, None)
    actions = random_actions(info, 890, num_lanes=2)
    with lanes_from(Task(info, make), range(2), 0, SEED) as lanes:
        lanes.reset()
        advance(lanes, actions)
        state = lanes.state()
    assert [lane.dtype for lane in state.actions] == [np.uint8, np.uint8]
    assert np.stack(state.actions, axis=1).tolist() == actions.tolist()
    with lanes_from(Task(info, make), range(2), 0, SEED) as lanes:
        assert lanes.restore(state).diverged_lanes == ()
        assert np.stack(lanes.state().actions, axis=1).tolist() == actions.tolist()


def test_a_state_does_not_change_when_the_lanes_go_on() -> None:
    spec = TaskSpec("toy-counting")
    actions = random_actions(task_info(spec), 30)
    with lanes_from(find_task(spec), range(NUM_LANES), 0, SEED) as lanes:
        lanes.reset()
        advance(lanes, actions[:5])
        state = lanes.state()
        before = {key: array.tobytes() for key, array in state.to_arrays().items()}
        advance(lanes, actions[5:])
        assert {key: array.tobytes() for key, array in state.to_arrays().items()} == before


def test_a_state_of_other_lanes_is_refused() -> None:
    with lanes_from(find_task(TaskSpec("toy-counting")), range(3), 0, SEED) as lanes:
        lanes.reset()
        state = lanes.state()
    with (
        lanes_from(find_task(TaskSpec("toy-counting")), range(4), 0, SEED) as lanes,
        pytest.raises(ValueError, match=r"\(3, 4\) instead of \(4, 4\)"),
    ):
        lanes.restore(state)


UNRELIABLE_LANE = 1
UNRELIABLE_SEEDS = {episode_seed(SEED, Stream.TRAINING, UNRELIABLE_LANE, episode) for episode in range(200)}
_resets = itertools.count(1)


class Forgetful(CountingEnv):
    """Begins the episodes of one lane somewhere else each time, by as little as float32 can tell."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        if seed in UNRELIABLE_SEEDS:
            self._fingerprint = next(_resets) * 2.0**-30
        return observation, info


class Moody(CountingEnv):
    """Has an episode in one lane that is shorter each time."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        if seed in UNRELIABLE_SEEDS:
            self._episode_steps = 20 if next(_resets) == 1 else 4
        return observation, info


@pytest.mark.parametrize("env", [Forgetful, Moody])
def test_an_environment_that_does_not_repeat_itself_is_named(env: type[CountingEnv]) -> None:
    global _resets
    _resets = itertools.count(1)
    make = partial(env, min_steps=20, max_steps=20)
    info = TaskInfo(4, (2, 3), None, 20)
    actions = random_actions(info, 30, num_lanes=3)
    with lanes_from(Task(info, make), range(3), 0, SEED) as lanes:
        lanes.reset()
        advance(lanes, actions[:10])
        state = lanes.state()
    with lanes_from(Task(info, make), range(3), 0, SEED) as lanes:
        restored = lanes.restore(state)
        assert restored.diverged_lanes == (UNRELIABLE_LANE,)
        # The lane stands at the beginning of its next episode, the others where they were.
        after = lanes.state()
        assert after.episodes.tolist() == [0, 1, 0]
        assert [len(lane) for lane in after.actions] == [10, 0, 10]
        fresh = CountingEnv.fingerprint(episode_seed(SEED, Stream.TRAINING, UNRELIABLE_LANE, 1))
        assert restored.observations[1].tolist() == [fresh, 0, -1, -1]
        assert restored.observations[[0, 2]].tolist() == state.observations[[0, 2]].tolist()
        assert after.observations.tolist() == restored.observations.tolist()
        # From here on all is well again: the state that follows knows nothing of the lost episode.
        assert advance(lanes, actions[10:13])[-1].rewards.tolist() == [13.0, 3.0, 13.0]
