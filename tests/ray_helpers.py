"""A real Ray for tests: on loopback, small, started once per module, and nothing left behind."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cluster_helpers import Spoken
from revalued.config import TrainConfig
from revalued.envs import EnvSource, task_of
from revalued.run import start as runs
from revalued.run.folder import RunFolder
from revalued.training.actors.actor import Actor, ActorPlan
from revalued.training.actors.link import Link
from revalued.training.actors.loop import ActorTrainer
from revalued.training.actors.ray_link import RayLink, connect

STORE_BYTES = 100 * 2**20


@contextmanager
def ray_warnings_let_through() -> Iterator[None]:
    """Files and sockets that Ray leaves for Python to close are not this package's fault."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield


class Watched(RayLink):
    """A link that knows the process of every actor."""

    def __init__(self, ray: Any, plan: ActorPlan, make: Callable[..., Any] = Actor) -> None:
        super().__init__(ray, plan, make)
        self.ray = ray
        self.pids: dict[int, Any] = {}
        self.started: list[tuple[int, int]] = []

    def start(self, actor: int, incarnation: int) -> None:
        super().start(actor, incarnation)
        self.started.append((actor, incarnation))
        self.pids[actor] = self._handles[actor].__ray_call__.remote(lambda actor: os.getpid())

    def pid(self, actor: int) -> int:
        return int(self.ray.get(self.pids[actor]))


class RayRun:
    """A run with real actors, and what can be seen of it."""

    def __init__(
        self, config: TrainConfig, path: Path, make: Callable[..., Any] = Actor, env: EnvSource | None = None
    ) -> None:
        config, _ = runs.prepare(config, env)
        self.links: list[Watched] = []
        self.view, self.path, self.config = Spoken(), path, config

        @contextmanager
        def linking(config: TrainConfig, plan: ActorPlan) -> Iterator[Link]:
            with connect(config.execution.cluster, local_cpus=config.execution.actors) as ray:
                self.links.append(Watched(ray, plan, make))
                yield self.links[0]

        folder = RunFolder.create(path, config)
        self.trainer = ActorTrainer(config, folder, self.view, task_of(config, env), linking=linking)

    @property
    def link(self) -> Watched:
        return self.links[0]
