"""All actors as the learner sees them: who is asked for what, what has come, who was lost and is replaced."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from revalued.envs import LaneError
from revalued.training.actors.block import Arrays, Ticket
from revalued.training.actors.link import Link, Report
from revalued.training.actors.pacing import Pace
from revalued.training.trainer import Counts

PATIENCE_SECONDS = 600.0
"""How long a block may take before its actor counts as lost."""
MAX_STILLBORN = 5
"""How many times in a row an actor may die before it delivers anything; more is no accident."""
_SILENCE_SECONDS = 30.0
"""After how long without any actor a person is told what the run waits for."""


@dataclass
class _Member:
    incarnation: int
    phase: Literal["starting", "idle", "busy", "done"] = "starting"
    """`done`: its block has arrived and waits to be taken."""
    num_blocks: int = 0
    num_stillborn: int = 0


class Fleet:
    """The actors of one run, by number.

    A block that has arrived is *acknowledged*: it will be taken, whatever becomes of its actor. A lost actor's open
    block is asked for from nobody else; its successor, the next *incarnation*, begins new episodes.
    """

    def __init__(
        self,
        link: Link,
        pace: Pace,
        incarnations: list[int],
        say: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._link, self._pace, self._say, self._clock = link, pace, say, clock
        self._members = [_Member(incarnation) for incarnation in incarnations]
        self._open: list[Ticket] = []  # in the order in which they were sent
        self._arrived: dict[int, Arrays] = {}  # by actor
        self._version: int | None = None
        self._is_waiting_for_all = pace.in_order  # blocks in order begin with everybody there
        self._is_deserted = False
        self._last_sign = clock()
        self.num_lost = 0

    @property
    def incarnations(self) -> list[int]:
        """The number of each actor's newest incarnation; every one begins episodes of its own."""
        return [member.incarnation for member in self._members]

    def start(self) -> None:
        """Begin all actors."""
        for actor, member in enumerate(self._members):
            self._link.start(actor, member.incarnation)

    def ask(self, counts: Counts, weights: Callable[[], Arrays]) -> None:
        """Ask idle actors for blocks, as far as ratio and staleness allow."""
        if self._is_waiting_for_all:
            if any(member.phase == "starting" for member in self._members):
                return
            self._is_waiting_for_all = False
        pace, paid = self._pace, self._pace.updates_paid(counts.env_steps)
        for actor, member in enumerate(self._members):
            num_steps = pace.next_steps(counts.env_steps, self._open)
            if member.phase != "idle" or num_steps == 0:
                continue
            if self._version is None or pace.wants_new_version(self._version, counts.updates):
                self._link.publish(weights())
                self._version = counts.updates
            if not pace.may_ask(self._version, paid, self._open):
                return
            ticket = Ticket(
                actor=actor,
                incarnation=member.incarnation,
                number=member.num_blocks,
                version=self._version,
                env_steps=counts.env_steps + pace.interactions(self._open),
                num_steps=num_steps,
                max_updates=pace.max_updates(num_steps),
                sent_at=self._clock(),
            )
            self._link.send(ticket)
            self._open.append(ticket)
            member.phase = "busy"

    def take(self, counts: Counts, timeout_seconds: float) -> tuple[Ticket, Arrays] | None:
        """Return the next block and what it was asked for; None if none may be taken within this time."""
        paid = self._pace.updates_paid(counts.env_steps)
        is_ready = self._choose(paid) is not None
        for report in self._link.poll(0.0 if is_ready else timeout_seconds):
            self._hear(report)
        self._give_up_on_hung()
        self._tell_of_silence()
        ticket = self._choose(paid)
        if ticket is None:
            return None
        self._open.remove(ticket)
        self._members[ticket.actor].phase = "idle"
        return ticket, self._arrived.pop(ticket.actor)

    def close(self) -> None:
        """End all actors."""
        self._link.close()

    def _choose(self, paid: int) -> Ticket | None:
        candidates = [ticket for ticket in self._open if ticket.actor in self._arrived]
        return next((ticket for ticket in candidates if self._pace.may_take(ticket, paid, self._open)), None)

    def _hear(self, report: Report) -> None:
        member = self._members[report.actor]
        if report.failure is not None:
            raise LaneError(f"actor {report.actor}: {report.failure}", traceback_text=report.traceback_text)
        if report.lost is not None:
            self._replace(report.actor, report.lost)
            return
        assert report.answer is not None
        if member.phase == "busy":
            self._arrived[report.actor] = report.answer
            member.num_blocks += 1
            member.num_stillborn = 0
        member.phase = "done" if member.phase == "busy" else "idle"
        self._last_sign = self._clock()
        if self._is_deserted:
            self._is_deserted = False
            self._say(f"actor {report.actor} has started: training goes on")

    def _replace(self, actor: int, reason: str) -> None:
        member = self._members[actor]
        member.num_stillborn += 1
        if member.num_stillborn >= MAX_STILLBORN:
            times = f"{member.num_stillborn} times in a row before it delivered anything"
            raise LaneError(f"actor {actor} was lost {times}, the last time because: {reason}")
        self.num_lost += 1
        self._link.discard(actor)
        self._open = [ticket for ticket in self._open if ticket.actor != actor]
        self._members[actor] = _Member(member.incarnation + 1, num_stillborn=member.num_stillborn)
        self._link.start(actor, member.incarnation + 1)
        self._say(f"warning: actor {actor} was lost and is replaced ({reason})")
        if all(member.phase == "starting" for member in self._members) and not self._is_deserted:
            self._is_deserted = True
            self._say("warning: all actors are gone; waiting for the cluster to have room for new ones")

    def _give_up_on_hung(self) -> None:
        now = self._clock()
        for ticket in list(self._open):
            if ticket.actor not in self._arrived and now - ticket.sent_at > PATIENCE_SECONDS:
                self._replace(ticket.actor, f"it has not answered for {PATIENCE_SECONDS:.0f} seconds")

    def _tell_of_silence(self) -> None:
        starting = sum(member.phase == "starting" for member in self._members)
        is_held_up = starting == len(self._members) or (self._is_waiting_for_all and starting > 0)
        if is_held_up and self._clock() - self._last_sign > _SILENCE_SECONDS:
            self._last_sign = self._clock()
            started = len(self._members) - starting
            self._say(
                f"waiting: {started} of {len(self._members)} actors have started; each needs one CPU of the cluster"
            )
