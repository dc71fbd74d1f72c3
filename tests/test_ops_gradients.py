"""Gradients of the equations against finite differences, in double precision."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from revalued.ops.categorical import average_logits, cross_entropy, expected_values
from revalued.ops.losses import exponential_weight, huber, quadratic_weight, regularisation_errors
from revalued.ops.utilities import (
    aggregate_dueling,
    chosen_utilities,
    mean_decomposition,
    sum_decomposition,
)

ACTIONS = torch.tensor([[2, 0], [1, 1], [0, 1]])  # B = 3, N = 2
EXISTS = torch.tensor([[True, True, True], [True, True, False]])
Y = torch.tensor([0.3, -1.2, 2.5], dtype=torch.float64)


def random(*shape: int, seed: int = 0) -> Tensor:
    return 1.5 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def mean_td(utilities: Tensor) -> Tensor:
    return huber(Y - mean_decomposition(chosen_utilities(utilities, ACTIONS)))


def sum_td(utilities: Tensor) -> Tensor:
    return huber(Y - sum_decomposition(chosen_utilities(utilities, ACTIONS)))


def branch_td(utilities: Tensor) -> Tensor:
    branches = aggregate_dueling(utilities[:, :, 0, 0], utilities, EXISTS)
    return huber(Y[:, None] - chosen_utilities(branches, ACTIONS)).mean(dim=-1)


def regulariser(utilities: Tensor) -> Tensor:
    weights = exponential_weight(random(2, 3, 2, seed=1), 1.0)
    return regularisation_errors(chosen_utilities(utilities, ACTIONS), random(2, 3, 2, seed=2), weights)


@pytest.mark.parametrize("loss", [mean_td, sum_td, branch_td, regulariser])
def test_losses_of_utilities(loss: Callable[[Tensor], Tensor]) -> None:
    assert torch.autograd.gradcheck(loss, random(2, 3, 2, 3).requires_grad_())


def test_loss_of_averaged_logits() -> None:
    target = random(3, 4, seed=1).softmax(dim=-1)

    def loss(logits: Tensor) -> Tensor:
        return cross_entropy(target, average_logits(chosen_utilities(logits, ACTIONS)))

    assert torch.autograd.gradcheck(loss, random(2, 3, 2, 3, 4).requires_grad_())


def test_the_gradient_of_hubers_loss_is_the_error_cut_to_one() -> None:
    errors = torch.tensor([0.0, 0.25, -0.75, 1.0, -1.0, 1.5, -3.0], requires_grad=True)
    (gradient,) = torch.autograd.grad(huber(errors).sum(), errors)
    assert gradient.tolist() == [0.0, 0.25, -0.75, 1.0, -1.0, 1.0, -1.0]


def test_the_gradient_of_the_cross_entropy_is_the_difference_of_the_distributions() -> None:
    target, logits = random(3, 4, seed=1).softmax(dim=-1), random(2, 3, 4).requires_grad_()
    (gradient,) = torch.autograd.grad(cross_entropy(target, logits).sum(), logits)
    torch.testing.assert_close(gradient, logits.detach().softmax(dim=-1) - target, rtol=0, atol=1e-12)


@pytest.mark.parametrize("exists", [None, EXISTS])
def test_the_gradient_of_dueling_branches(exists: Tensor | None) -> None:
    value, advantages = random(2, 3).requires_grad_(), random(2, 3, 2, 3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda v, a: aggregate_dueling(v, a, exists), (value, advantages))


def test_expected_values_and_weights() -> None:
    support = torch.linspace(-2, 3, 4, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda logits: expected_values(logits, support), random(3, 4).requires_grad_())
    for weigh in (exponential_weight, quadratic_weight):
        assert torch.autograd.gradcheck(lambda delta, weigh=weigh: weigh(delta, 0.7), random(20).requires_grad_())


def test_padding_receives_no_gradient() -> None:
    utilities = random(2, 3, 2, 3).requires_grad_()
    (gradient,) = torch.autograd.grad(branch_td(utilities).sum(), utilities)
    assert gradient[:, :, ~EXISTS].eq(0).all()
    assert gradient[:, :, EXISTS].ne(0).any()
