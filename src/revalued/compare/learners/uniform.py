"""Uniformly random choices among what is legal, judged once: `python -m revalued.compare.learners.uniform ORDER`."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from revalued.actions import FactorisedActions
from revalued.compare.meter import Meter, RunOrder
from revalued.seeding import Stream, stream_rng

MORE_EPISODES = 10
"""Times as many as a learner plays in a round: there is but this one."""


def learn(order: RunOrder) -> None:
    """Play the test episodes at random, and others; nothing is learnt, so one round is all there is."""
    env = replace(order, continuous=False).make_env()
    space = FactorisedActions(tuple(int(size) for size in env.action_space.nvec))  # type: ignore[attr-defined]
    env.close()
    rng = stream_rng(order.seed, Stream.EXPLORATION)

    def act(observation: NDArray[np.float32], mask: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        return space.uniform(rng.random(space.num_dimensions), None if mask is None else space.legal(mask))

    meter = Meter(replace(order, episodes=MORE_EPISODES * order.episodes))
    meter.goes_on(0, act)
    meter.close()


if __name__ == "__main__":
    learn(RunOrder.read(sys.argv[1]))
