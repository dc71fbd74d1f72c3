"""Experiment `tabular`: does the regulariser protect a sub-action that was right from the start? (Appendix H)

One state, N dimensions of n choices, every action ends the episode. The reward is +1 if every dimension takes its
optimal sub-action (choice 0), −1 otherwise. The last dimension's optimal utility starts at +1, all others in
Uniform(−0.1, 0.1). Almost every reward is −1 because of the *other* dimensions, and DecQN lets the last one pay for it
too. Recorded is how often the last dimension takes its optimal sub-action while learning.

What the paper leaves silent, and what is done here: one step of gradient descent per interaction on the transition just
seen, no replay; learning rate 0.1; the target table follows the learned one by Polyak averaging with c = 0.005 after
every update and starts equal to it; Huber losses; with probability ε the whole action is uniform. Since every action
ends the episode, the target is the reward itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from revalued.experiments.result_files import TABULAR_COLUMNS
from revalued.ops.losses import exponential_weight, huber, regularisation_errors
from revalued.seeding import stream_rng

EPSILON = 0.1
LEARNING_RATE = 0.1
POLYAK = 0.005
WEIGHT_TEMPERATURE = 1.0
SEED = 0
WINDOW_UPDATES = 20
"""A recorded frequency is that of the last so many updates, in each trial."""


@dataclass(frozen=True)
class TabularLearner:
    """What is learned with: the regulariser's coefficient β, how it is reduced over dimensions, and the step size."""

    beta: float
    reduction: Literal["sum", "mean"] = "sum"
    learning_rate: float = LEARNING_RATE


VARIANTS: dict[str, TabularLearner] = {
    "decqn": TabularLearner(beta=0.0),
    "revalued": TabularLearner(beta=0.5),
    "revalued-mean": TabularLearner(beta=0.5, reduction="mean"),
}


@dataclass(frozen=True)
class TabularGrid:
    """The sizes of the problem, and how long and how often each is learned."""

    dimensions: tuple[int, ...]
    choices: tuple[int, ...]
    updates: int
    trials: int


_FULL = TabularGrid((2, 3, 5, 10), (2, 3, 5, 10), 2_000, 1_000)
GRIDS: dict[str, TabularGrid] = {"smoke": TabularGrid((2, 5), (3, 10), 100, 50), "laptop": _FULL, "paper": _FULL}


def descent(chosen: Tensor, target_chosen: Tensor, rewards: Tensor, learner: TabularLearner) -> Tensor:
    """Return minus the gradient of TD loss + β · regulariser with respect to the chosen utilities, all [trials, N].

    TD loss: Huber(y − mean_i U_i). Regulariser: w_i Huber(U'_i − U_i), w_i = 1 − exp(−|y − U_i|) held fixed, summed or
    averaged over dimensions. `rewards` [trials] is y.
    """
    utilities = chosen.detach().requires_grad_()
    loss = huber(rewards - utilities.mean(-1))
    if learner.beta > 0:
        weights = exponential_weight(rewards[:, None] - chosen, WEIGHT_TEMPERATURE)
        errors = regularisation_errors(utilities, target_chosen, weights)
        loss = loss + learner.beta * (errors.sum(-1) if learner.reduction == "sum" else errors.mean(-1))
    (gradient,) = torch.autograd.grad(loss.sum(), utilities)
    return -gradient


def initial_utilities(rng: np.random.Generator, trials: int, dimensions: int, choices: int) -> Tensor:
    """Return utilities [trials, N, n]: Uniform(−0.1, 0.1), but +1 for the last dimension's optimal sub-action."""
    utilities = torch.from_numpy(rng.uniform(-0.1, 0.1, (trials, dimensions, choices)))
    utilities[:, -1, 0] = 1.0
    return utilities


def simulate(
    learner: TabularLearner, dimensions: int, choices: int, trials: int, updates: int, seed: int = SEED
) -> Tensor:
    """Learn in all trials at once; return [updates, trials, N]: did this dimension take its optimal sub-action?

    Two learners with the same seed start from the same utilities and explore at the same updates with the same actions.
    """
    rng = stream_rng(seed, dimensions, choices)
    utilities = initial_utilities(rng, trials, dimensions, choices)
    targets = utilities.clone()
    optimal_taken = torch.empty(updates, trials, dimensions, dtype=torch.bool)
    for update in range(updates):
        explores = torch.from_numpy(rng.random(trials) < EPSILON)
        uniform = torch.from_numpy(rng.integers(choices, size=(trials, dimensions)))
        actions = torch.where(explores[:, None], uniform, utilities.max(-1).indices)
        is_optimal = actions == 0
        rewards = torch.where(is_optimal.all(-1), 1.0, -1.0).to(utilities.dtype)
        index = actions[..., None]
        chosen = utilities.gather(-1, index).squeeze(-1)
        step = descent(chosen, targets.gather(-1, index).squeeze(-1), rewards, learner)
        utilities.scatter_(-1, index, (chosen + learner.learning_rate * step)[..., None])
        if learner.beta > 0:
            targets.lerp_(utilities, POLYAK)
        optimal_taken[update] = is_optimal
    return optimal_taken


def frequencies(taken: Tensor, window_updates: int) -> tuple[Tensor, Tensor]:
    """Return the percentage per window [windows] and its standard error over trials, from [updates, trials]."""
    per_trial = 100.0 * taken.reshape(-1, window_updates, taken.shape[-1]).double().mean(1)
    return per_trial.mean(-1), per_trial.std(-1) / per_trial.shape[-1] ** 0.5


def tabular_rows(scale: str, report: Callable[[float], None]) -> list[dict[str, Any]]:
    """Compute all rows; `report` is told the fraction done."""
    grid = GRIDS[scale]
    cells = [(N, n, variant) for N in grid.dimensions for n in grid.choices for variant in VARIANTS]
    rows: list[dict[str, Any]] = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # arrays of a few thousand numbers: waking a second thread costs more than it does
    try:
        for done, (dimensions, choices, variant) in enumerate(cells, start=1):
            taken = simulate(VARIANTS[variant], dimensions, choices, grid.trials, grid.updates)
            means, errors = frequencies(taken[..., -1], WINDOW_UPDATES)
            for window, (mean, error) in enumerate(zip(means.tolist(), errors.tolist(), strict=True), start=1):
                values = ("tabular", variant, dimensions, choices, window * WINDOW_UPDATES, mean, error, grid.trials)
                rows.append(dict(zip(TABULAR_COLUMNS, values, strict=True)))
            report(done / len(cells))
    finally:
        torch.set_num_threads(threads)
    return rows
