"""The written-out forward pass against the plain one, where its algebra could lose precision."""

from __future__ import annotations

import pytest
import torch
from revalued.learner.passes import Workspace, even_groups, fold, forward

from revalued.actions import FactorisedActions
from revalued.networks import NetworkShape, Parameters, initialise, predict, with_ones

BATCH = 32
SHAPE = NetworkShape(5, 64, FactorisedActions((3, 3)), 2, "utilities")
CPU = torch.device("cpu")


def parameters() -> Parameters:
    made = initialise(SHAPE, torch.Generator().manual_seed(0), CPU)
    generator = torch.Generator().manual_seed(1)
    made["norm.scale"].uniform_(0.5, 2.0, generator=generator)
    made["norm.shift"].uniform_(-1.0, 1.0, generator=generator)
    return made


def outputs(made: Parameters, observations: torch.Tensor, *, merge: bool) -> torch.Tensor:
    work = Workspace.reserve(SHAPE, BATCH, CPU, keep_hidden=False)
    return forward(made, fold(made, merge_input=merge), with_ones(observations), work).output


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("offset", [0.0, 5.0, -30.0])
def test_features_far_from_zero_are_normalised_too(merge: bool, offset: float) -> None:
    """With an offset in every feature the mean is many deviations from 0, and only the deviations may count."""
    made, observations = parameters(), torch.randn(BATCH, 5, generator=torch.Generator().manual_seed(2))
    made["input"][:, -1] += offset
    plain = predict(made, observations, SHAPE, None).flatten(2)
    torch.testing.assert_close(outputs(made, observations, merge=merge), plain, rtol=1e-4, atol=1e-3)


def test_features_that_are_all_equal_give_the_bias() -> None:
    made, observations = parameters(), torch.zeros(BATCH, 5)
    for name in ("input", "block2.weight", "block2.bias"):
        made[name].zero_()
    made["input"][:, -1] = 7.3  # rounding may take the variance below 0
    bias = made["norm.shift"] @ made["head.weight"] + made["head.bias"]
    found = outputs(made, observations, merge=False)
    torch.testing.assert_close(found, bias.expand_as(found), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize(
    ("critics", "threads", "expected"),
    [(1, 2, [(0, 1)]), (2, 2, [(0, 2)]), (3, 2, [(0, 2), (2, 3)]), (10, 4, [(0, 8), (8, 10)]), (3, 8, [(0, 3)])],
)
def test_groups_of_critics(critics: int, threads: int, expected: list[tuple[int, int]]) -> None:
    assert [(group.start, group.stop) for group in even_groups(critics, threads)] == expected
