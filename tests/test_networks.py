"""Stacked critics against one critic at a time in plain PyTorch, and how they are initialised."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from naive import NaiveCritic, naive_predict, split_input
from revalued.actions import FactorisedActions
from revalued.config import Head
from revalued.networks import NetworkShape, Parameters, initialise, predict

CPU = torch.device("cpu")
HEADS: list[Head] = ["utilities", "dueling", "categorical"]


def shape_of(head: Head, sizes: tuple[int, ...] = (3, 3), critics: int = 3, hidden: int = 16) -> NetworkShape:
    return NetworkShape(5, hidden, FactorisedActions(sizes), critics, head, atoms=4 if head == "categorical" else 1)


def drawn(shape: NetworkShape, seed: int = 0) -> Parameters:
    return initialise(shape, torch.Generator().manual_seed(seed), CPU)


def existing(shape: NetworkShape) -> Tensor | None:
    return torch.from_numpy(shape.actions.exists) if shape.actions.is_padded else None


def with_norm(parameters: Parameters) -> Parameters:
    """Give LayerNorm a scale and a shift that can be seen."""
    generator = torch.Generator().manual_seed(9)
    parameters["norm.scale"].uniform_(0.5, 2, generator=generator)
    parameters["norm.shift"].uniform_(-1, 1, generator=generator)
    return parameters


@pytest.mark.parametrize("sizes", [(3, 3), (4, 1, 2)])
@pytest.mark.parametrize("head", HEADS)
def test_predictions_agree_with_one_plain_critic_at_a_time(head: Head, sizes: tuple[int, ...]) -> None:
    shape = shape_of(head, sizes)
    parameters = with_norm(drawn(shape))
    observations = 3 * torch.randn(7, 5, generator=torch.Generator().manual_seed(1))
    predicted = predict(parameters, observations, shape, existing(shape))
    expected = naive_predict([NaiveCritic(shape, split_input(parameters), k) for k in range(3)], observations)
    assert predicted.shape == (3, 7, len(sizes), max(sizes), *((4,) if head == "categorical" else ()))
    torch.testing.assert_close(predicted.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("head", HEADS)
def test_a_critic_depends_on_its_own_parameters_only(head: Head) -> None:
    shape = shape_of(head)
    parameters = drawn(shape)
    observations = torch.randn(7, 5, generator=torch.Generator().manual_seed(1))
    before = predict(parameters, observations, shape, None)
    for tensor in parameters.values():
        tensor[1] += 0.1
    after = predict(parameters, observations, shape, None)
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert after[1].ne(before[1]).any()


@pytest.mark.parametrize("head", HEADS)
def test_padded_outputs_do_not_reach_real_choices(head: Head) -> None:
    shape = shape_of(head, (4, 1, 2))
    parameters = drawn(shape)
    observations = torch.randn(7, 5, generator=torch.Generator().manual_seed(1))
    exists = torch.from_numpy(shape.actions.exists)
    before = predict(parameters, observations, shape, exists)
    # the head's columns: a value first if it is dueling, then [N, A] or [N, A, Z]
    padding = (~exists).reshape(-1).repeat_interleave(shape.atoms)
    padding = torch.cat([torch.zeros(shape.head_size - len(padding), dtype=torch.bool), padding])
    parameters["head.weight"][..., padding] = 1e6
    parameters["head.bias"][..., padding] = -1e6
    after = predict(parameters, observations, shape, exists)
    torch.testing.assert_close(after[:, :, exists], before[:, :, exists], rtol=1e-5, atol=1e-5)
    assert after[:, :, ~exists].abs().min() > 1e4


@pytest.mark.parametrize("head", HEADS)
def test_initial_values_are_uniform_within_one_over_root_fan_in(head: Head) -> None:
    shape = shape_of(head, hidden=64)
    parameters = drawn(shape)
    fan_in = {"input": 5, "block1": 64, "block2": 64, "head": 64}
    outputs = {"utilities": 6, "dueling": 7, "categorical": 24}[head]
    fan_out = {"input": 64, "block1": 64, "block2": 64, "head": outputs}
    parameters = split_input(parameters)
    for layer, inputs in fan_in.items():
        bound = 1 / math.sqrt(inputs)
        weight, bias = parameters[f"{layer}.weight"], parameters[f"{layer}.bias"]
        assert weight.shape == (3, inputs, fan_out[layer])
        assert bias.shape == (3, 1, fan_out[layer])
        for values in (weight, bias):
            assert values.abs().max() <= bound
            assert values.max() > 0.7 * bound
            assert values.min() < -0.7 * bound
        # a uniform variable's standard deviation is bound/√3; 960 values or more are good for 5%
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
    assert parameters["norm.scale"].eq(1).all()
    assert parameters["norm.shift"].eq(0).all()
    assert len(parameters) == 10


def test_critics_start_different_from_each_other() -> None:
    parameters = drawn(shape_of("utilities"))
    for name, tensor in parameters.items():
        if not name.startswith("norm"):
            for one, other in ((0, 1), (0, 2), (1, 2)):
                assert tensor[one].ne(tensor[other]).float().mean() > 0.99


def test_the_same_seed_gives_the_same_bits() -> None:
    shape = shape_of("dueling")
    first, second, other = drawn(shape, 5), drawn(shape, 5), drawn(shape, 6)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])
