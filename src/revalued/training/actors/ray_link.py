"""The only file that knows Ray: joining a cluster, and actors that live in its processes."""

from __future__ import annotations

import logging
import os
import signal
import socket
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from types import ModuleType
from typing import Any

from revalued.errors import UserError
from revalued.training.actors.actor import Actor, ActorPlan
from revalued.training.actors.block import Arrays, Ticket
from revalued.training.actors.link import Report

LOCAL, AUTO = "local", "auto"
_OBJECT_STORE_BYTES = 500 * 2**20
"""Of a Ray that is started here: room for a few versions of large weights; blocks are small and soon gone."""

_REACH_SECONDS = 5.0
_REASON_LENGTH = 200


def import_ray() -> ModuleType:
    """Return the `ray` module; where it is missing, the error says what to install."""
    # Ray reports its use to its makers unless told otherwise, and a training run has nothing to report
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # what Ray will do about GPUs in tasks that ask for none: the actors use none, whatever is visible
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise UserError("actors need Ray, which is not installed: pip install 'revalued[ray]'") from error
    return ray


@contextmanager
def connect(cluster: str, *, local_cpus: int | None = None, is_from_file: bool = False) -> Iterator[ModuleType]:
    """Join a cluster, hand over the `ray` module, and leave at the end.

    `local` starts Ray on this machine for this process alone, bound to the loopback interface, with `local_cpus` slots
    for actors and tasks; `auto` joins the cluster of RAY_ADDRESS or the one that runs on this machine; anything else is
    the address of a head node, HOST:PORT, and refused if it is a file that names it. A process that has joined a
    cluster already stays in it.
    """
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    if is_from_file and cluster not in (LOCAL, AUTO):
        raise UserError(
            f"the run's config.json says to join the cluster {cluster[:100]!r}, whose members can run code here: "
            f"if you trust it, add --cluster {cluster[:100]} (in Python join it first, by ray.init)"
        )
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if cluster == LOCAL:
            with _loopback_only(ray), _sigterm_held_back():
                # "local", and not nothing: RAY_ADDRESS must not turn this into somebody's cluster
                ray.init(
                    "local", num_cpus=local_cpus, num_gpus=0, include_dashboard=False,
                    object_store_memory=_OBJECT_STORE_BYTES, **quiet,
                )  # fmt: skip
        else:
            address, is_on_loopback = _reachable(ray, cluster)
            with _loopback_only(ray) if is_on_loopback else nullcontext():
                ray.init(address=address, **quiet)
    except (ConnectionError, ValueError, TimeoutError, RuntimeError) as error:
        raise _no_cluster(cluster, str(error)) from error
    finally:
        _restore_handlers(handlers)  # Ray takes SIGTERM for itself, but it means: write a checkpoint
    try:
        yield ray
    finally:
        ray.shutdown()
        _restore_handlers(handlers)


@contextmanager
def _loopback_only(ray: ModuleType) -> Iterator[None]:
    """Let Ray take 127.0.0.1 for this machine's address: its servers then listen there and nowhere else.

    By itself it takes the address of the network and listens on every interface, and whoever reaches it can run code.
    The switch is Ray's own, made for systems whose firewalls ask; a node address of 127.0.0.1 is not obeyed.
    """
    constants = ray._private.ray_constants
    name = constants.ENABLE_RAY_CLUSTERS_ENV_VAR
    before = constants.ENABLE_RAY_CLUSTER, os.environ.get(name)
    constants.ENABLE_RAY_CLUSTER, os.environ[name] = False, "0"  # the latter for the processes that Ray starts
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before[0]
        if before[1] is None:
            del os.environ[name]
        else:
            os.environ[name] = before[1]


