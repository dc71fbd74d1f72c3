"""Choosing actions in C: the same answers as PyTorch's, and always those of the parameters as they are."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from learner_twin import CPU, FAMILY, FEW_OBSERVATIONS, NEEDS_NATIVE, batch_for, learner_for
from revalued.acting.policy import Policy, TorchCritics
from revalued.actions import FactorisedActions
from revalued.algorithms.presets import preset
from revalued.native import why_missing
from revalued.native.acting import NativeCritics
from revalued.native.choice import native_critics
from revalued.native.merging import merging_saves_reading
from revalued.networks import NetworkShape, initialise, predict


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


SHAPES = {
    "plain": NetworkShape(5, 64, FactorisedActions((3, 3)), 4, "utilities"),
    "padded": NetworkShape(5, 24, FactorisedActions((3, 2, 4)), 3, "utilities"),
    "dueling": NetworkShape(9, 33, FactorisedActions((3, 2)), 2, "dueling"),
    "categorical": NetworkShape(2, 16, FactorisedActions((3, 2)), 2, "categorical", 11),
    "single": NetworkShape(300, 40, FactorisedActions((30,) * 4), 1, "utilities"),
}


@NEEDS_NATIVE
@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("rows", [1, 5, 64, 65, 200])
@pytest.mark.parametrize("name", SHAPES)
def test_outputs_of_the_critics_named(name: str, rows: int, threads: int) -> None:
    torch.set_num_threads(threads)
    shape, rng = SHAPES[name], np.random.default_rng(0)
    parameters = initialise(shape, torch.Generator().manual_seed(0), CPU)
    parameters["norm.shift"].uniform_(-1, 1, generator=torch.Generator().manual_seed(1))
    observations = rng.normal(0, 2, (rows, shape.observation_size)).astype(np.float32)
    critics = rng.integers(shape.critics, size=rows)
    found = NativeCritics(shape, parameters).outputs(observations, critics)
    raw = NetworkShape(shape.observation_size, shape.hidden_size, FactorisedActions((shape.head_size,)), shape.critics, "utilities")  # fmt: skip  # noqa: E501
    expected = predict(parameters, torch.from_numpy(observations), raw, None)[critics, np.arange(rows), 0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", SHAPES)
def test_critics_of_a_name(name: str) -> None:
    shape = SHAPES[name]
    parameters = initialise(shape, torch.Generator().manual_seed(0), CPU)
    assert native_critics("torch", shape, parameters) is None
    assert isinstance(Policy(shape, parameters, None).critics, TorchCritics)
    if why_missing() is None:
        assert isinstance(native_critics("auto", shape, parameters), NativeCritics)


@NEEDS_NATIVE
@pytest.mark.parametrize("name", SHAPES)
def test_pytorchs_critics_and_those_in_c_agree(name: str) -> None:
    shape, rng = SHAPES[name], np.random.default_rng(0)
    parameters = initialise(shape, torch.Generator().manual_seed(0), CPU)
    observations = rng.normal(0, 2, (9, shape.observation_size)).astype(np.float32)
    critics = rng.integers(shape.critics, size=9)
    mine, theirs = NativeCritics(shape, parameters), TorchCritics(shape, parameters)
    assert mine.all_outputs(observations).shape == (shape.critics, 9, shape.head_size)
    np.testing.assert_allclose(mine.all_outputs(observations), theirs.all_outputs(observations), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        mine.outputs(observations, critics), theirs.outputs(observations, critics), rtol=1e-4, atol=1e-5
    )


@NEEDS_NATIVE
@pytest.mark.parametrize("name", SHAPES)
def test_both_engines_choose_the_same_actions(name: str) -> None:
    shape, rng = SHAPES[name], np.random.default_rng(0)
    parameters = initialise(shape, torch.Generator().manual_seed(0), CPU)
    support = torch.linspace(0, 10, shape.atoms) if shape.head == "categorical" else None
    native, plain = (
        Policy(shape, parameters, support, critics) for critics in (NativeCritics(shape, parameters), None)
    )
    observations = rng.normal(0, 1, (500, shape.observation_size)).astype(np.float32)
    critics = rng.integers(shape.critics, size=500)
    masks = rng.random((500, sum(shape.actions.sizes))) < 0.5
    masks[:, np.cumsum([0, *shape.actions.sizes[:-1]])] = True
    torch.testing.assert_close(native.utilities(observations), plain.utilities(observations), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(native.greedy(observations), plain.greedy(observations))
    np.testing.assert_array_equal(native.greedy(observations, masks), plain.greedy(observations, masks))
    for legal in (None, shape.actions.legal(masks)):
        mine, theirs = (policy.greedy_of_critics(observations, critics, legal) for policy in (native, plain))
        np.testing.assert_array_equal(mine, theirs)


@NEEDS_NATIVE
@pytest.mark.parametrize(
    ("observation_size", "batch_size", "who_merges"),
    [(FEW_OBSERVATIONS, 16, "both"), (FEW_OBSERVATIONS, 4, "acting"), (20, 64, "engine"), (40, 16, "nobody")],
)
@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("critics", [1, 3, 4])
def test_a_learners_policy_follows_every_change(
    critics: int, threads: int, observation_size: int, batch_size: int, who_merges: str
) -> None:
    """It acts with products that updates leave behind: they must never be those of other parameters."""
    torch.set_num_threads(threads)
    learner, other = (
        learner_for(
            replace(preset("revalued"), critics=critics),
            engine="native",
            learning_rate=0.05,
            observation_size=observation_size,
            batch_size=batch_size,
            hidden_size=32,
            seed=seed,
        )
        for seed in (0, 1)
    )
    assert (learner._engine._merged is not None) == (who_merges in ("both", "engine"))  # type: ignore[attr-defined]
    assert merging_saves_reading(learner.shape) == (who_merges in ("both", "acting"))
    policy, plain = learner.policy(), Policy(learner.shape, learner.online, learner.support)
    observations = batch_for(learner, 9).observations
    seen: list[Tensor] = []

    def assert_it_follows() -> None:
        found = policy.utilities(observations)
        torch.testing.assert_close(found, plain.utilities(observations), rtol=1e-4, atol=1e-5)
        assert all((found - before).abs().max() > 1e-3 for before in seen)  # else there was nothing to follow
        seen.append(found.clone())

    assert_it_follows()
    for seed in range(2):
        learner.update(batch_for(learner, seed))
        assert_it_follows()
    learner.online["block1.weight"].mul_(-1)
    assert_it_follows()
    learner.load_tensors(other.tensors(), 0)
    assert_it_follows()
    for both in (learner, other):
        both.update(batch_for(learner, 5))
    assert learner.tensors().keys() == other.tensors().keys()
    assert all(torch.equal(tensor, other.tensors()[name]) for name, tensor in learner.tensors().items())
    assert_it_follows()
    assert torch.equal(policy.utilities(observations), other.policy().utilities(observations))


@NEEDS_NATIVE
@pytest.mark.parametrize("hidden_size", [40, 512, 600])
@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize("critics", [1, 2, 3])
def test_a_learners_policy_and_that_of_its_checkpoint_agree_to_the_bit(
    critics: int, threads: int, hidden_size: int
) -> None:
    torch.set_num_threads(threads)
    learner = learner_for(replace(preset("revalued"), critics=critics), engine="native", hidden_size=hidden_size)
    for seed in range(2):
        learner.update(batch_for(learner, seed))
    torch.set_num_threads(1)
    copies = {name: tensor.clone() for name, tensor in learner.online.items()}
    alone = Policy(learner.shape, copies, None, NativeCritics(learner.shape, copies))
    observations = batch_for(learner, 9).observations
    assert torch.equal(learner.policy().utilities(observations), alone.utilities(observations))


@NEEDS_NATIVE
def test_a_policy_made_beside_the_learner_follows_its_updates() -> None:
    learner = learner_for(FAMILY["revalued"], engine="native", hidden_size=40, learning_rate=0.05)
    beside = Policy(learner.shape, learner.online, None, NativeCritics(learner.shape, learner.online))
    observations = batch_for(learner, 9).observations
    before = beside.utilities(observations).clone()
    learner.update(batch_for(learner, 0))
    assert torch.equal(beside.utilities(observations), learner.policy().utilities(observations))
    assert not torch.allclose(beside.utilities(observations), before)


@NEEDS_NATIVE
def test_outputs_follow_the_parameters_and_refuse_critics_that_there_are_not() -> None:
    shape = SHAPES["plain"]
    parameters = initialise(shape, torch.Generator().manual_seed(0), CPU)
    critics = NativeCritics(shape, parameters)
    observations = np.ones((2, 5), np.float32)
    first = np.zeros(2, np.int64)
    before = critics.outputs(observations, first)
    parameters["head.bias"][0] += 1
    np.testing.assert_allclose(critics.outputs(observations, first), before + 1, rtol=1e-5)
    with pytest.raises(IndexError, match="1 critics are asked for that are none of the 4"):
        critics.outputs(observations, np.array([0, 4]))


@NEEDS_NATIVE
def test_a_policy_can_be_asked_by_several_threads() -> None:
    """C works without Python's lock, in memory that belongs to the policy."""
    shape, rng = NetworkShape(5, 256, FactorisedActions((3, 3)), 2, "utilities"), np.random.default_rng(0)
    parameters = initialise(shape, torch.Generator().manual_seed(0), CPU)
    policy = Policy(shape, parameters, None, NativeCritics(shape, parameters))
    batches = [rng.normal(size=(20, 5)).astype(np.float32) for _ in range(40)]
    alone = [policy.utilities(batch) for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(policy.utilities, batches * 5))
    assert all(torch.equal(one, other) for one, other in zip(alone * 5, together, strict=True))
