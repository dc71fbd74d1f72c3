"""Choosing from and combining utilities, by hand."""

from __future__ import annotations

import torch
from torch import tensor

from revalued.ops.utilities import (
    aggregate_dueling,
    chosen_utilities,
    greedy_actions,
    hide_illegal,
    mean_decomposition,
    sum_decomposition,
)

# K = 2, B = 2, N = 2, A = 3
UTILITIES = tensor(
    [
        [[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], [[6.0, 7.0, 8.0], [9.0, 10.0, 11.0]]],
        [[[20.0, 21.0, 22.0], [23.0, 24.0, 25.0]], [[26.0, 27.0, 28.0], [29.0, 30.0, 31.0]]],
    ]
)


def test_chosen_utilities_follow_the_action_of_each_dimension() -> None:
    actions = tensor([[2, 0], [1, 2]])
    assert chosen_utilities(UTILITIES, actions).tolist() == [[[2.0, 3.0], [7.0, 11.0]], [[22.0, 23.0], [27.0, 31.0]]]


def test_chosen_logits_keep_their_atoms() -> None:
    logits = torch.stack([UTILITIES, -UTILITIES], dim=-1)
    chosen = chosen_utilities(logits, tensor([[2, 0], [1, 2]]))
    assert chosen[0].tolist() == [[[2.0, -2.0], [3.0, -3.0]], [[7.0, -7.0], [11.0, -11.0]]]
    assert chosen[1].tolist() == [[[22.0, -22.0], [23.0, -23.0]], [[27.0, -27.0], [31.0, -31.0]]]


def test_mean_and_sum_decomposition() -> None:
    chosen = tensor([[[1.0, 2.0, 6.0]], [[-1.0, 0.0, 4.0]]])
    assert mean_decomposition(chosen).tolist() == [[3.0], [1.0]]  # 9/3, 3/3
    assert sum_decomposition(chosen).tolist() == [[9.0], [3.0]]


def test_the_greedy_action_maximises_each_dimension_by_itself() -> None:
    utilities = tensor([[[1.0, 3.0, 2.0], [5.0, 0.0, 4.0]], [[-3.0, -2.0, -1.0], [0.0, 0.0, 0.0]]])
    # the first of equals wins
    assert greedy_actions(utilities, None).tolist() == [[1, 0], [2, 0]]


def test_illegal_choices_are_never_greedy_however_large() -> None:
    utilities = tensor([[[1.0, 2.0, 1e30], [-5.0, torch.inf, 7.0]]])
    legal = tensor([[True, True, False], [True, False, False]])
    assert greedy_actions(utilities, legal).tolist() == [[1, 0]]
    assert hide_illegal(utilities, legal).tolist() == [
        [[1.0, 2.0, -torch.inf], [-5.0, -torch.inf, -torch.inf]],
    ]
    assert hide_illegal(utilities, None) is utilities


def test_dueling_branches_centre_their_advantages() -> None:
    value = tensor([[10.0]])
    advantages = tensor([[[[1.0, 2.0, 6.0], [0.0, -3.0, 0.0]]]])
    # means 3 and −1: 10 + (1, 2, 6) − 3 and 10 + (0, −3, 0) + 1
    assert aggregate_dueling(value, advantages, None).tolist() == [[[[8.0, 9.0, 13.0], [11.0, 8.0, 11.0]]]]


def test_dueling_means_leave_padding_out() -> None:
    value = tensor([[10.0], [0.0]])
    advantages = tensor([[[[1.0, 2.0, 6.0], [4.0, 999.0, -999.0]]], [[[3.0, 0.0, 0.0], [2.0, 1.0, 1.0]]]])
    exists = tensor([[True, True, True], [True, False, False]])
    combined = aggregate_dueling(value, advantages, exists)
    # critic 0: means 3 and 4 (of one choice); critic 1: means 1 and 2
    assert combined[:, :, 0].tolist() == [[[8.0, 9.0, 13.0]], [[2.0, -1.0, -1.0]]]
    assert combined[:, :, 1, 0].tolist() == [[10.0], [0.0]]


def test_the_mean_of_a_dueling_branch_is_the_value() -> None:
    generator = torch.Generator().manual_seed(0)
    value = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    advantages = torch.randn(3, 4, 5, 6, generator=generator, dtype=torch.float64)
    combined = aggregate_dueling(value, advantages, None)
    torch.testing.assert_close(combined.mean(dim=-1), value[..., None].expand(3, 4, 5))
