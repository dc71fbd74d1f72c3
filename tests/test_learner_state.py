"""The learner's state: numbers that are not finite, saving and loading."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from learner_twin import (
    ENGINES,
    FAMILY,
    batch_for,
    learner_for,
    same_bits,
)
from revalued.config import AlgorithmConfig, EngineName
from revalued.learner.engine import NonFiniteError


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["revalued", "bdq", "decqn-c51"])
@pytest.mark.parametrize(
    ("field", "value"),
    [("returns", np.nan), ("observations", np.nan), ("observations", np.inf), ("next_observations", np.inf)],
)
def test_numbers_that_are_not_finite_stop_learning_before_they_spread(
    name: str, field: str, value: float, engine: EngineName
) -> None:
    learner = learner_for(FAMILY[name], engine=engine)
    before = {name: tensor.clone() for name, tensor in learner.tensors().items()}
    batch = batch_for(learner, seed=0)
    batch.discounts[3] = 0.97
    getattr(batch, field)[3] = value
    with pytest.raises(NonFiniteError, match=r"update 1 .*diverged"):
        learner.update(batch)
    assert all(torch.equal(before[key], tensor) for key, tensor in learner.tensors().items())


@pytest.mark.parametrize("engine", ENGINES)
def test_a_learner_can_go_on_after_a_batch_that_was_refused(engine: EngineName) -> None:
    learner, other = (learner_for(FAMILY["revalued"], engine=engine) for _ in range(2))
    bad = batch_for(learner, seed=0)
    bad.returns[:] = np.nan
    with pytest.raises(NonFiniteError):
        learner.update(bad)
    for each in (learner, other):
        each.update(batch_for(each, seed=1))
    assert same_bits(learner, other)


def test_parameters_that_are_not_finite_are_found() -> None:
    learner = learner_for(FAMILY["revalued"])
    learner.check_finite()
    state = {name: tensor.clone() for name, tensor in learner.tensors().items()}
    state["online.block2.bias"][2, 0, 5] = np.nan
    with pytest.raises(ValueError, match=r"online\.block2\.bias holds numbers that are not finite"):
        learner.load_tensors(state, updates=12)
    learner.online["block2.bias"][2, 0, 5] = np.nan
    learner.updates = 12
    with pytest.raises(NonFiniteError, match=r"block2.bias is not finite after update 12"):
        learner.check_finite()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("algorithm", FAMILY.values(), ids=FAMILY)
def test_state_that_was_saved_and_loaded_continues_bit_for_bit(algorithm: AlgorithmConfig, engine: EngineName) -> None:
    one, other = learner_for(algorithm, engine=engine), learner_for(algorithm, seed=99, engine=engine)
    for seed in range(3):
        one.update(batch_for(one, seed))
    assert not same_bits(one, other)
    saved = {name: tensor.clone() for name, tensor in one.tensors().items()}
    other.load_tensors(saved, updates=3)
    assert same_bits(one, other)
    for seed in range(3, 6):
        batch = batch_for(one, seed)
        (mine, _), (theirs, _) = one.update(batch), other.update(batch)
        assert mine.tolist() == theirs.tolist()
    assert same_bits(one, other)
    assert one.updates == other.updates == 6
    # loading copies: what was saved is not written to afterwards
    assert not torch.equal(saved["online.input"], other.tensors()["online.input"])


def test_state_of_another_shape_is_refused_and_changes_nothing() -> None:
    learner = learner_for(FAMILY["revalued"])
    before = {name: tensor.clone() for name, tensor in learner.tensors().items()}
    other = learner_for(FAMILY["revalued"], seed=5).tensors()
    wider = learner_for(FAMILY["revalued"], sizes=(5, 5)).tensors()
    more_critics = learner_for(replace(FAMILY["revalued"], critics=4)).tensors()
    missing = {name: tensor for name, tensor in other.items() if name != "adam.second_moment.norm.shift"}
    # the last tensor of all does not fit
    late = {**other, "adam.second_moment.norm.shift": torch.zeros(3, 1, 13)}
    for unfit in (wider, more_critics, missing, late):
        with pytest.raises(ValueError, match="does not fit this network"):
            learner.load_tensors(unfit, updates=7)
        assert all(torch.equal(before[name], tensor) for name, tensor in learner.tensors().items())
        assert learner.updates == 0