@contextmanager
def _sigterm_held_back() -> Iterator[None]:
    """Start processes that a scheduler's SIGTERM to the whole group does not end: the learner ends them, at its end."""
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def _reachable(ray: ModuleType, cluster: str) -> tuple[str, bool]:
    """Return the address of a head node and whether only loopback leads there; Ray itself would try for minutes."""
    if cluster == AUTO:
        cluster = ray._private.services.get_ray_address_from_environment(AUTO, None) or ""
        if not cluster:
            raise _no_cluster(AUTO, "RAY_ADDRESS is not set, and none was started on this machine")
    host, _, port = cluster.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise UserError(f"cluster {cluster!r} is not possible: it must be {LOCAL}, {AUTO} or HOST:PORT of a head node")
    is_here = host in ("localhost", "127.0.0.1", "::1")
    hosts = [ray.util.get_node_ip_address(), "127.0.0.1"] if is_here else [host]
    for candidate in hosts:
        with suppress(OSError), socket.create_connection((candidate, int(port)), _REACH_SECONDS):
            return f"{candidate}:{port}", is_here and candidate == "127.0.0.1"
    raise _no_cluster(cluster, "nobody answers there")


def _no_cluster(cluster: str, reason: str) -> UserError:
    first_line = reason.strip().partition("\n")[0]
    return UserError(
        f"there is no Ray cluster at {cluster!r} ({first_line}): start one with 'ray start --head', give its address "
        f"HOST:PORT, or use --cluster {LOCAL}"
    )


def _restore_handlers(handlers: dict[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        if handler is not None and signal.getsignal(number) != handler:
            signal.signal(number, handler)


class RayLink:
    """Actors as Ray actors: calls go out, reports come back, weights travel through the object store."""

    def __init__(self, ray: ModuleType, plan: ActorPlan, make: Callable[..., Any] = Actor) -> None:
        self._ray = ray
        # each actor computes with one thread and takes one slot; Ray must not repeat a call whose block may have come
        self._remote = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(make)
        self._plan = ray.put(plan)
        self._weights: Any = None
        self._handles: dict[int, Any] = {}
        self._pending: dict[Any, int] = {}
        """Which actor an awaited answer belongs to; an actor has at most one."""

    def start(self, actor: int, incarnation: int) -> None:
        """Begin a new process for an actor, wherever there is room; it reports when it is ready."""
        self._handles[actor] = self._remote.remote(self._plan, actor, incarnation)
        self._pending[self._handles[actor].prepare.remote()] = actor

    def publish(self, weights: Arrays) -> None:
        """Put weights where all actors can fetch them; the next calls use them."""
        self._weights = self._ray.put(weights)  # the version before lives on as long as a call needs it

    def send(self, ticket: Ticket) -> None:
        """Ask an actor for a block."""
        call = self._handles[ticket.actor].collect.remote(
            self._weights, ticket.number, ticket.version, ticket.env_steps, ticket.num_steps
        )
        self._pending[call] = ticket.actor

    def poll(self, timeout_seconds: float) -> list[Report]:
        """Return what has come back, waiting so long for the first."""
        if not self._pending:
            return []
        calls = list(self._pending)
        self._ray.wait(calls, num_returns=1, timeout=timeout_seconds)
        ready, _ = self._ray.wait(calls, num_returns=len(calls), timeout=0)
        return [self._report(call) for call in ready]

    def discard(self, actor: int) -> None:
        """End an actor's process and expect nothing more from it."""
        self._pending = {call: owner for call, owner in self._pending.items() if owner != actor}
        handle = self._handles.pop(actor, None)
        if handle is not None:
            self._ray.kill(handle, no_restart=True)

    def close(self) -> None:
        """End all actors."""
        for actor in list(self._handles):
            self.discard(actor)
        self._weights = None

    def _report(self, call: Any) -> Report:
        actor = self._pending.pop(call)
        errors = self._ray.exceptions
        try:
            return Report(actor, answer=self._ray.get(call))
        except errors.RayTaskError as error:  # our own code failed there: it would fail again
            return Report(actor, failure=str(error.cause), traceback_text=str(error))
        except errors.RayError as error:  # the process, its node or its answer is gone
            if getattr(error, "actor_init_failed", False):  # it could not even be made there: something is missing
                return Report(actor, failure=str(error).strip().rpartition("\n")[2], traceback_text=str(error))
            return Report(actor, lost=textwrap.shorten(f"{type(error).__name__}: {error}", _REASON_LENGTH))
