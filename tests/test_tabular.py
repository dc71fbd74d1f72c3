"""The tabular experiment against autograd, against one slow trial after the other, and against what must be so."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
import torch

from revalued.experiments.result_files import TABULAR_COLUMNS
from revalued.experiments.tabular import (
    EPSILON,
    LEARNING_RATE,
    POLYAK,
    VARIANTS,
    WINDOW_UPDATES,
    TabularLearner,
    descent,
    frequencies,
    initial_utilities,
    simulate,
    tabular_rows,
)
from revalued.ops.losses import exponential_weight, huber, regularisation_errors


def clip(x: float) -> float:
    return min(max(x, -1.0), 1.0)


def naive_trial(
    learner: TabularLearner, utilities: list[list[float]], explores: list[bool], uniform: list[list[int]]
) -> list[list[bool]]:
    """One trial in plain Python: choose, be rewarded, update the chosen utilities, move the whole target table."""
    targets = [list(row) for row in utilities]
    dimensions, choices = len(utilities), len(utilities[0])
    taken = []
    for explore, random_action in zip(explores, uniform, strict=True):
        action = random_action if explore else [row.index(max(row)) for row in utilities]
        y = 1.0 if all(a == 0 for a in action) else -1.0
        q = sum(utilities[i][a] for i, a in enumerate(action)) / dimensions
        step = clip(y - q) / dimensions
        for i, a in enumerate(action):
            u = utilities[i][a]
            pull = (1 - math.exp(-abs(y - u))) * clip(targets[i][a] - u)
            beta = learner.beta / dimensions if learner.reduction == "mean" else learner.beta
            utilities[i][a] = u + learner.learning_rate * (step + beta * pull)
        for i in range(dimensions):
            for a in range(choices):
                targets[i][a] += POLYAK * (utilities[i][a] - targets[i][a])
        taken.append([a == 0 for a in action])
    return taken


@pytest.mark.parametrize("variant", VARIANTS)
def test_all_trials_at_once_equal_one_trial_after_the_other(variant: str) -> None:
    dimensions, choices, trials, updates = 3, 4, 12, 250
    taken = simulate(VARIANTS[variant], dimensions, choices, trials, updates, seed=5)
    # the same stream of numbers, read trial by trial
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence((5, dimensions, choices))))
    utilities = initial_utilities(rng, trials, dimensions, choices)
    draws = [(rng.random(trials) < EPSILON, rng.integers(choices, size=(trials, dimensions))) for _ in range(updates)]
    for trial in range(trials):
        explores = [bool(explore[trial]) for explore, _ in draws]
        uniform = [actions[trial].tolist() for _, actions in draws]
        assert taken[:, trial].tolist() == naive_trial(VARIANTS[variant], utilities[trial].tolist(), explores, uniform)
    assert 0.05 < taken.double().mean() < 0.95  # both outcomes happened, so there was something to compare


def test_the_variants_really_differ() -> None:
    runs = [simulate(learner, 3, 5, 20, 200) for learner in VARIANTS.values()]
    assert not torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])
    assert not torch.equal(runs[1], runs[2])


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_descent_is_minus_the_gradient_of_the_loss(beta: float, reduction: Literal["sum", "mean"]) -> None:
    generator = torch.Generator().manual_seed(0)
    chosen = (3 * torch.randn(50, 4, generator=generator, dtype=torch.float64)).requires_grad_()
    targets = 2 * torch.randn(50, 4, generator=generator, dtype=torch.float64)
    rewards = torch.randn(50, generator=generator, dtype=torch.float64).sign()
    weights = exponential_weight(rewards[:, None] - chosen.detach(), 1.0)
    regulariser = regularisation_errors(chosen, targets, weights)
    reduced = regulariser.sum(-1) if reduction == "sum" else regulariser.mean(-1)
    loss = huber(rewards - chosen.mean(-1)) + beta * reduced
    (gradient,) = torch.autograd.grad(loss.sum(), chosen)
    actual = descent(chosen.detach(), targets, rewards, TabularLearner(beta, reduction))
    torch.testing.assert_close(actual, -gradient, rtol=1e-12, atol=1e-14)


def test_the_first_steps_by_hand() -> None:
    # N = 2, U = (0.1, 1), y = −1: Q = 0.55, error −1.55 cut to −1, so each utility goes down by η/2
    chosen, y = torch.tensor([[0.1, 1.0]], dtype=torch.float64), torch.tensor([-1.0], dtype=torch.float64)
    assert descent(chosen, chosen, y, VARIANTS["decqn"]).tolist() == [[-0.5, -0.5]]
    # where target and utility agree, the regulariser has no gradient: the first update is DecQN's
    assert descent(chosen, chosen, y, VARIANTS["revalued"]).tolist() == [[-0.5, -0.5]]
    # a target 0.2 above pulls up by 0.5 · w · 0.2, w = 1 − exp(−1.1) and 1 − exp(−2)
    pull = descent(chosen, chosen + 0.2, y, VARIANTS["revalued"]) + 0.5
    assert pull.tolist() == [pytest.approx([0.1 * 0.6671289163, 0.1 * 0.8646647168], rel=1e-9)]


def test_initial_utilities() -> None:
    utilities = initial_utilities(np.random.default_rng(0), 100, 3, 4)
    assert utilities.shape == (100, 3, 4)
    assert (utilities[:, -1, 0] == 1).all()
    utilities[:, -1, 0] = 0
    assert utilities.abs().max() <= 0.1
    assert utilities.abs().max() > 0.09


def test_before_anything_is_learned_the_frequency_is_that_of_epsilon_greedy() -> None:
    taken = simulate(VARIANTS["decqn"], 4, 5, 20_000, 1)[..., -1]
    # greedy takes it always, exploration one time in 5: 0.9 + 0.1/5, standard error 0.0019
    assert taken.double().mean().item() == pytest.approx(1 - EPSILON + EPSILON / 5, abs=0.01)


def test_learners_with_one_seed_meet_the_same_problem_and_explore_alike() -> None:
    # with N = 1 the last dimension is the only one and +1 is right: all that happens is exploration
    runs = [simulate(learner, 1, 4, 200, 60) for learner in VARIANTS.values()]
    assert torch.equal(runs[0], runs[1])
    assert torch.equal(runs[0], runs[2])
    assert not runs[0].all()


def test_decqn_forgets_after_about_the_number_of_updates_that_its_step_implies() -> None:
    # each update takes η/N from the utility until it meets the others near 0.1: 0.9 N/η = 90 updates for N = 10
    assert LEARNING_RATE == 0.1
    taken = simulate(VARIANTS["decqn"], 10, 10, 100, 140)[..., -1].double().mean(1)
    assert taken[:70].mean() > 0.88
    assert taken[110:].mean() < 0.5


def test_the_regulariser_as_a_sum_delays_it_many_times_longer() -> None:
    taken = simulate(VARIANTS["revalued"], 10, 10, 100, 500)[..., -1].double().mean(1)
    assert taken[400:].mean() > 0.85


def test_frequencies_by_hand() -> None:
    # two windows of two updates, two trials: (50%, 100%) and (0%, 50%)
    taken = torch.tensor([[True, True], [False, True], [False, True], [False, False]])
    means, errors = frequencies(taken, 2)
    assert means.tolist() == [75.0, 25.0]
    # standard deviation of 50 and 100 is 25 √2, divided by √2
    assert errors.tolist() == pytest.approx([25.0, 25.0])


def test_rows() -> None:
    fractions: list[float] = []
    rows = tabular_rows("smoke", fractions.append)
    assert all(tuple(row) == TABULAR_COLUMNS for row in rows)
    assert {row["variant"] for row in rows} == {"decqn", "revalued", "revalued-mean"}
    keys = [(row["variant"], row["N"], row["n"], row["updates"]) for row in rows]
    assert len(set(keys)) == len(keys) == 3 * 4 * 100 // WINDOW_UPDATES
    assert {row["updates"] for row in rows} == set(range(WINDOW_UPDATES, 101, WINDOW_UPDATES))
    assert all(0 <= row["frequency"] <= 100 for row in rows)
    assert fractions[-1] == 1.0
    assert tabular_rows("smoke", fractions.append) == rows
