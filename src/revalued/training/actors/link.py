"""What comes back from actors, and what anything that carries calls to them has to offer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from revalued.training.actors.block import Arrays, Ticket


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
