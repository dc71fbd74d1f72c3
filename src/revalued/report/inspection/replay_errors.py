"""TD errors and priorities of the transitions in a checkpoint's replay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from revalued.algorithms.loss import Predictions, TensorBatch, loss_terms
from revalued.networks import Parameters, predict
from revalued.run.load import SavedRun
from revalued.seeding import stream_rng

SAMPLE = 4096
_BLOCK = 256


@dataclass(frozen=True)
class ReplayErrors:
    """Absolute TD errors, mean over critics of |y − Q|, under the networks of the checkpoint."""

    num_stored: int
    """Transitions that can be sampled."""
    uniform: NDArray[np.float32]
    """Errors of transitions drawn uniformly: what is in the replay."""
    prioritised: NDArray[np.float32] | None
    """Errors of transitions drawn by priority: what the learner sees; None where the replay is uniform."""
    priorities: NDArray[np.float64] | None
    """Stored priorities, those of the last visit or the initial ones, before the exponent; one per uniform draw."""


def replay_errors(run: SavedRun, *, sample: int = SAMPLE, seed: int = 0) -> ReplayErrors | None:
    """Draw transitions from a run's replay and compute their errors; None where there is no replay to draw from."""
    if run.target is None or "leaves" not in run.replay:
        return None
    leaves = run.replay["leaves"]
    live = np.flatnonzero(leaves > 0)
    if len(live) == 0:
        return None
    rng = stream_rng(seed)
    uniform = rng.choice(live, size=min(sample, len(live)), replace=False)
    errors = td_errors(run, uniform)
    exponent = run.config.replay.priority_exponent
    if not run.config.replay.prioritised or exponent == 0:
        return ReplayErrors(len(live), errors, None, None)
    weights = leaves[live] / leaves[live].sum()
    drawn = rng.choice(live, size=min(sample, len(live)), p=weights)
    return ReplayErrors(len(live), errors, td_errors(run, drawn), leaves[uniform] ** (1 / exponent))


@torch.no_grad()
def td_errors(run: SavedRun, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return |y − Q|, mean over critics, of stored transitions, as the learner would compute it now."""
    if run.target is None:
        raise ValueError("there are no target critics in this checkpoint")
    policy, algorithm = run.policy, run.config.algorithm

    def ask(critics: Parameters, observations: torch.Tensor) -> torch.Tensor:
        return predict(critics, observations, policy.shape, policy.exists)

    found: list[NDArray[np.float32]] = []
    for start in range(0, len(rows), _BLOCK):
        batch = _batch(run, rows[start : start + _BLOCK])
        predictions = Predictions(
            ask(policy.parameters, batch.observations),
            ask(run.target, batch.next_observations),
            online_next=ask(policy.parameters, batch.next_observations) if algorithm.double_q else None,
        )
        found.append(loss_terms(algorithm, predictions, batch, policy.exists, policy.support).priorities.numpy())
    return np.concatenate(found)


def _batch(run: SavedRun, rows: NDArray[np.int64]) -> TensorBatch:
    replay, size = run.replay, run.task.info.mask_size
    next_rows = replay["next_rows"][rows]
    legal = None
    if size:
        masks = np.unpackbits(replay["masks"][next_rows], axis=1, count=size).view(np.bool_)
        legal = torch.from_numpy(run.policy.shape.actions.legal(masks))
    normalise = run.policy.normalise
    return TensorBatch(
        observations=torch.from_numpy(normalise(replay["observations"][rows])),
        actions=torch.from_numpy(replay["actions"][rows].astype(np.int64)),
        returns=torch.from_numpy(replay["returns"][rows]),
        discounts=torch.from_numpy(replay["discounts"][rows]),
        next_observations=torch.from_numpy(normalise(replay["observations"][next_rows])),
        weights=torch.ones(len(rows)),
        next_legal=legal,
    )
