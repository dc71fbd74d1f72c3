"""Machines that leave and join, as Ray's own test cluster plays them: actors move, and training waits if it has to."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster_helpers import BASE, assert_intact, replay_of
from ray_helpers import STORE_BYTES, RayRun, ray_warnings_let_through
from revalued.training.actors.ray_link import _loopback_only, import_ray
from run_helpers import evolve

pytest.importorskip("ray")
NODE: dict[str, Any] = {"object_store_memory": STORE_BYTES}


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A head without room for actors; machines join as the test wants."""
    ray = import_ray()
    from ray.cluster_utils import Cluster

    with ray_warnings_let_through(), _loopback_only(ray):
        cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "include_dashboard": False, "node_ip_address": "127.0.0.1", **NODE},
        )
        try:
            yield cluster
        finally:
            cluster.shutdown()  # type: ignore[no-untyped-call]


@pytest.mark.slow
def test_a_machine_is_lost_then_all_then_one_joins(cluster: Any, tmp_path: Path) -> None:
    machines = [cluster.add_node(num_cpus=1, **NODE) for _ in range(2)]
    config = evolve(BASE, actors=2, env_steps=10**6, replay_capacity=20_000, cluster=cluster.address)
    run = RayRun(config, tmp_path / "run")
    stages: list[int] = []
    all_gone_at = 0.0

    def is_deserted() -> bool:
        return any("all actors are gone" in line for line in run.view.lines)

    def play() -> bool:
        nonlocal all_gone_at
        env_steps = run.trainer.env_steps
        if not stages and env_steps > 400:
            cluster.remove_node(machines[0], allow_graceful=False)
            stages.append(env_steps)
        elif len(stages) == 1 and env_steps > stages[0] + 400:  # it went on with the other one
            cluster.remove_node(machines[1], allow_graceful=False)
            stages.append(env_steps)
            all_gone_at = time.monotonic()
        elif len(stages) == 2 and is_deserted() and time.monotonic() - all_gone_at > 2:
            cluster.add_node(num_cpus=2, **NODE)
            stages.append(env_steps)
        return len(stages) == 3 and env_steps > stages[2] + 400

    outcome = run.trainer.run(play)
    assert len(stages) == 3
    assert outcome.summary["env_steps"] > stages[2] + 400
    assert outcome.summary["actors_lost"] >= 2
    assert any("training goes on" in line for line in run.view.lines)
    due = run.loop.pace.updates_paid(run.trainer.env_steps) - outcome.summary["updates"]
    assert 0 <= due <= 2  # it may have been stopped between the updates of one block
    assert_intact(
        config, replay_of(run.path), run.trainer.env_steps, max(incarnation for _, incarnation in run.link.started) + 1
    )


@pytest.mark.slow
def test_fewer_slots_than_actors_train_with_those_there_are(cluster: Any, tmp_path: Path) -> None:
    cluster.add_node(num_cpus=1, **NODE)
    config = evolve(BASE, actors=2, cluster=cluster.address)
    run = RayRun(config, tmp_path / "run")
    outcome = run.trainer.run()
    assert outcome.finished
    assert outcome.summary["actors_lost"] == 0
    assert_intact(config, replay_of(run.path), 600, 1)
