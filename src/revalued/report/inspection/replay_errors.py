"""TD errors and priorities of the transitions in a checkpoint's replay."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from revalued.algorithms.loss import loss_terms
from revalued.learner.engine import to_tensors
from revalued.learner.torch_update import ask_critics
from revalued.replay.batch import read_batch
from revalued.run.load import SavedRun
from revalued.seeding import Stream, drawn_critics, stream_rng, stream_seed

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
    assert run.target is not None
    policy, algorithm, mask_size = run.policy, run.config.algorithm, run.task.info.mask_size
    found: list[NDArray[np.float32]] = []
    drawn = None
    if algorithm.target_critics is not None:
        seed, count = stream_seed(run.config.seed, Stream.INITIALISATION), algorithm.target_critics
        drawn = torch.from_numpy(drawn_critics(seed, run.meta["updates"], count, algorithm.critics))
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        stored = read_batch(run.replay, block, np.ones(len(block), np.float32), mask_size)
        now, following = policy.normalise(stored.observations), policy.normalise(stored.next_observations)
        stored = stored._replace(observations=now, next_observations=following)
        batch = to_tensors(stored, policy.shape.actions, policy.device)
        predictions = ask_critics(algorithm, policy.parameters, run.target, batch, policy.shape, policy.exists)
        predictions = replace(predictions, drawn=drawn)
        terms = loss_terms(algorithm, predictions, batch, policy.exists, policy.support)
        found.append(terms.priorities.cpu().numpy())
    return np.concatenate(found)
