"""Training with actors whose answers come late, out of order or not at all: nothing is lost, doubled or mixed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cluster_helpers import BASE, Session, assert_intact, replay_of, session
from gym_envs import Broken
from revalued.config import TrainConfig
from revalued.envs import LaneError
from revalued.training.actors import fleet as fleet_module
from revalued.training.actors.block import Arrays, BlockError, Ticket
from revalued.training.averages import EpisodeLog
from run_helpers import assert_same_run, evolve, newest, quick_config, rows, stop_after


def watch_ratio(run: Session) -> list[int]:
    """Make sure at every poll that exactly the updates paid for were made; return the interactions seen then."""
    trainer, seen = run.trainer, []

    def watch() -> None:
        seen.append(trainer.env_steps)
        assert trainer.learner.updates == run.loop.pace.updates_paid(trainer.env_steps)

    run.link.watch = watch
    return seen


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"max_staleness": 3},
        pytest.param({"max_staleness": 0}, marks=pytest.mark.slow),
        pytest.param({"in_order": True}, marks=pytest.mark.slow),
    ],
)
def test_streams_ratio_and_staleness_whatever_comes_when(changes: dict[str, Any], seed: int, tmp_path: Path) -> None:
    config = evolve(BASE, **changes)
    run = session(config, tmp_path / "run", seed, deaths=0.05, answers=[0.1, 0.5, 0.9][seed % 3])
    seen = watch_ratio(run)
    outcome = run.run()
    assert outcome.finished
    assert outcome.summary["env_steps"] == 600
    assert outcome.summary["updates"] == (600 - 100) // 5
    blocks = np.diff(np.unique(seen))
    assert blocks.max() <= 8  # one block at a time, so the ratio holds within one block
    assert outcome.summary["actors_lost"] == len(run.link.started) - 3
    assert outcome.summary["max_staleness"] <= run.loop.pace.max_staleness
    assert len(set(run.link.started)) == len(run.link.started), "an incarnation twice"
    assert_intact(config, replay_of(run.path), 600, max(incarnation for _, incarnation in run.link.started) + 1)
    assert run.link.is_closed


@pytest.mark.slow
def test_losses_did_happen_in_these_runs(tmp_path: Path) -> None:
    """A guard for the test above: blocks were lost on their way, and more than one actor was replaced."""
    run = session(BASE, tmp_path / "run", 1, deaths=0.05)
    run.run()
    assert len(run.link.lost) >= 2
    assert {actor for actor, incarnation in run.link.started if incarnation > 0} >= {0, 1}
    assert sum(line.startswith("warning: actor") for line in run.said) == len(run.link.started) - 3


@pytest.mark.parametrize("n_step", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_a_dead_actors_tail_never_reaches_into_the_next_episode(n_step: int, tmp_path: Path) -> None:
    config = evolve(BASE, n_step=n_step, discount=1.0)
    run = session(config, tmp_path / "run", 2, deaths=0.1)
    run.run()
    replay, num_checked = replay_of(run.path), 0
    for row in np.flatnonzero(replay["leaves"]):
        fingerprint, step = replay["observations"][row][:2].tolist()
        following = replay["observations"][replay["next_rows"][row]]
        if replay["discounts"][row] > 0:
            assert following[0] == fingerprint
            later = int(following[1])
            assert replay["returns"][row] == sum(range(int(step) + 1, later + 1))
            num_checked += 1
    assert num_checked > 300
    assert len(run.link.lost) > 2


@pytest.mark.slow
def test_blocks_are_numbered_and_epsilon_follows_all_interactions(tmp_path: Path) -> None:
    run = session(evolve(BASE, in_order=True), tmp_path / "run")
    run.run()
    # in order and without losses, every block counts the interactions of all before it
    assert [ticket.env_steps for ticket in run.link.tickets] == [8 * number for number in range(75)]
    assert [ticket.actor for ticket in run.link.tickets[:6]] == [0, 1, 2, 0, 1, 2]
    assert [ticket.number for ticket in run.link.tickets if ticket.actor == 1] == list(range(25))


@pytest.mark.slow
def test_no_more_is_asked_for_than_the_run_needs(tmp_path: Path) -> None:
    run = session(evolve(BASE, env_steps=603), tmp_path / "run")
    assert run.run().summary["env_steps"] == 604  # lanes step together, so it is rounded up to a multiple of two
    assert sum(ticket.num_steps * 2 for ticket in run.link.tickets) == 604


@pytest.mark.slow
def test_weights_are_published_now_and_then_not_for_every_block(tmp_path: Path) -> None:
    seldom = session(evolve(BASE, max_staleness=40), tmp_path / "seldom")
    seldom.run()
    assert 100 / 40 * 2 <= seldom.link.num_versions <= 100 / 5 + 1
    always = session(evolve(BASE, max_staleness=0), tmp_path / "always")
    outcome = always.run()
    assert outcome.summary["max_staleness"] == 0
    used = [ticket.version for ticket in always.link.tickets]
    assert used == [max(0, (ticket.env_steps - 100) // 5) for ticket in always.link.tickets]


def test_staleness_is_in_the_log(tmp_path: Path) -> None:
    run = session(BASE, tmp_path / "run", 3)
    outcome = run.run()
    logged = rows(run.path, "metrics.csv")
    largest = [float(row["max_staleness"]) for row in logged if row["max_staleness"]]
    assert 0 < max(largest) <= outcome.summary["max_staleness"] <= run.loop.pace.max_staleness
    assert all(float(row["staleness"]) <= float(row["max_staleness"]) for row in logged if row["staleness"])


@pytest.mark.parametrize("changes", [pytest.param({"actors": 1}, marks=pytest.mark.slow), {"in_order": True}])
def test_one_actor_or_many_in_order_are_reproducible(changes: dict[str, Any], tmp_path: Path) -> None:
    config = evolve(BASE, **changes)
    runs = [session(config, tmp_path / str(seed), seed, answers=0.1 + 0.4 * seed) for seed in (0, 1)]
    for run in runs:
        assert run.run().summary["deterministic"] is True
    assert_same_run(runs[0].path, runs[1].path)


@pytest.mark.slow
def test_first_come_first_served_is_not_and_says_so(tmp_path: Path) -> None:
    tensors = []
    for seed in (0, 1):
        run = session(BASE, tmp_path / str(seed), seed)
        assert run.run().summary["deterministic"] is False
        tensors.append(newest(run.path).tensors)
    assert any(not torch.equal(tensors[0][name], tensors[1][name]) for name in tensors[0])


@pytest.mark.slow
def test_a_loss_ends_reproducibility_and_says_so(tmp_path: Path) -> None:
    outcome = session(evolve(BASE, in_order=True), tmp_path / "run", 1, deaths=0.05).run()
    assert outcome.summary["actors_lost"] > 0
    assert outcome.summary["deterministic"] is False


@pytest.mark.parametrize(
    "cycles", [pytest.param(1, marks=pytest.mark.slow), 40, pytest.param(77, marks=pytest.mark.slow)]
)
def test_resuming_goes_on_with_new_episodes(cycles: int, tmp_path: Path) -> None:
    first = session(BASE, tmp_path / "run", 0, deaths=0.03)
    stopped = first.run(stop_after(cycles))
    assert not stopped.finished
    second = session(BASE, tmp_path / "run", 1, deaths=0.03)
    assert second.trainer.env_steps == stopped.summary["env_steps"]
    assert second.trainer.learner.updates == stopped.summary["updates"]
    outcome = second.run()
    assert (outcome.summary["env_steps"], outcome.summary["updates"]) == (600, 100)
    assert outcome.summary["deterministic"] is False
    # incarnations of the first session are over: none of their episodes is ever played again
    assert not set(first.link.started) & set(second.link.started)
    incarnations = max(incarnation for _, incarnation in second.link.started) + 1
    assert_intact(BASE, replay_of(second.path), 600, incarnations)


@pytest.mark.slow
def test_a_stop_between_updates_is_made_up_for(tmp_path: Path) -> None:
    """Wherever the signal comes, the updates that are still due are made after resuming."""
    config = evolve(BASE, block_steps=20)  # 8 updates per block
    first = session(config, tmp_path / "run")
    trainer = first.trainer
    outcome = first.run(lambda: trainer.learner.updates == 13)
    assert outcome.summary["updates"] == 13 < first.loop.pace.updates_paid(trainer.env_steps)
    second = session(config, tmp_path / "run")
    watch_ratio(second)
    assert second.run().summary["updates"] == 100


@pytest.mark.slow
def test_another_number_of_actors_is_refused(tmp_path: Path) -> None:
    first = session(evolve(BASE, actors=2, num_envs=3), tmp_path / "run")
    first.run(stop_after(30))
    with pytest.raises(ValueError, match="2 actors, not 3"):
        session(BASE, tmp_path / "run")


def test_all_actors_gone_and_back(tmp_path: Path) -> None:
    run = session(BASE, tmp_path / "run", answers=1.0)
    polls_without_anybody = 0

    def watch() -> None:
        nonlocal polls_without_anybody
        successors = {actor for actor, incarnation in run.link.started if incarnation > 0}
        polls_without_anybody += len(successors) == 3
        is_over = polls_without_anybody > 40
        # whoever is at work dies, and there is no room for new ones for a while
        run.link.deaths = 2.0 if len(run.link.tickets) > 20 and not is_over else 0.0
        run.link.hung = set() if is_over else successors

    run.link.watch = watch
    outcome = run.run()
    assert outcome.finished
    assert outcome.summary["actors_lost"] == 3
    assert any("all actors are gone" in line for line in run.said)
    assert any("training goes on" in line for line in run.said)
    assert_intact(BASE, replay_of(run.path), 600, 2)


@pytest.mark.slow
def test_an_actor_that_hangs_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_module, "PATIENCE_SECONDS", 0.05)
    run = session(evolve(BASE, in_order=True), tmp_path / "run", answers=1.0)

    def watch() -> None:
        # the first incarnation of actor 1 falls silent once it has work
        is_first = (1, 1) not in run.link.started
        run.link.hung = {1} if is_first and len(run.link.tickets) > 10 else set()

    run.link.watch = watch
    outcome = run.run()
    assert outcome.summary["actors_lost"] == 1
    assert any("has not answered" in line for line in run.said)
    assert_intact(BASE, replay_of(run.path), 600, 2)


def test_an_actor_that_never_lives_ends_the_run(tmp_path: Path) -> None:
    run = session(BASE, tmp_path / "run", answers=1.0, deaths=2.0)
    with pytest.raises(LaneError, match=r"actor \d was lost 5 times in a row .* killed by the test"):
        run.run()
    assert run.link.is_closed


def test_a_person_is_told_when_there_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_module, "_SILENCE_SECONDS", 0.0)
    run = session(BASE, tmp_path / "run", answers=0.0)
    run.run(stop_after(5))
    assert "waiting: 0 of 3 actors have started; each needs one CPU of the cluster" in run.said


def poison(name: str, index: tuple[int, ...], value: float, after: int) -> Any:
    def spoil(ticket: Ticket, arrays: Arrays) -> Arrays:
        if (ticket.actor, ticket.number) == (2, after):
            arrays[name] = arrays[name].copy()
            arrays[name][index] = value
        return arrays

    return spoil


@pytest.mark.parametrize(
    ("name", "index", "value", "message"),
    [
        ("rewards", (1, 0), np.nan, "actor 2, block 9, lane 4, step 2 of the block: the reward is nan"),
        pytest.param(
            "next_observations",
            (3, 1, 0),
            np.inf,
            "actor 2, block 9, lane 5, step 4 of the block: the observation is",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "actions", (0, 1, 1), 7, "actor 2, block 9, lane 5, step 1 of the block: action", marks=pytest.mark.slow
        ),
        pytest.param("header", (3,), 99, "actor 2, block 9: it says version 99", marks=pytest.mark.slow),
        pytest.param("header", (2,), 8, "actor 2, block 9: it says number 8", marks=pytest.mark.slow),
        pytest.param(
            "first_observations",
            (0, 1),
            77,
            "actor 2, block 9: it does not begin where the last one ended",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_poisoned_block_stops_the_run_and_what_was_sound_is_kept(
    name: str, index: tuple[int, ...], value: float, message: str, tmp_path: Path
) -> None:
    run = session(BASE, tmp_path / "run", spoil=poison(name, index, value, after=9))
    with pytest.raises(BlockError, match=message):
        run.run()
    env_steps = newest(run.path).meta["env_steps"]
    assert env_steps > 8 * 9
    assert_intact(BASE, replay_of(run.path), env_steps, 1)
    resumed = session(BASE, run.path)
    assert resumed.run().finished
    assert_intact(BASE, replay_of(run.path), 600, 2)


def test_an_environment_that_fails_stops_the_run_and_says_where(tmp_path: Path) -> None:
    run = session(evolve(BASE, task="custom:broken"), tmp_path / "run", env=partial(Broken, "nan", after=60))
    with pytest.raises(LaneError, match=r"actor \d: lane \d, episode \d+, step \d+: entry 0 of the observation is nan"):
        run.run()
    assert newest(run.path).meta["env_steps"] > 100


@pytest.mark.parametrize(
    ("task", "algo"),
    [
        ("toy-masked", "revalued"),
        pytest.param("toy-masked", "dqn", marks=pytest.mark.slow),
        pytest.param("toy-levers", "dqn", marks=pytest.mark.slow),
        pytest.param("toy-levers", "decqn-c51", marks=pytest.mark.slow),
    ],
)
def test_masks_heads_and_atomic_actions(task: str, algo: str, tmp_path: Path) -> None:
    config = quick_config(task, algo, actors=2, num_envs=2, block_steps=3)
    outcome = session(config, tmp_path / "run", deaths=0.05).run()
    assert outcome.summary["updates"] == 50


@pytest.mark.slow
def test_training_returns_of_each_lane_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting pays 1 + 2 + ... + length, so any return that is no such sum comes from two episodes."""
    finished: list[float] = []
    add = EpisodeLog.add

    def note(log: EpisodeLog, *step: Any) -> None:
        add(log, *step)
        finished.extend(log._finished)
        log._finished = []

    monkeypatch.setattr(EpisodeLog, "add", note)
    session(BASE, tmp_path / "run", 1, deaths=0.1).run()
    sums = {length * (length + 1) / 2 for length in range(3, 13)}
    assert len(finished) > 40
    assert set(finished) <= sums


@pytest.mark.slow
def test_no_warm_up_and_steps_that_wait_for_their_rewards(tmp_path: Path) -> None:
    config: TrainConfig = evolve(BASE, warmup_env_steps=0, block_steps=1, n_step=3, max_staleness=2)
    outcome = session(config, tmp_path / "run").run()
    assert outcome.summary["updates"] == 600 // 5
    assert outcome.summary["max_staleness"] <= 2
