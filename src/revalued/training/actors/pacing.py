"""Who may be asked for a block, and whose block comes next: ratio and staleness kept by rule, not by luck.

The learner takes one block at a time and makes all updates that its interactions pay for before it takes the next: the
ratio of interactions to updates holds within one block. A block's *staleness* is the number of updates that its weights
are behind when it is taken. It is bounded: a block is asked for, and taken, only if no open one can become too stale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from revalued.config import TrainConfig
from revalued.training.actors.block import Ticket

_VERSIONS_PER_BOUND = 8
"""Weights are published when they are older than this fraction of the bound: publishing costs the learner time."""


@dataclass(frozen=True)
class Pace:
    """The numbers that decide."""

    num_actors: int
    lanes_per_actor: int
    block_steps: int
    env_steps: int
    """Interactions in total."""
    warmup_env_steps: int
    update_ratio: Fraction
    """Updates for every interaction."""
    max_staleness: int
    in_order: bool
    action_repeat: int = 1

    @classmethod
    def of(cls, config: TrainConfig) -> Pace:
        """Return the pace that a configuration asks for."""
        schedule, execution = config.schedule, config.execution
        per_step = schedule.num_envs * config.action_repeat
        per_block = math.ceil(execution.block_steps * per_step * schedule.update_ratio)
        # one block of every actor is always open; as many again leaves room for some to be faster than others
        default = 2 * execution.actors * per_block
        return cls(
            num_actors=execution.actors,
            lanes_per_actor=schedule.num_envs,
            action_repeat=config.action_repeat,
            block_steps=execution.block_steps,
            env_steps=schedule.env_steps,
            warmup_env_steps=schedule.warmup_env_steps,
            update_ratio=schedule.update_ratio,
            max_staleness=default if execution.max_staleness is None else execution.max_staleness,
            in_order=execution.in_order or execution.actors == 1,
        )

    @property
    def _per_step(self) -> int:
        """Interactions of one step of all lanes of an actor."""
        return self.lanes_per_actor * self.action_repeat

    def updates_paid(self, env_steps: int) -> int:
        """Return how many updates so many interactions pay for."""
        return int(max(0, env_steps - self.warmup_env_steps) * self.update_ratio)

    def interactions(self, tickets: Sequence[Ticket]) -> int:
        """Return how many interactions open blocks will bring."""
        return sum(ticket.num_steps for ticket in tickets) * self._per_step

    def next_steps(self, env_steps: int, open_tickets: Sequence[Ticket]) -> int:
        """Return how many steps of each lane to ask for next; 0 where all that is needed is under way."""
        left = self.env_steps - env_steps - self.interactions(open_tickets)
        return max(0, min(self.block_steps, -(-left // self._per_step)))

    def max_updates(self, num_steps: int) -> int:
        """Return how many updates a block of so many steps pays for, at most."""
        return math.ceil(num_steps * self._per_step * self.update_ratio)

    def wants_new_version(self, version: int, updates: int) -> bool:
        """Tell whether weights of that version are too old to be sent out."""
        age = updates - version
        return age > 0 and age * _VERSIONS_PER_BOUND >= self.max_staleness

    def may_ask(self, version: int, updates_paid: int, open_tickets: Sequence[Ticket]) -> bool:
        """Tell whether a new block with these weights could not get too stale, if all open ones come before it."""
        return updates_paid + sum(ticket.max_updates for ticket in open_tickets) - version <= self.max_staleness

    def may_take(self, ticket: Ticket, updates_paid: int, open_tickets: Sequence[Ticket]) -> bool:
        """Tell whether a block may be taken now; `open_tickets` are in the order in which they were sent.

        The oldest may always. Another one may overtake those before it if they would all be taken in time afterwards.
        """
        if self.in_order:
            return ticket is open_tickets[0]
        updates = updates_paid + ticket.max_updates
        for older in open_tickets:
            if older is ticket:
                return True
            if updates - older.version > self.max_staleness:
                return False
            updates += older.max_updates
        raise ValueError("the ticket is not open")
