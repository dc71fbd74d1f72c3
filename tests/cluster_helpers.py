"""Actors in this process, whose answers come late, out of order or not at all; and proof that no stream was muddled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revalued.config import TrainConfig
from revalued.envs import CountingEnv, EnvSource, LaneError
from revalued.run.contents import restore_run
from revalued.run.folder import RunFolder
from revalued.run.prepare import prepare
from revalued.run.progress import Silent
from revalued.run.start import assemble
from revalued.seeding import episode_seed, episode_stream
from revalued.training.actors.actor import Actor, ActorPlan
from revalued.training.actors.block import Arrays, Ticket
from revalued.training.actors.link import Link, Report
from revalued.training.actors.loop import ActorLoop
from revalued.training.trainer import RunResult, Trainer
from run_helpers import newest, quick_config

BASE = quick_config(actors=3, num_envs=2, block_steps=4, env_steps=600, n_step=1)
"""Blocks of 8 interactions, so of up to 2 updates; with n = 1, every interaction is one transition at once."""


@dataclass
class FakeLink:
    """Real actors without processes. Each poll, chance decides which calls are answered and who dies."""

    plan: ActorPlan
    rng: np.random.Generator
    answers: float = 0.5
    """Probability that an open call is answered by a poll."""
    deaths: float = 0.0
    """Probability that an actor dies instead, before or after its work."""
    spoil: Callable[[Ticket, Arrays], Arrays] = lambda ticket, arrays: arrays
    watch: Callable[[], None] = lambda: None
    """Called at the start of every poll, when all updates that are due have been made."""
    hung: set[int] = field(default_factory=set)
    """Actors that never answer."""
    num_versions: int = 0
    tickets: list[Ticket] = field(default_factory=list)
    lost: list[Ticket] = field(default_factory=list)
    started: list[tuple[int, int]] = field(default_factory=list)
    weights: Arrays = field(default_factory=dict)
    actors: dict[int, Actor] = field(default_factory=dict)
    calls: dict[int, Ticket | None] = field(default_factory=dict)
    is_closed: bool = False

    def start(self, actor: int, incarnation: int) -> None:
        assert actor not in self.actors
        self.started.append((actor, incarnation))
        self.actors[actor] = Actor(self.plan, actor, incarnation)
        self.calls[actor] = None

    def publish(self, weights: Arrays) -> None:
        self.num_versions += 1
        self.weights = {name: array.copy() for name, array in weights.items()}
        for array in self.weights.values():
            array.flags.writeable = False  # as what comes out of an object store

    def send(self, ticket: Ticket) -> None:
        assert ticket.actor not in self.calls, "an actor has at most one call open"
        self.tickets.append(ticket)
        self.calls[ticket.actor] = ticket

    def poll(self, timeout_seconds: float) -> list[Report]:
        self.watch()
        reports = []
        for actor in self.rng.permutation(list(self.calls)).tolist():
            if actor not in self.hung and self.rng.random() < self.answers:
                reports.append(self._answer(actor, self.calls.pop(actor)))
        return reports

    def _answer(self, actor: int, ticket: Ticket | None) -> Report:
        if self.rng.random() < self.deaths / 2:
            return self._death(actor, ticket)
        try:
            answer = self.actors[actor].prepare() if ticket is None else self._collect(ticket)
        except LaneError as error:
            return Report(actor, failure=str(error))
        if self.rng.random() < self.deaths / 2:
            return self._death(actor, ticket)
        return Report(actor, answer=answer)

    def _collect(self, ticket: Ticket) -> Arrays:
        actor = self.actors[ticket.actor]
        arrays = actor.collect(self.weights, ticket.number, ticket.version, ticket.env_steps, ticket.num_steps)
        return self.spoil(ticket, arrays)

    def _death(self, actor: int, ticket: Ticket | None) -> Report:
        if ticket is not None:
            self.lost.append(ticket)
        return Report(actor, lost="killed by the test")

    def discard(self, actor: int) -> None:
        self.actors.pop(actor)
        self.calls.pop(actor, None)

    def close(self) -> None:
        self.is_closed = True


@dataclass
class Session:
    """A trainer with fake actors, and everything that passed between them."""

    trainer: Trainer
    loop: ActorLoop
    link: FakeLink
    said: list[str]
    path: Path

    def run(self, should_stop: Callable[[], bool] = lambda: False) -> RunResult:
        return self.trainer.run(should_stop)


class Spoken(Silent):
    """Remembers what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


def session(config: TrainConfig, path: Path, seed: int = 0, env: EnvSource | None = None, **faults: Any) -> Session:
    """Prepare a run with fake actors, from the checkpoint in that folder if there is one."""
    prepared = prepare(config, env)
    folder = RunFolder.open(path) if path.exists() else RunFolder.create(path, prepared.config)
    links: list[FakeLink] = []

    @contextmanager
    def linking(config: TrainConfig, plan: ActorPlan) -> Iterator[Link]:
        yield links[0]

    view = Spoken()
    trainer = assemble(prepared, folder, view, linking=linking)
    loop = trainer.loop
    assert isinstance(loop, ActorLoop)
    links.append(FakeLink(loop.plan, np.random.default_rng(seed), **faults))
    if folder.checkpoints.exists() and any(folder.checkpoints.iterdir()):
        restore_run(trainer, newest(path))
    return Session(trainer, loop, links[0], view.lines, path)


def fingerprints(
    config: TrainConfig, lane: int, incarnations: int, episodes: int = 400
) -> dict[float, tuple[int, int]]:
    """Return which (incarnation, episode) of a lane each fingerprint of the counting environment belongs to."""
    found = {}
    for incarnation in range(incarnations):
        for episode in range(episodes):
            seed = episode_seed(config.seed, episode_stream(incarnation), lane, episode)
            found[CountingEnv.fingerprint(seed)] = (incarnation, episode)
    return found


def assert_intact(config: TrainConfig, replay: Mapping[str, NDArray[Any]], env_steps: int, incarnations: int) -> None:
    """Every interaction counted is exactly one transition in its own lane, and episodes have neither gaps nor mixtures.

    For the counting environment, n = 1, and a replay that has not forgotten anything.
    """
    num_lanes = config.schedule.num_envs * config.execution.actors
    live = np.flatnonzero(replay["leaves"])
    assert len(live) == env_steps
    observations, actions = replay["observations"], replay["actions"]
    seen: dict[tuple[int, int, int], list[int]] = {}
    known = [fingerprints(config, lane, incarnations) for lane in range(num_lanes)]
    for row in live:
        lane = int(row) % num_lanes
        fingerprint, step = observations[row][:2].tolist()
        incarnation, episode = known[lane][fingerprint]  # of this lane and no other
        seen.setdefault((lane, incarnation, episode), []).append(int(step))
        assert replay["returns"][row] == step + 1  # the reward counts the steps
        if replay["discounts"][row] > 0:
            following = observations[replay["next_rows"][row]]
            assert following.tolist() == [fingerprint, step + 1, *actions[row].tolist()]
    for (lane, incarnation, episode), steps in seen.items():
        assert sorted(steps) == list(range(len(steps))), "an episode with a gap, or a transition twice"
        assert episode == 0 or (lane, incarnation, episode - 1) in seen, "an episode is missing"


def replay_of(path: Path) -> dict[str, NDArray[Any]]:
    """Return the replay in a run's newest checkpoint."""
    prefix = "replay."
    return {k.removeprefix(prefix): v for k, v in newest(path).arrays.items() if k.startswith(prefix)}
