"""The number of threads changes no bit, whatever becomes of them: slow ones, a fork, two callers at once, the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from learner_twin import FAMILY, MANY_OBSERVATIONS, NEEDS_NATIVE, batch_for, learner_for
from revalued.learner.learner import Learner
from revalued.native.acting import NativeCritics
from revalued.native.library import load

pytestmark = NEEDS_NATIVE
EVEN: dict[str, Any] = {"hidden_size": 64, "batch_size": 256}
# nothing fills a cache line, blocks of rows and parts of a critic do not divide, layers are not merged
ODD: dict[str, Any] = {"hidden_size": 37, "batch_size": 259, "observation_size": 300, "weight_decay": 0.01}
MANY_PARTS: dict[str, Any] = {"hidden_size": 33, "batch_size": 700, "observation_size": MANY_OBSERVATIONS}


KINDS = {"even": EVEN, "odd": ODD, "many parts": MANY_PARTS}
CASES = [
    *((name, critics, kind) for name in FAMILY for critics, kind in ((1, "odd"), (3, "many parts"), (10, "even"))),
    *(
        ("revalued", critics, kind)
        for critics, kind in ((1, "even"), (3, "odd"), (3, "even"), (10, "odd"), (5, "even"))
    ),
]


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
    load().revalued_delay_helpers(0)


def learn(name: str, critics: int, threads: int, num_updates: int = 3, **options: Any) -> tuple[Learner, bytes]:
    """Return a learner after a few updates, and everything that these returned."""
    torch.set_num_threads(threads)
    learner = learner_for(replace(FAMILY[name], critics=critics), engine="native", **options)
    told = b""
    for seed in range(num_updates):
        priorities, metrics = learner.update(batch_for(learner, seed))
        told += priorities.tobytes() + repr(dict(metrics)).encode()
    return learner, told


def bits(learner: Learner, told: bytes) -> dict[str, bytes]:
    return {"told": told} | {name: tensor.numpy().tobytes() for name, tensor in learner.tensors().items()}


@pytest.mark.parametrize(("name", "critics", "kind"), CASES)
def test_any_number_of_threads_gives_the_same_bits(name: str, critics: int, kind: str) -> None:
    expected = bits(*learn(name, critics, 1, **KINDS[kind]))
    for threads, delay in ((2, 1), (3, 200), (8, 200)):
        load().revalued_delay_helpers(delay)
        assert bits(*learn(name, critics, threads, **KINDS[kind])) == expected, f"{threads} threads"


def test_helpers_do_take_part() -> None:
    """Without this, all of the above might be the work of one thread."""
    torch.set_num_threads(2)
    learner = learner_for(FAMILY["revalued"], engine="native", **EVEN)
    batch = batch_for(learner, 0)

    load().revalued_delay_helpers(1)
    before = time.process_time() - time.thread_time()
    for _ in range(200):
        learner.update(batch)
    assert time.process_time() - time.thread_time() - before > 0.001


def test_helpers_stay_away_while_no_core_is_idle() -> None:
    torch.set_num_threads(2)
    learner = learner_for(replace(FAMILY["revalued"], critics=10), engine="native", **EVEN)
    batch = batch_for(learner, 0)

    def share_of_helpers() -> float:
        before, of_all = time.process_time() - time.thread_time(), time.process_time()
        for _ in range(100):
            learner.update(batch)
        return (time.process_time() - time.thread_time() - before) / (time.process_time() - of_all)

    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    try:
        deadline = time.monotonic() + 60
        while share_of_helpers() > 0.01:
            assert time.monotonic() < deadline
    finally:
        for program in busy:
            program.kill()
            program.wait()


def test_the_number_of_threads_may_change_within_a_run() -> None:
    expected, told = learn("revalued", 3, 1, num_updates=9, **EVEN)
    torch.set_num_threads(1)
    learner = learner_for(replace(FAMILY["revalued"], critics=3), engine="native", **EVEN)
    found = b""
    for seed in range(9):
        torch.set_num_threads((1, 4, 2)[seed % 3])
        state = {name: tensor.clone() for name, tensor in learner.tensors().items()}
        learner = learner_for(replace(FAMILY["revalued"], critics=3), engine="native", **EVEN)
        learner.load_tensors(state, updates=seed)
        priorities, metrics = learner.update(batch_for(learner, seed))
        found += priorities.tobytes() + repr(dict(metrics)).encode()
    assert bits(learner, found) == bits(expected, told)


def test_two_learners_may_be_updated_at_once() -> None:
    expected = bits(*learn("revalued", 3, 1, num_updates=20, **EVEN))
    with ThreadPoolExecutor(4) as callers:
        found = list(callers.map(lambda _: bits(*learn("revalued", 3, 3, num_updates=20, **EVEN)), range(4)))
    assert found == [expected] * 4


def test_a_forked_process_has_threads_of_its_own() -> None:
    one, other = (learn("revalued", 3, 3, **EVEN)[0] for _ in range(2))
    batches = [batch_for(one, seed) for seed in range(3)]
    expected = bits(one, b"".join(one.update(batch)[0].tobytes() for batch in batches))
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # whatever happens, it ends
        torch.set_num_threads(1)  # PyTorch's own threads do not survive a fork
        found = bits(other, b"".join(other.update(batch)[0].tobytes() for batch in batches))
        os._exit(0 if found == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert bits(other, b"".join(other.update(batch)[0].tobytes() for batch in batches)) == expected


def test_threads_do_not_keep_a_process_from_ending() -> None:
    code = """
from test_native_threads import EVEN, learn
learn("revalued", 3, 4, **EVEN)
raise SystemExit(7)
"""
    folder = os.path.dirname(__file__)
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (7, "")


def test_acting_with_many_weights_is_shared_out() -> None:
    """Enough critics of enough width for the work to be handed to helpers."""
    outputs = []
    for threads, delay in ((1, 0), (3, 300)):
        torch.set_num_threads(threads)
        load().revalued_delay_helpers(delay)
        learner = learner_for(replace(FAMILY["revalued"], critics=10), engine="native", hidden_size=512)
        critics = NativeCritics(learner.shape, learner.online)
        observations = batch_for(learner, 0).observations
        outputs.append([critics.all_outputs(observations) for _ in range(5)])
    assert np.array_equal(outputs[0], outputs[1])
