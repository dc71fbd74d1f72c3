"""The training loop with actors: take a block, store it, ask for the next, make the updates that it paid for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revalued.acting.exploration import epsilon_at
from revalued.config import TrainConfig
from revalued.envs import LaneError, Task
from revalued.run.checkpoint import Checkpoint, CheckpointWriter
from revalued.run.folder import RunFolder
from revalued.run.loggers import DEFAULT_LOGGING, Logging
from revalued.run.progress import ProgressView
from revalued.run.provenance import versions
from revalued.run.recorder import Recorder
from revalued.run.save import stated_spaces
from revalued.seeding import Stream, restore_rng, rng_state, stream_rng
from revalued.training.actors.actor import ActorPlan, lanes_of
from revalued.training.actors.block import Arrays, Block, BlockError, read_block
from revalued.training.actors.fleet import Fleet, Standing
from revalued.training.actors.link import Link, Ticket
from revalued.training.actors.pacing import Pace
from revalued.training.actors.storing import store_block
from revalued.training.build import agent_shape, make_learner, make_replay, resolve_device
from revalued.training.callbacks import Callbacks
from revalued.training.loop import Outcome

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


class ActorTrainer:
    """One run with actors: owns replay, learner and evaluation environment, and writes the run folder."""

    def __init__(
        self,
        config: TrainConfig,
        folder: RunFolder,
        progress: ProgressView,
        task: Task,
        *,
        logging: Logging = DEFAULT_LOGGING,
        callbacks: Callbacks | None = None,
        linking: Linking = ray_linking,
    ) -> None:
        self.config, self.folder, self.progress = config, folder, progress
        shape = agent_shape(config, task.info)
        self.learner = make_learner(config, shape, resolve_device(config.execution.device))
        self.pace = Pace.of(config)
        num_lanes = self.pace.num_actors * self.pace.lanes_per_actor
        self.replay = make_replay(config, shape)
        self.policy = self.learner.policy()
        self.plan = ActorPlan(
            task, shape.network, shape.support, config.exploration, config.seed, self.pace.lanes_per_actor,
            # actors have a CPU each, whatever the learner has, and perhaps on machines that lack the native engine
            engine="torch" if config.execution.engine == "torch" and self.learner.device.type == "cpu" else "auto",
        )  # fmt: skip
        self._linking = linking
        self._replay_rng = stream_rng(config.seed, Stream.REPLAY)
        self._record = Recorder(
            config, folder, progress, self.policy, task.make(), num_lanes, logging=logging, callbacks=callbacks
        )
        self._checkpoints = CheckpointWriter(folder.checkpoints)
        self.env_steps = 0
        self._incarnations = [0] * self.pace.num_actors
        self._lost_before = 0
        self._streams: list[tuple[int, bytes] | None] = [None] * self.pace.num_actors
        """Of each actor the incarnation that was heard last, and the observations it will act on next."""
        self._staleness = _Spread()
        self._max_staleness = 0
        self._saved: tuple[int, int] | None = None
        self._saved_updates = 0
        self._is_resumed = False
        self._fleet: Fleet | None = None

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint, with new episodes: the actors of the earlier session are gone."""
        meta = checkpoint.meta
        self.learner.load_tensors(checkpoint.tensors, meta["updates"])
        self.replay.load_state(checkpoint.group("replay"))
        self.env_steps = meta["env_steps"]
        self._saved, self._saved_updates = (self.env_steps, self.learner.updates), self.learner.updates
        restore_rng(self._replay_rng, meta["rng"]["replay"])
        self._record.load_state(meta["record"], self.learner.updates)
        fleet = meta["fleet"]
        self._incarnations = [int(incarnation) + 1 for incarnation in fleet["incarnations"]]
        if len(self._incarnations) != self.pace.num_actors:
            raise ValueError(f"it was written with {len(self._incarnations)} actors, not {self.pace.num_actors}")
        self._lost_before, self._max_staleness = int(fleet["lost"]), int(fleet["max_staleness"])
        self._is_resumed = True

    def run(self, should_stop: Callable[[], bool] = lambda: False) -> Outcome:
        """Train until the configured number of interactions, or until `should_stop`; always leaves a checkpoint."""
        self._record.begin(self.learner.updates, self.env_steps, is_resumed=self._is_resumed)
        try:
            with ExitStack() as stack:
                link = stack.enter_context(self._linking(self.config, self.plan))
                self._fleet = Fleet(link, self.pace, self._incarnations, self.progress.say)
                stack.callback(self._fleet.close)
                self._fleet.start()
                try:
                    self._train(self._fleet, lambda: self._record.stop_requested or should_stop())
                except LaneError:
                    self._save()  # what was taken in before is sound, and worth keeping
                    raise
                finished = self.env_steps >= self.pace.env_steps
                if finished and not self._record.was_evaluated(self.learner.updates):
                    self._record.evaluate(self.learner.updates, self.env_steps)
                    self._saved = None  # a checkpoint of this moment lacks this evaluation
                self._save()
            self._checkpoints.wait()
            facts = {
                "actors": self.pace.num_actors,
                "actors_lost": self._num_lost,
                "max_staleness": self._max_staleness,
                "deterministic": self.pace.in_order and not self._is_resumed and self._num_lost == 0,
            }
            summary = self._record.finish(self.learner.updates, self.env_steps, finished=finished, **facts)
            return Outcome(finished, summary)
        finally:
            self.close()
            self._checkpoints.wait()

    def close(self) -> None:
        """Close the evaluation environment and the event file; `run` does so by itself."""
        self._record.close()

    @property
    def _num_lost(self) -> int:
        return self._lost_before + (self._fleet.num_lost if self._fleet is not None else 0)

    @property
    def _standing(self) -> Standing:
        return Standing(self.env_steps, self.learner.updates)

    def _train(self, fleet: Fleet, should_stop: Callable[[], bool]) -> None:
        self._update_as_paid(should_stop)  # an interrupted session may have left some
        while self.env_steps < self.pace.env_steps and not should_stop():
            self._record.tick(self.learner.updates, self.env_steps)
            fleet.ask(self._standing, self._weights)
            taken = fleet.take(self._standing, _POLL_SECONDS)
            if taken is None:
                continue
            self._store(*taken)
            fleet.ask(self._standing, self._weights)  # the actor goes on while the learner learns
            self._update_as_paid(should_stop)
            every = self.config.execution.checkpoint_every
            if self.learner.updates // every > self._saved_updates // every:
                self._save()

    def _weights(self) -> Arrays:
        return {name: tensor.detach().cpu().numpy() for name, tensor in self.learner.online.items()}

    def _store(self, ticket: Ticket, arrays: Arrays) -> None:
        block = read_block(
            arrays, self.plan.block_shape,
            actor=ticket.actor, incarnation=ticket.incarnation, number=ticket.number, version=ticket.version,
            num_steps=ticket.num_steps,
        )  # fmt: skip
        self._check_stream(block)
        staleness = self.learner.updates - block.version
        self._staleness.add(staleness)
        self._max_staleness = max(self._max_staleness, staleness)
        store_block(self.replay, block)
        lanes = list(lanes_of(block.actor, self.pace.lanes_per_actor))
        if block.number == 0:
            self._record.episodes.forget_running(lanes)
        num_lanes = self.pace.num_actors * self.pace.lanes_per_actor
        for rewards, ended in zip(block.rewards, block.ended, strict=True):
            self._record.add_step(_spread_out(rewards, lanes, num_lanes), _spread_out(ended, lanes, num_lanes))
        self.env_steps += block.rewards.size

    def _check_stream(self, block: Block) -> None:
        """Make sure that a block begins where its predecessor ended; only the first of an incarnation has none."""
        first = (block.incarnation, block.first_observations.tobytes())
        if block.number > 0 and first != self._streams[block.actor]:
            raise BlockError(f"actor {block.actor}, block {block.number}: it does not begin where the last one ended")
        self._streams[block.actor] = (block.incarnation, block.observations()[-1].tobytes())

    def _update_as_paid(self, should_stop: Callable[[], bool]) -> None:
        paid = self.pace.updates_paid(self.env_steps)
        while self.learner.updates < paid and len(self.replay) > 0 and not should_stop():
            batch = self.replay.sample(self.config.learner.batch_size, self._replay_rng)
            priorities, figures = self.learner.update(batch)
            self.replay.update_priorities(batch.rows, priorities)
            is_row = self.learner.updates % self.config.schedule.log_every == 0
            extra = self._staleness.flush() if is_row else {}
            self._record.add_update(figures, self.learner.updates, self.env_steps, **extra)

    def _save(self) -> None:
        now = (self.env_steps, self.learner.updates)
        if self._saved == now:
            return
        self.learner.check_finite()
        meta: dict[str, Any] = {
            "updates": self.learner.updates,
            "rng": {"replay": rng_state(self._replay_rng)},
            "record": self._record.state(),
            "epsilon": epsilon_at(self.config.exploration, self.env_steps),
            "fleet": {
                "incarnations": self._fleet.incarnations if self._fleet is not None else self._incarnations,
                "lost": self._num_lost,
                "max_staleness": self._max_staleness,
            },
            "task": self.config.task,
            "spaces": stated_spaces(self.policy.shape),
            "versions": versions(),
        }
        arrays = {f"replay.{name}": array for name, array in self.replay.state().items()}
        self._checkpoints.save(self.env_steps, meta, self.learner.tensors(), arrays)
        self._saved, self._saved_updates = now, self.learner.updates


class _Spread:
    """Mean and largest of the staleness of blocks since the last row of the log."""

    def __init__(self) -> None:
        self._values: list[int] = []

    def add(self, value: int) -> None:
        self._values.append(value)

    def flush(self) -> dict[str, float]:
        values, self._values = self._values, []
        return {"staleness": float(np.mean(values)), "max_staleness": float(max(values))} if values else {}


def _spread_out(values: NDArray[Any], lanes: list[int], num_lanes: int) -> NDArray[Any]:
    """Return an array for all lanes that holds these values, and nothing elsewhere."""
    array = np.zeros(num_lanes, values.dtype)
    array[lanes] = values
    return array
