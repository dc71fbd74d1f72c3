"""What passes between the learner and its actors, and what anything that carries it has to offer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from revalued.training.actors.block import Arrays


@dataclass(frozen=True)
class Ticket:
    """One block that an actor was asked for."""

    actor: int
    incarnation: int
    number: int
    """Of the block within this incarnation, from 0."""
    version: int
    """Of the weights to act with: the learner's updates when they were published."""
    env_steps: int
    """Interactions before this block, in the order in which they were asked for; ε follows from it."""
    num_steps: int
    """Steps of every lane."""
    max_updates: int
    """Updates that the block will pay for, at most."""
    sent_at: float = 0.0


@dataclass(frozen=True)
class Report:
    """What came back from an actor: an answer, news of its loss, or an error that would come again."""

    actor: int
    answer: Arrays | None = None
    lost: str | None = None
    """Why the process is gone, or what it was to send."""
    failure: str | None = None
    """Why its code stopped."""
    traceback_text: str = ""


class Link(Protocol):
    """Carries calls to actors and reports back; an actor has at most one call open."""

    def start(self, actor: int, incarnation: int) -> None:
        """Begin a new process for an actor; it reports once it is ready."""

    def publish(self, weights: Arrays) -> None:
        """Make weights available to the calls that follow."""

    def send(self, ticket: Ticket) -> None:
        """Ask for a block."""

    def poll(self, timeout_seconds: float) -> list[Report]:
        """Return what has come back, waiting so long for the first."""

    def discard(self, actor: int) -> None:
        """End an actor and forget its open call."""

    def close(self) -> None:
        """End all actors."""
