"""What the next state is worth: maxima of means, means of maxima, both with and without double Q; all by hand."""

from __future__ import annotations

import torch
from torch import tensor

from revalued.ops.targets import max_of_mean, mean_of_max, n_step_target

# K = 2, B = 1, N = 2, A = 2; the mean over critics is [[2.5, 3.5], [1, 2]]
TARGET = tensor([[[[1.0, 5.0], [2.0, 0.0]]], [[[4.0, 2.0], [0.0, 4.0]]]])
# the mean over critics is [[1.5, 0.5], [2, 1.5]]: choices 0 and 0; by themselves critic 0 takes (0, 1), critic 1 (1, 0)
ONLINE = tensor([[[[3.0, 0.0], [0.0, 1.0]]], [[[0.0, 1.0], [4.0, 2.0]]]])


def test_max_of_mean_maximises_the_ensembles_mean() -> None:
    assert max_of_mean(TARGET, None, None).tolist() == [[3.5, 2.0]]


def test_mean_of_max_averages_each_critics_own_maximum() -> None:
    # (5 + 4)/2 and (2 + 4)/2
    assert mean_of_max(TARGET, None, None).tolist() == [[4.5, 3.0]]


def test_double_q_values_the_online_choice_with_the_target() -> None:
    # the target's means at choices 0 and 0
    assert max_of_mean(TARGET, ONLINE, None).tolist() == [[2.5, 1.0]]
    # critic 0 at (0, 1) is worth (1, 0), critic 1 at (1, 0) is worth (2, 0)
    assert mean_of_max(TARGET, ONLINE, None).tolist() == [[1.5, 0.0]]


def test_a_single_critic_makes_both_targets_the_same() -> None:
    generator = torch.Generator().manual_seed(0)
    target, online = torch.randn(2, 1, 7, 3, 4, generator=generator).unbind()
    assert torch.equal(max_of_mean(target, None, None), mean_of_max(target, None, None))
    assert torch.equal(max_of_mean(target, online, None), mean_of_max(target, online, None))


def test_mean_of_max_is_never_below_max_of_mean() -> None:
    target = torch.randn(5, 50, 3, 4, generator=torch.Generator().manual_seed(0))
    gap = mean_of_max(target, None, None) - max_of_mean(target, None, None)
    assert gap.min() >= -1e-6
    assert gap.mean() > 0.1


def test_padding_is_neither_maximised_nor_chosen() -> None:
    legal = tensor([[True, True, False], [True, False, False]])
    padding = tensor([[False, False, True], [False, True, True]])
    target = torch.cat([TARGET, torch.zeros(2, 1, 2, 1)], dim=-1)
    online = torch.cat([ONLINE, torch.zeros(2, 1, 2, 1)], dim=-1)
    for filling in (-1e9, 1e9, torch.inf):
        hidden = target.masked_fill(padding, filling)
        chooser = online.masked_fill(padding, filling)
        # dimension 1 has only choice 0 left: (2 + 0)/2 = 1
        assert max_of_mean(hidden, None, legal).tolist() == [[3.5, 1.0]]
        assert mean_of_max(hidden, None, legal).tolist() == [[4.5, 1.0]]
        assert max_of_mean(hidden, chooser, legal).tolist() == [[2.5, 1.0]]
        assert mean_of_max(hidden, chooser, legal).tolist() == [[1.5, 1.0]]


def test_the_n_step_target_discounts_the_next_value_and_stops_at_termination() -> None:
    # 1 + 0.5·3; −2 + 0·100; 0.25 + 0.125·(−4)
    y = n_step_target(tensor([1.0, -2.0, 0.25]), tensor([0.5, 0.0, 0.125]), tensor([3.0, 100.0, -4.0]))
    assert y.tolist() == [2.5, -2.0, -0.25]
