"""The forward pass in C against the plain one, where its algebra could lose precision."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from learner_twin import FEW_OBSERVATIONS, MANY_OBSERVATIONS, NEEDS_NATIVE, batch_for, learner_for
from revalued.algorithms.presets import preset
from revalued.learner.learner import Learner
from revalued.networks import predict

BATCH = 32
pytestmark = NEEDS_NATIVE


def native_learner(observation_size: int) -> Learner:
    """Return a learner that leaves the online critics' outputs behind, because its loss is not written in C."""
    algorithm = replace(preset("decqn"), decomposition="branch", critics=2)
    learner = learner_for(
        algorithm, observation_size=observation_size, sizes=(3, 3), batch_size=BATCH, hidden_size=64, engine="native"
    )
    generator = torch.Generator().manual_seed(1)
    learner.online["norm.scale"].uniform_(0.5, 2.0, generator=generator)
    learner.online["norm.shift"].uniform_(-1.0, 1.0, generator=generator)
    return learner


def outputs(learner: Learner) -> tuple[Tensor, Tensor]:
    """Return the outputs of an update's forward pass, and the same by `predict`."""
    batch = batch_for(learner, seed=2)
    plain = predict(learner.online, torch.tensor(batch.observations), learner.shape, None).flatten(2)
    learner.update(batch)
    return learner._engine._output, plain  # type: ignore[attr-defined]


# few observations: the first two layers are multiplied beforehand
@pytest.mark.parametrize("observation_size", [FEW_OBSERVATIONS, MANY_OBSERVATIONS])
@pytest.mark.parametrize("offset", [0.0, 5.0, -30.0])
def test_features_far_from_zero_are_normalised_too(observation_size: int, offset: float) -> None:
    """With an offset in every feature the mean is many deviations from 0, and only the deviations may count."""
    learner = native_learner(observation_size)
    assert (learner._engine._merged is not None) == (observation_size == FEW_OBSERVATIONS)  # type: ignore[attr-defined]
    learner.online["input"][:, -1] += offset
    found, plain = outputs(learner)
    torch.testing.assert_close(found, plain, rtol=1e-4, atol=1e-3)


def test_features_that_are_all_equal_give_the_bias() -> None:
    learner = native_learner(FEW_OBSERVATIONS)
    made = learner.online
    for name in ("input", "block2.weight", "block2.bias"):
        made[name].zero_()
    made["input"][:, -1] = 7.3  # rounding may take the variance below 0
    bias = made["norm.shift"] @ made["head.weight"] + made["head.bias"]
    found, _ = outputs(learner)
    torch.testing.assert_close(found, bias.expand_as(found), rtol=1e-3, atol=1e-2)
