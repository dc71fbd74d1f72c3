"""Huber's loss, the regulariser's weights and the regulariser, by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, tensor

from revalued.ops.losses import exponential_weight, huber, quadratic_weight, regularisation_errors


def test_huber_is_quadratic_inside_one_and_linear_outside() -> None:
    errors = tensor([0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -3.0, 100.0])
    # 0.5²/2 = 0.125; 1²/2 = 1 − 0.5; 1.5 − 0.5; 3 − 0.5; 100 − 0.5
    assert huber(errors).tolist() == [0.0, 0.125, 0.125, 0.5, 0.5, 1.0, 2.5, 99.5]


def test_hubers_gradient_is_the_error_cut_at_one() -> None:
    errors = tensor([0.0, 0.25, -0.75, 1.0, -1.0, 1.5, -3.0], requires_grad=True)
    huber(errors).sum().backward()  # type: ignore[no-untyped-call]
    assert errors.grad is not None
    assert errors.grad.tolist() == [0.0, 0.25, -0.75, 1.0, -1.0, 1.0, -1.0]


def test_huber_agrees_with_torch() -> None:
    errors = torch.linspace(-4, 4, 1001, dtype=torch.float64)
    expected = torch.nn.functional.huber_loss(errors, torch.zeros_like(errors), reduction="none", delta=1.0)
    torch.testing.assert_close(huber(errors), expected, rtol=0, atol=1e-15)


def test_exponential_weight() -> None:
    deltas = tensor([0.0, 0.5, -0.5, 2.0, -1000.0], dtype=torch.float64)
    # 1 − e^−0.5 = 0.3934693403, 1 − e^−2 = 0.8646647168
    expected = tensor([0.0, 0.3934693403, 0.3934693403, 0.8646647168, 1.0], dtype=torch.float64)
    torch.testing.assert_close(exponential_weight(deltas, 1.0), expected, rtol=0, atol=1e-10)
    # with c = 4, δ = 2 weighs what 0.5 does with c = 1
    assert exponential_weight(tensor(2.0), 4.0) == exponential_weight(tensor(0.5), 1.0)


def test_exponential_weight_is_exact_for_tiny_errors() -> None:
    # 1 − exp(−x) = x − x²/2 + …; computed naively in single precision, 1e-8 would give 0
    assert exponential_weight(tensor(1e-8), 1.0).item() == pytest.approx(1e-8, rel=1e-6)


def test_quadratic_weight() -> None:
    deltas = tensor([0.0, 0.5, -0.5, 1.0, -2.0])
    assert quadratic_weight(deltas, 1.0).tolist() == [0.0, 0.25, 0.25, 1.0, 1.0]
    # c = 4: (0.5/4)² = 0.015625, (1/4)² = 0.0625, (2/4)² = 0.25
    assert quadratic_weight(deltas, 4.0).tolist() == [0.0, 0.015625, 0.015625, 0.0625, 0.25]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_weights_lie_between_0_and_1_and_grow_with_the_error(temperature: float) -> None:
    deltas = torch.linspace(0, 20, 200, dtype=torch.float64)
    for weigh in (exponential_weight, quadratic_weight):
        weights = weigh(deltas, temperature)
        assert weights[0] == 0
        assert weights.max() <= 1
        assert weights[-1] > 0.99
        assert (weights.diff() >= 0).all()
        assert torch.equal(weigh(-deltas, temperature), weights)


def test_regularisation_weighs_the_distance_to_each_critics_own_target() -> None:
    # K = 2, B = 1, N = 2
    chosen = tensor([[[2.0, 3.0]], [[4.0, 2.0]]])
    own_target = tensor([[[2.5, 1.0]], [[4.0, 5.0]]])
    weights = tensor([[[0.5, 0.25]], [[1.0, 0.5]]])
    # critic 0: 0.5 · 0.5²/2, 0.25 · (2 − 0.5); critic 1: 1 · 0, 0.5 · (3 − 0.5)
    assert regularisation_errors(chosen, own_target, weights).tolist() == [[[0.0625, 0.375]], [[0.0, 1.25]]]


def test_the_regulariser_pulls_towards_the_target() -> None:
    def gradient(chosen: float, target: float) -> float:
        utility: Tensor = tensor(chosen, requires_grad=True)
        regularisation_errors(utility, tensor(target), tensor(0.5)).backward()  # type: ignore[no-untyped-call]
        assert utility.grad is not None
        return utility.grad.item()

    # w · −(Ū − U), cut at ±1: descending moves U towards Ū
    assert gradient(1.0, 1.5) == -0.25
    assert gradient(1.0, 9.0) == -0.5
    assert gradient(1.0, -2.0) == 0.5
