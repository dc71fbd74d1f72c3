"""Categorical distributions: projection, averaged logits and their expectations."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, tensor

from naive import naive_projection
from revalued.ops.categorical import average_logits, cross_entropy, expected_values, project_distribution

SUPPORT = tensor([0.0, 1.0, 2.0, 3.0, 4.0], dtype=torch.float64)


def project(probabilities: list[float], reward: float, discount: float) -> list[float]:
    batch = tensor([probabilities], dtype=torch.float64)
    arguments = (tensor([reward], dtype=torch.float64), tensor([discount], dtype=torch.float64))
    projected: list[float] = project_distribution(batch, *arguments, SUPPORT)[0].tolist()
    return projected


def test_atoms_that_land_on_the_grid_keep_their_mass_whole() -> None:
    # z → z + 1: the last atom is cut back to 4 and adds to its neighbour's
    assert project([0.5, 0.25, 0.0, 0.0, 0.25], 1.0, 1.0) == [0.0, 0.5, 0.25, 0.0, 0.25]
    assert project([0.5, 0.25, 0.0, 0.125, 0.125], 1.0, 1.0) == [0.0, 0.5, 0.25, 0.0, 0.25]
    # nothing moves
    assert project([0.5, 0.25, 0.0, 0.125, 0.125], 0.0, 1.0) == [0.5, 0.25, 0.0, 0.125, 0.125]


def test_atoms_between_the_grid_share_their_mass_by_distance() -> None:
    # z = 2 → 0.25 + 0.5·2 = 1.25: three quarters to 1, one quarter to 2
    assert project([0.0, 0.0, 1.0, 0.0, 0.0], 0.25, 0.5) == [0.0, 0.75, 0.25, 0.0, 0.0]
    # z = 0 → 0.25 (¾ to 0, ¼ to 1) with mass ½; z = 4 → 2.25 (¾ to 2, ¼ to 3) with mass ½
    assert project([0.5, 0.0, 0.0, 0.0, 0.5], 0.25, 0.5) == [0.375, 0.125, 0.375, 0.125, 0.0]


def test_atoms_beyond_the_ends_are_cut_there() -> None:
    probabilities = [0.125, 0.125, 0.25, 0.25, 0.25]
    assert project(probabilities, 50.0, 1.0) == [0.0, 0.0, 0.0, 0.0, 1.0]
    assert project(probabilities, -50.0, 1.0) == [1.0, 0.0, 0.0, 0.0, 0.0]
    # −2 + z: −2, −1 and 0 meet at the lowest atom, 1 and 2 stay inside
    assert project(probabilities, -2.0, 1.0) == [0.5, 0.25, 0.25, 0.0, 0.0]


def test_after_termination_only_the_return_is_left() -> None:
    # every atom moves to R = 2.25
    assert project([0.2, 0.2, 0.2, 0.2, 0.2], 2.25, 0.0) == pytest.approx([0.0, 0.0, 0.75, 0.25, 0.0])
    assert project([0.2, 0.2, 0.2, 0.2, 0.2], 4.0, 0.0) == pytest.approx([0.0, 0.0, 0.0, 0.0, 1.0])


def test_what_is_not_a_number_stays_visible() -> None:
    assert any(math.isnan(mass) for mass in project([0.2, 0.2, 0.2, 0.2, 0.2], math.nan, 0.5))
    # an infinite return is only beyond the end
    assert project([0.0, 0.0, 1.0, 0.0, 0.0], math.inf, 0.5) == [0.0, 0.0, 0.0, 0.0, 1.0]


def random_distributions(batch: int, atoms: int, dtype: torch.dtype) -> Tensor:
    logits = torch.randn(batch, atoms, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (2 * logits).softmax(dim=-1).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_mass_is_conserved_wherever_it_goes(dtype: torch.dtype) -> None:
    probabilities = random_distributions(400, 51, dtype)
    returns = torch.linspace(-30, 30, 400, dtype=dtype)
    discounts = torch.linspace(0, 1, 400, dtype=dtype)[torch.randperm(400, generator=torch.Generator().manual_seed(1))]
    projected = project_distribution(probabilities, returns, discounts, torch.linspace(-10, 10, 51, dtype=dtype))
    assert projected.min() >= 0
    torch.testing.assert_close(projected.sum(dim=-1), torch.ones(400, dtype=dtype), rtol=0, atol=1e-5)


def test_the_mean_moves_as_the_atoms_do_if_nothing_is_cut() -> None:
    probabilities = random_distributions(200, 101, torch.float64)
    support = torch.linspace(0, 100, 101, dtype=torch.float64)
    returns = torch.linspace(0, 3, 200, dtype=torch.float64)
    discounts = torch.full((200,), 0.97, dtype=torch.float64)  # R + Γ·z is at most 3 + 97
    projected = project_distribution(probabilities, returns, discounts, support)
    expected = returns + 0.97 * (probabilities * support).sum(dim=-1)
    torch.testing.assert_close((projected * support).sum(dim=-1), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize(("low", "high", "atoms"), [(-2.0, 3.0, 11), (0.0, 100.0, 101), (-1.0, 1.0, 2)])
def test_projection_agrees_with_its_naive_twin(low: float, high: float, atoms: int) -> None:
    generator = torch.Generator().manual_seed(atoms)
    probabilities = random_distributions(20, atoms, torch.float64)
    returns = 2 * torch.randn(20, generator=generator, dtype=torch.float64)
    discounts = torch.rand(20, generator=generator, dtype=torch.float64)
    support = torch.linspace(low, high, atoms, dtype=torch.float64)
    projected = project_distribution(probabilities, returns, discounts, support)
    rows = zip(probabilities.tolist(), returns.tolist(), discounts.tolist(), strict=True)
    twin = [naive_projection(*row, support.tolist()) for row in rows]
    torch.testing.assert_close(projected, tensor(twin, dtype=torch.float64), rtol=0, atol=1e-12)


def test_logits_are_averaged_over_dimensions_before_the_softmax() -> None:
    four = math.log(4)
    chosen = tensor([[[[0.0, four, 0.0], [0.0, 0.0, four]]]], dtype=torch.float64)  # K = B = 1, N = 2, Z = 3
    # the mean (0, ln 2, ln 2) gives the odds 1 : 2 : 2
    probabilities = average_logits(chosen).softmax(dim=-1)
    expected = tensor([[[0.2, 0.4, 0.4]]], dtype=torch.float64)
    torch.testing.assert_close(probabilities, expected, rtol=0, atol=1e-12)


def test_expected_values_weigh_the_atoms() -> None:
    logits = tensor([[0.0, 0.0, 0.0], [0.0, math.log(2), 0.0]], dtype=torch.float64)
    support = tensor([-1.0, 2.0, 5.0], dtype=torch.float64)
    # (−1 + 2 + 5)/3 = 2; odds 1 : 2 : 1 give (−1 + 4 + 5)/4 = 2
    assert expected_values(logits, support).tolist() == pytest.approx([2.0, 2.0])
    # odds 4 : 1 : 1 give (−4 + 2 + 5)/6 = 0.5
    assert expected_values(tensor([math.log(4), 0.0, 0.0], dtype=torch.float64), support).item() == pytest.approx(0.5)


def test_cross_entropy_compares_every_critic_with_the_same_target() -> None:
    target = tensor([[0.5, 0.25, 0.25]], dtype=torch.float64)
    critics = tensor([[[0.25, 0.25, 0.5]], [[0.5, 0.25, 0.25]]], dtype=torch.float64)
    # in units of ln 2: 0.5·2 + 0.25·2 + 0.25·1 = 1.75; 0.5·1 + 0.25·2 + 0.25·2 = 1.5
    expected = tensor([[1.75], [1.5]], dtype=torch.float64) * math.log(2)
    # adding a constant to all logits changes nothing
    torch.testing.assert_close(cross_entropy(target, critics.log() + 7), expected, rtol=0, atol=1e-12)
