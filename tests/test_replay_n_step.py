"""n-step transitions at every kind of boundary: by hand, and against a twin that keeps whole episodes as lists.

An observation names its lane, episode and step, so that any mix of streams shows. With discount 1/2 and whole rewards
all numbers are exact. A fresh replay has equal priorities, so a sample of its own size holds each transition once.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pytest

from revalued.replay import Replay

N_STEPS = (1, 2, 3, 5)
NUM_CHOICES = 3
Observation = tuple[float, ...]


@dataclass(frozen=True)
class Transition:
    action: tuple[int, ...]
    n_step_return: float
    discount: float
    next_observation: Observation | None  # None where the discount is 0: nobody may ask


@dataclass
class Episode:
    observations: list[Observation]
    first_slot: int
    actions: list[tuple[int, ...]] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminated: bool = False
    truncated: bool = False

    def transitions(self, n_step: int, discount: float) -> dict[int, Transition]:
        """Return by definition all complete transitions, by the step they start at."""
        complete, length = {}, len(self.rewards)
        for start in range(length):
            m = min(n_step, length - start)
            if m < n_step and not (self.terminated or self.truncated):
                continue
            n_step_return = sum(discount**j * self.rewards[start + j] for j in range(m))
            if self.terminated and start + m == length:
                complete[start] = Transition(self.actions[start], n_step_return, 0.0, None)
            else:
                following = self.observations[start + m]
                complete[start] = Transition(self.actions[start], n_step_return, discount**m, following)
        return complete


class Twin:
    """One lane as a list of episodes, and a count of the slots their observations take."""

    def __init__(self, lane: int, positions: int) -> None:
        self.lane, self.positions = lane, positions
        self.episodes: deque[Episode] = deque()
        self.num_slots = 0
        self.num_episodes = 0

    def next_first(self) -> Observation:
        return (self.lane, self.num_episodes, 0)

    def begin(self) -> None:
        self.episodes.append(Episode([self.next_first()], self.num_slots))
        self.num_slots += 1
        self.num_episodes += 1

    def next_observation(self) -> Observation:
        lane, episode, step = self.episodes[-1].observations[-1]
        return (lane, episode, step + 1)

    def step(self, action: tuple[int, ...], reward: float, terminated: bool, truncated: bool) -> None:
        episode = self.episodes[-1]
        episode.observations.append(self.next_observation())
        episode.actions.append(action)
        episode.rewards.append(reward)
        episode.terminated, episode.truncated = terminated, truncated
        self.num_slots += 0 if terminated else 1  # the last observation of a terminated episode takes no slot
        if terminated or truncated:
            self.begin()
        while self.episodes[0].first_slot + len(self.episodes[0].observations) <= self.num_slots - self.positions:
            self.episodes.popleft()

    def sampleable(self, n_step: int, discount: float) -> dict[Observation, Transition]:
        """Return all complete transitions whose slot is one of the newest that fit into the ring."""
        oldest_slot = self.num_slots - self.positions
        return {
            episode.observations[start]: transition
            for episode in self.episodes
            for start, transition in episode.transitions(n_step, discount).items()
            if episode.first_slot + start >= oldest_slot
        }


class Streams:
    """A replay and its twins, fed the same streams."""

    def __init__(self, *, n_step: int, num_lanes: int = 1, positions: int = 50, discount: float = 0.5) -> None:
        self.n_step, self.discount, self.num_lanes = n_step, discount, num_lanes
        self.rng = np.random.default_rng(n_step)
        self.twins = [Twin(lane, positions) for lane in range(num_lanes)]
        self.replay = Replay(
            capacity=positions * num_lanes,
            num_lanes=num_lanes,
            observation_size=3,
            num_dimensions=2,
            n_step=n_step,
            discount=discount,
            max_choices=NUM_CHOICES,
        )
        self.begin()

    def begin(self, lanes: list[int] | None = None) -> None:
        chosen = range(self.num_lanes) if lanes is None else lanes
        self.replay.begin(np.array([self.twins[lane].next_first() for lane in chosen]), lanes)
        for lane in chosen:
            self.twins[lane].begin()

    def step(
        self, rewards: list[float], terminated: list[bool], truncated: list[bool], lanes: list[int] | None = None
    ) -> None:
        twins = [self.twins[lane] for lane in (range(self.num_lanes) if lanes is None else lanes)]
        actions = self.rng.integers(0, NUM_CHOICES, (len(twins), 2))
        following = [twin.next_observation() for twin in twins]
        firsts = [twin.next_first() for twin in twins]
        # Where no episode ends the reset observation must not be read: anything may stand there.
        resets = [
            first if end or cut else (-1, -1, -1) for first, end, cut in zip(firsts, terminated, truncated, strict=True)
        ]
        self.replay.append(actions, rewards, terminated, truncated, following, resets, lanes)
        for twin, action, reward, end, cut in zip(twins, actions.tolist(), rewards, terminated, truncated, strict=True):
            twin.step(tuple(action), reward, end, cut)

    def run(self, rewards: list[float], end: str = "") -> None:
        """Run the only lane through these rewards and end the episode with the last one."""
        for index, reward in enumerate(rewards):
            last = index == len(rewards) - 1
            self.step([reward], [last and "terminated" in end], [last and "truncated" in end])

    def sampleable(self) -> dict[Observation, Transition]:
        """Return what the replay can sample now, each transition once."""
        if len(self.replay) == 0:
            return {}
        batch = self.replay.sample(len(self.replay), np.random.default_rng(0))
        columns = (batch.observations, batch.actions, batch.returns, batch.discounts, batch.next_observations)
        found = {}
        for s, a, r, discount, following in zip(*(column.tolist() for column in columns), strict=True):
            assert discount or following == s  # never asked for, but there, finite, and nobody else's
            found[tuple(s)] = Transition(tuple(a), r, discount, tuple(following) if discount else None)
        assert len(found) == len(self.replay)
        return found

    def expected(self) -> dict[Observation, Transition]:
        return {key: value for twin in self.twins for key, value in twin.sampleable(self.n_step, self.discount).items()}

    def check(self) -> None:
        assert self.sampleable() == self.expected()


def numbers(streams: Streams, episode: int = 0) -> list[tuple[int, float, float, int | None]]:
    """Return (step, R, Γ, step of s') of what can be sampled from one episode, and make sure s' is of the same one."""
    rows = []
    for (lane, its_episode, step), transition in sorted(streams.sampleable().items()):
        following = transition.next_observation
        assert following is None or following[:2] == (lane, its_episode)
        next_step = None if following is None else int(following[2])
        if its_episode == episode:
            rows.append((int(step), transition.n_step_return, transition.discount, next_step))
    return rows


# Rewards 1, 2, 4 and discount 1/2, then a next episode with rewards of 100: whatever crosses the border is seen.
TERMINATED = {
    1: [(0, 1.0, 0.5, 1), (1, 2.0, 0.5, 2), (2, 4.0, 0.0, None)],
    2: [(0, 2.0, 0.25, 2), (1, 4.0, 0.0, None), (2, 4.0, 0.0, None)],
    3: [(0, 3.0, 0.0, None), (1, 4.0, 0.0, None), (2, 4.0, 0.0, None)],
    5: [(0, 3.0, 0.0, None), (1, 4.0, 0.0, None), (2, 4.0, 0.0, None)],
}
TRUNCATED = {
    1: [(0, 1.0, 0.5, 1), (1, 2.0, 0.5, 2), (2, 4.0, 0.5, 3)],
    2: [(0, 2.0, 0.25, 2), (1, 4.0, 0.25, 3), (2, 4.0, 0.5, 3)],
    3: [(0, 3.0, 0.125, 3), (1, 4.0, 0.25, 3), (2, 4.0, 0.5, 3)],
    5: [(0, 3.0, 0.125, 3), (1, 4.0, 0.25, 3), (2, 4.0, 0.5, 3)],
}


@pytest.mark.parametrize("n_step", N_STEPS)
@pytest.mark.parametrize(
    ("end", "expected"),
    [("terminated", TERMINATED), ("truncated", TRUNCATED), ("terminated and truncated", TERMINATED)],
)
def test_an_episode_of_three_steps_by_hand(
    n_step: int, end: str, expected: dict[int, list[tuple[int, float, float, int | None]]]
) -> None:
    streams = Streams(n_step=n_step)
    streams.run([1.0, 2.0, 4.0], end)
    assert numbers(streams) == expected[n_step]  # all of it at once, tails included
    streams.run([100.0] * 7)
    assert numbers(streams) == expected[n_step]
    assert len(numbers(streams, episode=1)) == 7 - n_step + 1
    streams.check()


@pytest.mark.parametrize("n_step", N_STEPS)
@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("terminated", (0, 8.0, 0.0, None)),
        ("truncated", (0, 8.0, 0.5, 1)),
        ("both: terminated, truncated", (0, 8.0, 0, None)),
    ],
)
def test_episodes_of_one_step_by_hand(n_step: int, end: str, expected: tuple[int, float, float, int | None]) -> None:
    streams = Streams(n_step=n_step)
    for _ in range(4):
        streams.run([8.0], end)
    assert [numbers(streams, episode) for episode in range(4)] == [[expected]] * 4
    streams.check()


@pytest.mark.parametrize("n_step", N_STEPS)
def test_a_running_episode_shows_only_complete_transitions(n_step: int) -> None:
    streams = Streams(n_step=n_step)
    for num_steps in range(1, 12):
        streams.run([1.0])
        assert len(streams.replay) == max(0, num_steps - n_step + 1)
    full_return = {1: 1.0, 2: 1.5, 3: 1.75, 5: 1.9375}[n_step]
    assert numbers(streams)[0] == (0, full_return, 0.5**n_step, n_step)


@pytest.mark.parametrize("n_step", N_STEPS)
def test_begin_in_mid_episode_discards_what_is_pending_and_keeps_the_rest_whole(n_step: int) -> None:
    streams = Streams(n_step=n_step)
    streams.run([1.0] * 6)
    before = numbers(streams)
    # The last complete transition needs the newest observation as its s'; the new stream must not take that place.
    assert before[-1][3] == 6
    streams.begin([0])
    assert numbers(streams) == before
    streams.run([100.0] * n_step)
    assert numbers(streams) == before
    assert [step for step, *_ in numbers(streams, episode=1)] == [0]
    streams.check()


@pytest.mark.parametrize("n_step", N_STEPS)
def test_lanes_end_at_different_times(n_step: int) -> None:
    streams = Streams(n_step=n_step, num_lanes=3)
    for step in range(1, 14):
        terminated = [step == 2, False, step % 5 == 0]
        truncated = [step == 7, step == 3, step % 5 == 0]
        streams.step([float(step), 10.0 * step, 100.0 * step], terminated, truncated)
        streams.check()
    assert {observation[0] for observation in streams.sampleable()} == {0, 1, 2}


@pytest.mark.parametrize("n_step", N_STEPS)
@pytest.mark.parametrize("extra_positions", [0, 1, 14])
@pytest.mark.parametrize("end_probability", [0.02, 0.35])
def test_random_streams_around_the_ring(n_step: int, extra_positions: int, end_probability: float) -> None:
    positions = n_step + 4 + extra_positions  # + 4 is the smallest allowed
    streams = Streams(n_step=n_step, num_lanes=3, positions=positions)
    rng = np.random.default_rng([n_step, extra_positions])
    for _ in range(500):
        lanes = rng.permutation(3)[: rng.integers(1, 4)].tolist() if rng.random() < 0.3 else None
        if rng.random() < 0.04:
            streams.begin(lanes)
        count = 3 if lanes is None else len(lanes)
        rewards = rng.integers(-8, 9, count).astype(float).tolist()
        ends: npt.NDArray[np.bool_] = rng.random((2, count)) < end_probability
        streams.step(rewards, ends[0].tolist(), ends[1].tolist(), lanes)
        streams.check()
    assert min(twin.num_slots for twin in streams.twins) > 10 * positions


def test_wrapping_around_drops_the_oldest_first_by_hand() -> None:
    streams = Streams(n_step=1, positions=6)
    streams.run([0.0] * 5)
    assert [step for step, *_ in numbers(streams)] == [0, 1, 2, 3, 4]  # six observations, five transitions: full
    streams.run([0.0])
    assert [step for step, *_ in numbers(streams)] == [1, 2, 3, 4, 5]
    streams.run([0.0], "truncated")  # two slots: the last observation and the next first one
    assert [step for step, *_ in numbers(streams)] == [3, 4, 5, 6]
    streams.run([0.0], "terminated")  # one slot: the last observation is not kept
    assert ([step for step, *_ in numbers(streams)], len(numbers(streams, episode=1))) == ([4, 5, 6], 1)
