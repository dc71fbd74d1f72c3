"""Callbacks: what a user's own code sees of a run while it learns, and how it ends the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from revalued.errors import UserError

if TYPE_CHECKING:
    from revalued.acting.policy import Policy
    from revalued.agent import Agent
    from revalued.config import TrainConfig
    from revalued.envs import Task

EventKind: TypeAlias = Literal["start", "update", "evaluation", "end"]
METHODS: Mapping[EventKind, str] = {
    "start": "on_start",
    "update": "on_update",
    "evaluation": "on_evaluation",
    "end": "on_end",
}


@dataclass(frozen=True)
class Event:
    """One moment of a run."""

    kind: EventKind
    updates: int
    """Gradient updates made so far."""
    env_steps: int
    """Environment interactions made so far, over all lanes."""
    epsilon: float
    """The present probability of a random action."""
    metrics: Mapping[str, float]
    """The update's loss, mean_q, gradient_norm and so on, or the evaluation's return, length and success."""
    policy: Policy
    """What the run acts with; changes with every update."""
    config: TrainConfig
    task: Task
    """What is learnt; makes environments."""
    folder: Path
    """The run's folder."""
    mean_return: float | None = None
    """Of the greedy test episodes; None where there was no evaluation."""
    is_best: bool = False
    """Whether it is the largest mean return of the run so far."""
    agent: Agent | None = None
    """The agent that learns, ready to predict; None where the run was started without one."""


Handler: TypeAlias = Callable[[Event], object]
Callback: TypeAlias = Handler | object
"""A function, called after every update and every evaluation, or an object with any of `METHODS`."""


class Callbacks:
    """Everything that wants to hear of a run; it ends when one of them returns False.

    The run ends after the step of all lanes that is under way, with a checkpoint. The same goes for a callback that
    raises: its exception is kept until the checkpoint is on disk, and nobody is called any more. `follow` hears of
    an event before them, and returns the agent that they will see in it.
    """

    def __init__(
        self, callbacks: Callback | Iterable[Callback], follow: Callable[[Event], Agent] | None = None
    ) -> None:
        given = list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks]
        self._handlers = {kind: [found for one in given if (found := _handler(one, kind))] for kind in METHODS}
        for one in given:
            if not any(_handler(one, kind) for kind in METHODS):
                wanted = ", ".join(METHODS.values())
                raise UserError(f"callback {one!r} is neither a function nor an object with any of {wanted}")
        self._follow = follow
        self._error: BaseException | None = None
        self.stop_requested = False

    def hears(self, kind: EventKind) -> bool:
        """Tell whether anybody wants to know of that kind of event."""
        return bool(self._handlers[kind])

    def start(self, event: Event) -> None:
        """Tell that the run begins or goes on; an exception ends it at once, for nothing has happened yet."""
        event = self._with_agent(event)
        for handler in self._handlers["start"]:
            self.stop_requested |= handler(event) is False

    def update(self, event: Event) -> None:
        """Tell of an update."""
        self._tell(event)

    def evaluation(self, event: Event) -> None:
        """Tell of an evaluation."""
        self._tell(event)

    def end(self, event: Event) -> None:
        """Tell that the run has ended and is saved, and raise what a callback has raised in the meantime."""
        self._tell(event)
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _tell(self, event: Event) -> None:
        if self._error is not None:
            return
        event = self._with_agent(event)
        try:
            for handler in self._handlers[event.kind]:
                self.stop_requested |= handler(event) is False
        except BaseException as error:  # raised again by `end`
            self._error, self.stop_requested = error, True

    def _with_agent(self, event: Event) -> Event:
        return event if self._follow is None else replace(event, agent=self._follow(event))


def _handler(callback: Any, kind: EventKind) -> Handler | None:
    method: Handler | None = getattr(callback, METHODS[kind], None)
    if callable(method):
        return method
    has_methods = any(callable(getattr(callback, name, None)) for name in METHODS.values())
    is_told = kind in ("update", "evaluation") and callable(callback) and not has_methods
    return callback if is_told else None


class StopOnReturn:
    """Ends the run as soon as an evaluation's mean return reaches a threshold."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def on_evaluation(self, event: Event) -> bool:
        """Say whether to go on."""
        return event.mean_return is None or event.mean_return < self.threshold
