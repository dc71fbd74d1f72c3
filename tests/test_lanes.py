"""Lanes: the same stream for every number of workers, nothing dropped, reordered or mixed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from revalued.envs import CountingEnv, Lanes, Task, TaskInfo, TaskSpec, find_task, lanes_from, make_env
from revalued.envs.kinds import task_info
from revalued.envs.vector.lane_state import LaneStep
from revalued.errors import UserError
from revalued.seeding import Stream, episode_seed

NUM_LANES = 5
SEED = 3


def random_actions(info: TaskInfo, num_steps: int, num_lanes: int = NUM_LANES) -> NDArray[np.int64]:
    return np.random.default_rng(0).integers(0, info.sizes, (num_steps, num_lanes, len(info.sizes)))


def advance(lanes: Lanes, actions: NDArray[np.int64]) -> list[LaneStep]:
    steps = []
    for action in actions:
        lanes.step_async(action)
        steps.append(lanes.step_wait())
    return steps


def fingerprint(steps: list[LaneStep]) -> bytes:
    """Return every bit that the steps brought."""
    return b"".join(
        array.tobytes()
        for step in steps
        for array in (step.rewards, step.terminated, step.truncated, step.next_observations, step.observations)
    )


def stream(task: str, num_steps: int, workers: int) -> bytes:
    spec = TaskSpec(task)
    with lanes_from(find_task(spec), range(NUM_LANES), workers, SEED) as lanes:
        first = lanes.reset()
        return first.tobytes() + fingerprint(advance(lanes, random_actions(task_info(spec), num_steps)))


@pytest.mark.parametrize(
    ("task", "num_steps", "workers"),
    [
        ("toy-counting", 400, 1),
        ("toy-counting", 400, 2),
        ("toy-counting", 400, 5),
        ("toy-counting", 400, 9),  # as many as lanes is all that can be used
        ("walker-walk", 200, 2),
        pytest.param("walker-walk", 1200, 1, marks=pytest.mark.slow),
        pytest.param("walker-walk", 1200, 5, marks=pytest.mark.slow),
    ],
)
def test_the_number_of_workers_changes_no_bit(task: str, num_steps: int, workers: int) -> None:
    assert stream(task, num_steps, workers) == stream(task, num_steps, workers=0)


@pytest.mark.parametrize("workers", [0, 2])
def test_counting_proves_that_nothing_is_dropped_reordered_or_mixed(workers: int) -> None:
    """Predict every number of the stream from seeds and actions alone."""
    make: Callable[[], CountingEnv] = partial(CountingEnv, min_steps=1, max_steps=7)
    info = TaskInfo(4, (2, 3), None, 7)
    actions = random_actions(info, 300)
    episodes, counts = [0] * NUM_LANES, [0] * NUM_LANES
    endings = set()

    def label(lane: int) -> float:
        return CountingEnv.fingerprint(episode_seed(SEED, Stream.TRAINING, lane, episodes[lane]))

    with lanes_from(Task(info, make), range(NUM_LANES), workers, SEED) as lanes:
        first = lanes.reset()
        assert first.tolist() == [[label(lane), 0, -1, -1] for lane in range(NUM_LANES)]
        for action, step in zip(actions, advance(lanes, actions), strict=True):
            for lane in range(NUM_LANES):
                counts[lane] += 1
                successor = [label(lane), counts[lane], *action[lane]]
                assert step.next_observations[lane].tolist() == successor
                assert step.rewards[lane] == counts[lane]
                ending = (bool(step.terminated[lane]), bool(step.truncated[lane]))
                endings.add(ending)
                if any(ending):
                    episodes[lane] += 1
                    counts[lane] = 0
                    successor = [label(lane), 0, -1, -1]
                assert step.observations[lane].tolist() == successor
    assert endings == {(False, False), (True, False), (False, True)}
    assert len(set(episodes)) > 1  # the lanes did not march in step
    assert min(episodes) > 50


def test_a_lane_plays_what_a_single_environment_would() -> None:
    spec = TaskSpec("toy-levers")
    actions = random_actions(task_info(spec), 25)
    with lanes_from(find_task(spec), range(NUM_LANES), 0, SEED) as lanes:
        lanes.reset()
        rewards = np.array([step.rewards for step in advance(lanes, actions)])
    env = make_env(spec)
    for lane in range(NUM_LANES):
        expected = []
        for episode in range(3):
            env.reset(seed=episode_seed(SEED, Stream.TRAINING, lane, episode))
            for step in range(10 * episode, min(10 * episode + 10, 25)):
                expected.append(env.step(actions[step, lane])[1])
        assert rewards[:, lane].tolist() == expected


def test_results_belong_to_the_caller() -> None:
    spec = TaskSpec("toy-counting")
    with lanes_from(find_task(spec), range(NUM_LANES), 0, SEED) as lanes:
        lanes.reset()
        actions = random_actions(task_info(spec), 20)
        steps = advance(lanes, actions[:1])
        before = fingerprint(steps)
        advance(lanes, actions[1:])
        assert fingerprint(steps) == before


def test_an_environment_may_keep_its_action() -> None:
    kept: list[NDArray[np.int64]] = []

    class Keeper(CountingEnv):
        def step(self, action: NDArray[np.int64]):  # type: ignore[no-untyped-def]
            kept.append(action)
            return super().step(action)

    info = TaskInfo(4, (2, 3), None, 12)
    actions = random_actions(info, 10, num_lanes=2)
    with lanes_from(Task(info, Keeper), range(2), 0, SEED) as lanes:
        lanes.reset()
        advance(lanes, actions)
    assert np.array(kept).tolist() == actions.reshape(20, 2).tolist()


def test_streams_share_no_episodes() -> None:
    task = find_task(TaskSpec("toy-counting"))
    with (
        lanes_from(task, range(4), 0, SEED) as training,
        lanes_from(task, range(4), 0, SEED, Stream.EVALUATION) as evaluation,
    ):
        assert not set(training.reset()[:, 0]) & set(evaluation.reset()[:, 0])


@pytest.mark.parametrize("workers", [0, 2])
def test_the_number_of_a_lane_decides_its_episodes(workers: int) -> None:
    """As with several actors, each of which has some of the lanes."""
    task = find_task(TaskSpec("toy-counting"))
    actions = random_actions(task.info, 40)
    with lanes_from(task, range(NUM_LANES), 0, SEED) as lanes:
        first, steps = lanes.reset(), advance(lanes, actions)
    with lanes_from(task, range(2, NUM_LANES), workers, SEED) as lanes:
        assert lanes.reset().tolist() == first[2:].tolist()
        for step, expected in zip(advance(lanes, actions[:, 2:]), steps, strict=True):
            assert step.next_observations.tolist() == expected.next_observations[2:].tolist()
            assert step.observations.tolist() == expected.observations[2:].tolist()
        state = lanes.state()
        assert lanes.restore(state).diverged_lanes == ()
        assert lanes.state().observations.tolist() == steps[-1].observations[2:].tolist()


def test_reset_begins_the_stream_anew() -> None:
    spec = TaskSpec("toy-counting")
    actions = random_actions(task_info(spec), 30)
    with lanes_from(find_task(spec), range(NUM_LANES), 2, SEED) as lanes:
        first = lanes.reset().tobytes() + fingerprint(advance(lanes, actions))
        assert lanes.reset().tobytes() + fingerprint(advance(lanes, actions)) == first


def test_calls_out_of_order_are_refused() -> None:
    actions = np.zeros((2, 3), np.int64)
    lanes = lanes_from(find_task(TaskSpec("toy-levers")), range(2), 0, SEED)
    with pytest.raises(RuntimeError, match=r"step_async\(\) before reset"):
        lanes.step_async(actions)
    with pytest.raises(RuntimeError, match=r"state\(\) before reset"):
        lanes.state()
    lanes.reset()
    with pytest.raises(RuntimeError, match=r"step_wait\(\) before step_async"):
        lanes.step_wait()
    lanes.step_async(actions)
    for call in (lanes.state, lanes.reset, partial(lanes.step_async, actions)):
        with pytest.raises(RuntimeError, match="between step_async"):
            call()
    lanes.step_wait()
    lanes.state()
    lanes.close()
    lanes.close()
    with pytest.raises(RuntimeError, match="after close"):
        lanes.reset()


def test_actions_that_do_not_fit_are_refused() -> None:
    with lanes_from(find_task(TaskSpec("toy-levers")), range(2), 0, SEED) as lanes:  # 2, 3 and 5 choices
        lanes.reset()
        with pytest.raises(ValueError, match="shape"):
            lanes.step_async(np.zeros((3, 2), np.int64))
        for bad in ([0, 3, 0], [2, 0, 0], [0, 0, -1]):
            with pytest.raises(ValueError, match="do not fit"):
                lanes.step_async(np.array([[1, 2, 4], bad]))
        lanes.step_async(np.array([[1, 2, 4], [0, 0, 0]]))
        lanes.step_wait()


def test_impossible_numbers_of_lanes_and_workers_are_refused() -> None:
    with pytest.raises(UserError, match="at least 1 environment"):
        lanes_from(find_task(TaskSpec("toy-levers")), range(0), 0, SEED)
    with pytest.raises(UserError, match="cannot be negative"):
        lanes_from(find_task(TaskSpec("toy-levers")), range(1), -1, SEED)
