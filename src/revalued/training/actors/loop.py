"""The training loop with actors: take a block, store it, ask for the next, make the updates that it paid for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import numpy as np
import torch

from revalued.config import TrainConfig
from revalued.envs import LaneError, Task
from revalued.replay import Replay
from revalued.training.actors.actor import ActorPlan, lanes_of
from revalued.training.actors.block import Arrays, Block, BlockError, Ticket, read_block
from revalued.training.actors.fleet import Fleet
from revalued.training.actors.link import Link
from revalued.training.actors.pacing import Pace
from revalued.training.build import AgentShape
from revalued.training.trainer import LoopState, Trainer

_POLL_SECONDS = 0.5
"""How long to wait for a block before looking whether the run shall stop."""

Linking = Callable[[TrainConfig, ActorPlan], AbstractContextManager[Link]]
"""Makes the link to the actors for the time of a run."""


@contextmanager
def ray_linking(config: TrainConfig, plan: ActorPlan) -> Iterator[Link]:
    """Link the actors by Ray, in the cluster that the configuration names."""
    from revalued.training.actors.ray_link import RayLink, connect

    with connect(config.execution.cluster, local_cpus=config.execution.actors) as ray:
        yield RayLink(ray, plan)


class ActorLoop:
    """Collects by taking in the blocks of actors."""

    def __init__(self, config: TrainConfig, task: Task, shape: AgentShape, linking: Linking = ray_linking) -> None:
        self.pace = Pace.of(config)
        on_cpu = torch.device(config.execution.device).type == "cpu"
        self.plan = ActorPlan(
            task, shape.network, shape.support, config.exploration, config.seed, self.pace.lanes_per_actor,
            # actors have a CPU each, whatever the learner has, and perhaps on machines that lack the native engine
            engine="torch" if config.execution.engine == "torch" and on_cpu else "auto",
            normalises=config.learner.normalise_observations, action_repeat=config.action_repeat,
        )  # fmt: skip
        self._config, self._linking = config, linking
        self._incarnations = [0] * self.pace.num_actors
        self._lost_before = 0
        self._streams: list[tuple[int, bytes] | None] = [None] * self.pace.num_actors
        """Of each actor the incarnation that was heard last, and the observations it will act on next."""
        self._staleness: list[int] = []
        """Of the blocks since the last row of the log."""
        self._max_staleness = 0
        self._is_resumed = False
        self._fleet: Fleet | None = None
        self._closing = ExitStack()

    def collect(self, trainer: Trainer, should_stop: Callable[[], bool]) -> None:
        """Start the actors and take in their blocks, until the run is complete or shall stop."""
        link = self._closing.enter_context(self._linking(self._config, self.plan))
        fleet = self._fleet = Fleet(link, self.pace, self._incarnations, trainer.say)
        self._closing.callback(fleet.close)
        fleet.start()
        try:
            self._take_blocks(trainer, fleet, should_stop)
        except LaneError:
            trainer.save()  # what was taken in before is sound, and worth keeping
            raise

    def state(self) -> LoopState:
        """Return how often actors were replaced; their episodes end with them."""
        incarnations = self._incarnations if self._fleet is None else self._fleet.incarnations
        fleet = {"incarnations": incarnations, "lost": self._num_lost, "max_staleness": self._max_staleness}
        return LoopState(fleet=fleet)

    def restore(self, trainer: Trainer, state: LoopState) -> None:
        """Go on with new actors and new episodes: the actors of the earlier session are gone."""
        if state.fleet is None:
            raise ValueError("it was written by a run without actors")
        if min([0, *state.fleet["incarnations"], state.fleet["lost"], state.fleet["max_staleness"]]) < 0:
            raise ValueError("what it says of its actors cannot be")
        self._incarnations = [int(incarnation) + 1 for incarnation in state.fleet["incarnations"]]
        if len(self._incarnations) != self.pace.num_actors:
            raise ValueError(f"it was written with {len(self._incarnations)} actors, not {self.pace.num_actors}")
        self._lost_before, self._max_staleness = int(state.fleet["lost"]), int(state.fleet["max_staleness"])
        self._is_resumed = True

    def facts(self) -> dict[str, Any]:
        """Return what became of the actors, and whether the run could be repeated to the bit."""
        return {
            "actors": self.pace.num_actors,
            "actors_lost": self._num_lost,
            "max_staleness": self._max_staleness,
            "deterministic": self.pace.in_order and not self._is_resumed and self._num_lost == 0,
        }

    def close(self) -> None:
        """End the actors and leave the cluster."""
        self._closing.close()

    @property
    def _num_lost(self) -> int:
        return self._lost_before + (self._fleet.num_lost if self._fleet is not None else 0)

    def _take_blocks(self, trainer: Trainer, fleet: Fleet, should_stop: Callable[[], bool]) -> None:
        def weights() -> Arrays:
            return {name: tensor.detach().cpu().numpy() for name, tensor in trainer.policy.tensors().items()}

        self._update_as_paid(trainer, should_stop)  # an interrupted session may have left some
        while trainer.env_steps < self.pace.env_steps and not should_stop():
            trainer.record.tick(trainer.counts)
            fleet.ask(trainer.counts, weights)
            taken = fleet.take(trainer.counts, _POLL_SECONDS)
            if taken is None:
                continue
            self._store(trainer, *taken)
            fleet.ask(trainer.counts, weights)  # the actor goes on while the learner learns
            self._update_as_paid(trainer, should_stop)
            trainer.save_if_due()

    def _store(self, trainer: Trainer, ticket: Ticket, arrays: Arrays) -> None:
        block = read_block(arrays, self.plan.block_shape, ticket)
        self._check_stream(block)
        staleness = trainer.updates - block.version
        self._staleness.append(staleness)
        self._max_staleness = max(self._max_staleness, staleness)
        lanes = lanes_of(block.actor, self.pace.lanes_per_actor)
        store_block(trainer.replay, block)
        trainer.observe(block.observations().reshape(-1, block.first_observations.shape[1]))
        if block.number == 0:
            trainer.episodes.forget_running(lanes)
        for rewards, ended in zip(block.rewards, block.ended, strict=True):
            trainer.episodes.add(rewards, ended, lanes)
        trainer.env_steps += block.rewards.size * self.plan.action_repeat

    def _check_stream(self, block: Block) -> None:
        """Make sure that a block begins where its predecessor ended; only the first of an incarnation has none."""
        first = (block.incarnation, block.first_observations.tobytes())
        if block.number > 0 and first != self._streams[block.actor]:
            raise BlockError(f"actor {block.actor}, block {block.number}: it does not begin where the last one ended")
        self._streams[block.actor] = (block.incarnation, block.observations()[-1].tobytes())

    def _update_as_paid(self, trainer: Trainer, should_stop: Callable[[], bool]) -> None:
        paid = self.pace.updates_paid(trainer.env_steps)
        while trainer.updates < paid and len(trainer.replay) > 0 and not should_stop():
            trainer.update(self._staleness_metrics)

    def _staleness_metrics(self) -> dict[str, float]:
        values, self._staleness = self._staleness, []
        return {"staleness": float(np.mean(values)), "max_staleness": float(max(values))} if values else {}


def store_block(replay: Replay, block: Block) -> None:
    """Append all steps of a checked block to its lanes; its first actions belong to what the lanes saw last."""
    lanes = np.array(lanes_of(block.actor, len(block.first_observations)))
    if block.number == 0:
        # cuts off what a predecessor left unfinished: its last steps must not bootstrap from the new episode
        replay.begin(block.first_observations, lanes, block.first_masks)
    observations, masks = block.observations(), block.masks()
    for step in range(len(block.rewards)):
        replay.append(
            block.actions[step],
            block.rewards[step],
            block.terminated[step],
            block.truncated[step],
            block.next_observations[step],
            observations[step],
            lanes,
            block.next_masks[step],
            masks[step],
        )
