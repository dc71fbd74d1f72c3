"""Actors in processes of a real Ray: kill them, poison them, and look where their servers listen."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cluster_helpers import BASE, assert_intact, replay_of
from gym_envs import Broken
from ray_helpers import STORE_BYTES, RayRun, ray_warnings_let_through
from revalued.envs import LaneError
from revalued.errors import UserError
from revalued.run.start import resume, start
from revalued.training.actors import ray_link
from revalued.training.actors.actor import Actor
from revalued.training.actors.block import Arrays, BlockError
from revalued.training.actors.ray_link import connect
from run_helpers import assert_same_run, evolve, newest, stop_after

pytest.importorskip("ray")
CONFIG = evolve(BASE, actors=2)


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """One Ray for this module; whoever connects inside stays in it."""
    with pytest.MonkeyPatch.context() as patch, ray_warnings_let_through():
        patch.setattr(ray_link, "_OBJECT_STORE_BYTES", STORE_BYTES)
        patch.setattr(ray_link, "_sigterm_held_back", nullcontext)  # ends faster; test_cluster_signals has the real one
        # what tests bring must be importable for the actors
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        with connect("local", local_cpus=2) as ray:
            yield ray


def test_a_run_with_two_real_actors(ray: Any, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    path, outcome = start(CONFIG, tmp_path / "run")
    assert (outcome.summary["env_steps"], outcome.summary["updates"]) == (600, 100)
    assert outcome.summary["actors_lost"] == 0
    assert 0 < outcome.summary["max_staleness"] <= 2 * 2 * 2  # twice one block of 2 updates of every actor
    assert_intact(CONFIG, replay_of(path), 600, 1)
    assert ray.is_initialized()  # it was there before
    assert signal.getsignal(signal.SIGTERM) is before
    assert ray.cluster_resources()["CPU"] == 2
    assert _freed(ray)  # Ray names no CPU at all while none is free


def _freed(ray: Any) -> bool:
    """Wait until the actors have left their slots."""
    deadline = time.monotonic() + 60
    while ray.available_resources().get("CPU") != 2:
        assert time.monotonic() < deadline, "actors outlived their run"
        time.sleep(0.05)
    return True


@pytest.mark.slow
def test_actors_that_are_killed_are_replaced_and_no_stream_is_muddled(ray: Any, tmp_path: Path) -> None:
    config = evolve(CONFIG, env_steps=3000)
    run = RayRun(config, tmp_path / "run")
    victims = iter([(400, 0), (800, 1), (1200, 0)])
    at, victim = next(victims)

    def kill_now_and_then() -> bool:
        nonlocal at, victim
        if run.trainer.env_steps >= at:
            os.kill(run.link.pid(victim), signal.SIGKILL)
            at, victim = next(victims, (10**9, 0))
        return False

    outcome = run.trainer.run(kill_now_and_then)
    assert outcome.finished
    assert outcome.summary["actors_lost"] >= 2  # two deaths of one actor may fall into one
    assert outcome.summary["updates"] == (3000 - 100) // 5
    assert len(set(run.link.started)) == len(run.link.started)
    assert_intact(config, replay_of(run.path), 3000, max(incarnation for _, incarnation in run.link.started) + 1)


@pytest.mark.slow
def test_fifty_kills_at_random_moments(ray: Any, tmp_path: Path) -> None:
    """Every transition that was acknowledged is in the replay once, whenever an actor was killed."""
    config, kills = evolve(CONFIG, env_steps=10**6, replay_capacity=400_000, updates_per_env_step=0.05), 50
    run, rng = RayRun(config, tmp_path / "run"), np.random.default_rng(0)
    killed: list[tuple[int, int]] = []
    at, goal, stillborn = 0.0, 10**6, [False, False]

    def kill_now_and_then() -> bool:
        nonlocal at, goal
        if time.monotonic() < at or len(killed) == kills:
            return len(killed) == kills and run.trainer.env_steps > goal
        victim = int(rng.integers(2))
        incarnation = max(number for actor, number in run.link.started if actor == victim)
        has_delivered = (run.loop._streams[victim] or (-1,))[0] == incarnation
        # some before they have delivered anything, but never twice in a row: that would look like no accident
        is_due = has_delivered or (not stillborn[victim] and rng.random() < 0.3)
        if (victim, incarnation) not in killed and is_due:
            os.kill(run.link.pid(victim), signal.SIGKILL)
            killed.append((victim, incarnation))
            stillborn[victim] = not has_delivered
        at = time.monotonic() + rng.exponential(0.3)
        goal = run.trainer.env_steps + 200
        return False

    outcome = run.trainer.run(kill_now_and_then)
    lost = outcome.summary["actors_lost"]
    assert lost >= kills - 2  # the last ones may not have been noticed yet
    assert len(set(run.link.started)) == len(run.link.started)
    due = run.loop.pace.updates_paid(run.trainer.env_steps) - outcome.summary["updates"]
    assert 0 <= due <= 2
    incarnations = max(incarnation for _, incarnation in run.link.started) + 1
    assert_intact(config, replay_of(run.path), run.trainer.env_steps, incarnations)


@pytest.mark.slow
def test_everybody_is_killed_at_once(ray: Any, tmp_path: Path) -> None:
    config = evolve(CONFIG, env_steps=2000)
    run = RayRun(config, tmp_path / "run")
    was_done = False

    def kill_all() -> bool:
        nonlocal was_done
        if run.trainer.env_steps >= 500 and not was_done:
            was_done = True
            for actor in (0, 1):
                os.kill(run.link.pid(actor), signal.SIGKILL)
        return False

    outcome = run.trainer.run(kill_all)
    assert outcome.finished
    assert outcome.summary["actors_lost"] == 2
    assert sum("was lost and is replaced" in line for line in run.view.lines) == 2
    assert_intact(config, replay_of(run.path), 2000, 2)


@pytest.mark.slow
def test_an_environment_that_fails_there_is_named_here(ray: Any, tmp_path: Path) -> None:
    config = evolve(CONFIG, task="custom:broken")
    run = RayRun(config, tmp_path / "run", env=partial(Broken, "nan", after=60))
    with pytest.raises(LaneError, match=r"actor \d: lane \d, episode \d+, step \d+: entry 0 of the observation is nan"):
        run.trainer.run()
    assert newest(run.path).meta["env_steps"] > 0


class Unmade(Actor):
    """Cannot be made where it is to work."""

    def __init__(self, *arguments: Any) -> None:
        raise ModuleNotFoundError("No module named 'my_package'")


@pytest.mark.slow
def test_an_actor_that_cannot_be_made_is_not_tried_again(ray: Any, tmp_path: Path) -> None:
    run = RayRun(CONFIG, tmp_path / "run", make=Unmade)
    with pytest.raises(LaneError, match=r"actor \d: ModuleNotFoundError: No module named 'my_package'"):
        run.trainer.run()
    assert sorted(run.link.started) == [(0, 0), (1, 0)]


class Poisoner(Actor):
    """Sends a reward that is no number, in its fourth block."""

    def collect(self, weights: Arrays, number: int, version: int, env_steps: int, num_steps: int) -> Arrays:
        arrays = super().collect(weights, number, version, env_steps, num_steps)
        if number == 3:
            arrays["rewards"][1, 1] = np.nan
        return arrays


@pytest.mark.slow
def test_a_poisoned_block_is_refused(ray: Any, tmp_path: Path) -> None:
    run = RayRun(CONFIG, tmp_path / "run", make=Poisoner)
    with pytest.raises(BlockError, match=r"actor (0|1), block 3, lane (1|3), step 2 of the block: the reward is nan"):
        run.trainer.run()
    env_steps = newest(run.path).meta["env_steps"]
    assert env_steps >= 3 * 8
    assert_intact(CONFIG, replay_of(run.path), env_steps, 1)


@pytest.mark.slow
def test_blocks_in_order_make_processes_reproducible(ray: Any, tmp_path: Path) -> None:
    config = evolve(CONFIG, in_order=True)
    for name in ("one", "other"):
        _, outcome = start(config, tmp_path / name)
        assert outcome.summary["deterministic"] is True
    assert_same_run(tmp_path / "one", tmp_path / "other")


@pytest.mark.slow
def test_stop_and_resume(ray: Any, tmp_path: Path) -> None:
    path, stopped = start(CONFIG, tmp_path / "run", should_stop=stop_after(150))
    assert not stopped.finished
    assert resume(path).finished
    assert_intact(CONFIG, replay_of(path), 600, 2)


def listening(process: int) -> set[str]:
    """Return the addresses on which a process listens for TCP connections, read from /proc; none if it has ended."""
    inodes, files = set(), Path(f"/proc/{process}/fd")
    if not files.is_dir():
        return set()
    for entry in files.iterdir():
        try:
            inodes.add(os.readlink(entry))
        except OSError:  # closed meanwhile
            continue
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                found.add(fields[1].partition(":")[0])
    return found


def descendants(process: int) -> list[int]:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [process]
    for parent in found:
        found += [child for child, its_parent in parents.items() if its_parent == parent]
    return found


@pytest.mark.slow
def test_a_local_ray_listens_on_loopback_only(ray: Any) -> None:
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    addresses = {process: listening(process) for process in descendants(os.getpid())}
    assert sum(bool(found) for found in addresses.values()) >= 3  # at least Ray's two servers and this process
    assert set().union(*addresses.values()) <= loopback


def test_a_cluster_that_is_not_there_is_said_to_be_so_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray as real

    monkeypatch.setattr(real, "is_initialized", lambda: False)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        config = evolve(CONFIG, cluster=f"127.0.0.1:{unused.getsockname()[1]}")
        with pytest.raises(UserError, match=r"there is no Ray cluster at '127.0.0.1:\d+' \(nobody answers there"):
            start(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(UserError, match="must be local, auto or HOST:PORT"):
        start(evolve(CONFIG, cluster="ray://10.0.0.1:10001"), tmp_path / "run")
    monkeypatch.setenv("RAY_ADDRESS", config.execution.cluster)
    with pytest.raises(UserError, match="nobody answers there"):
        start(evolve(CONFIG, cluster="auto"), tmp_path / "run")
