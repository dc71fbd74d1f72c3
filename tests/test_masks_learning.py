"""Action masks in the replay and in the targets."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from revalued.actions import FactorisedActions
from revalued.algorithms.loss import Predictions, TensorBatch, categorical_target, loss_terms, utility_target
from revalued.algorithms.presets import preset
from revalued.replay import Replay
from test_masks import SIZES, random_masks


def fingerprint_mask(observation: NDArray[np.float32], size: int) -> NDArray[np.bool_]:
    """Return a mask that only belongs to this observation."""
    return np.random.default_rng(int(observation[0])).random(size) < 0.5


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("mask_size", [1, 8, 13])
def test_the_replay_keeps_each_mask_with_its_observation(n_step: int, mask_size: int) -> None:
    """Episodes of unequal length that end in either way, around the ring several times."""
    rng = np.random.default_rng(0)
    settings: dict[str, Any] = {"num_dimensions": 1, "n_step": n_step, "discount": 0.9, "max_choices": 4}
    replay = Replay(capacity=60, num_lanes=3, observation_size=1, mask_size=mask_size, **settings)
    count = itertools.count()

    def observe() -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        observations = np.array([[next(count)] for _ in range(3)], np.float32)
        return observations, np.stack([fingerprint_mask(observation, mask_size) for observation in observations])

    observations, masks = observe()
    replay.begin(observations, masks=masks)
    checked = 0
    for step in range(100):
        (following, next_masks), (reset, reset_masks) = observe(), observe()
        terminated, truncated = rng.random(3) < 0.15, rng.random(3) < 0.15
        next_masks[terminated] = False  # what a terminal state allows is nobody's business
        replay.append(
            np.zeros((3, 1)), np.zeros(3), terminated, truncated, following, reset,
            next_masks=next_masks, reset_masks=reset_masks,
        )  # fmt: skip
        if len(replay) == 0:
            continue
        batch = replay.sample(16, rng)
        assert batch.next_masks is not None
        assert batch.next_masks.dtype == np.bool_
        for observation, mask, discount in zip(batch.next_observations, batch.next_masks, batch.discounts, strict=True):
            if discount > 0:
                assert mask.tolist() == fingerprint_mask(observation, mask_size).tolist(), step
                checked += 1
    assert checked > 500


def test_masks_survive_a_stored_state() -> None:
    settings: dict[str, Any] = {"capacity": 40, "num_lanes": 1, "observation_size": 1, "num_dimensions": 1}
    settings |= {"n_step": 1, "discount": 0.9, "max_choices": 4}
    replay, restored = (Replay(mask_size=11, **settings) for _ in range(2))
    replay.begin(np.zeros((1, 1)), masks=np.ones((1, 11), bool))
    for step in range(9):
        masks = np.random.default_rng(step).random((1, 11)) < 0.5
        append = ([[0]], [0.0], [False], [False], [[step]], [[0]])
        replay.append(*append, next_masks=masks, reset_masks=masks)
    restored.load_state(replay.state())
    one, other = (which.sample(20, np.random.default_rng(0)) for which in (replay, restored))
    assert one.next_masks is not None
    assert other.next_masks is not None
    assert one.next_masks.tobytes() == other.next_masks.tobytes()
    with pytest.raises(ValueError, match="saved with mask_size 11, this replay has 12"):
        Replay(mask_size=12, **settings).load_state(replay.state())


def test_masks_are_there_exactly_when_they_should_be() -> None:
    settings: dict[str, Any] = {"capacity": 40, "num_lanes": 1, "observation_size": 1, "num_dimensions": 1}
    settings |= {"n_step": 1, "discount": 0.9, "max_choices": 4}
    with pytest.raises(ValueError, match=r"masks must have shape \(1, 5\), got None"):
        Replay(mask_size=5, **settings).begin(np.zeros((1, 1)))
    with pytest.raises(ValueError, match=r"masks must have shape \(1, 5\), got \(1, 4\)"):
        Replay(mask_size=5, **settings).begin(np.zeros((1, 1)), masks=np.ones((1, 4), bool))
    with pytest.raises(ValueError, match=r"masks must have shape \(1, 0\), got \(1, 4\)"):
        Replay(**settings).begin(np.zeros((1, 1)), masks=np.ones((1, 4), bool))


def random_batch(space: FactorisedActions, masks: NDArray[np.bool_], seed: int) -> TensorBatch:
    rng = np.random.default_rng(seed)
    size = len(masks)
    actions = torch.from_numpy(np.stack([rng.integers(n, size=size) for n in space.sizes], axis=1))
    returns, discounts = (torch.from_numpy(rng.random(size)).float() for _ in range(2))
    nothing = torch.zeros(size, 1)
    legal = torch.from_numpy(space.legal(masks))
    return TensorBatch(nothing, actions, returns, discounts, nothing, torch.ones(size), legal)


@pytest.mark.parametrize("double_q", [False, True])
@pytest.mark.parametrize("ensemble_target", ["max-of-mean", "mean-of-max"])
@pytest.mark.parametrize("decomposition", ["mean", "sum", "branch", "atomic"])
def test_targets_maximise_over_legal_sub_actions_only(double_q: bool, ensemble_target: Any, decomposition: Any) -> None:
    algorithm = replace(
        preset("revalued"), double_q=double_q, ensemble_target=ensemble_target, decomposition=decomposition
    )
    space = FactorisedActions.atomic(SIZES) if decomposition == "atomic" else FactorisedActions(SIZES)
    masks = random_masks(20, seed=5)
    batch = random_batch(space, masks, seed=6)
    rng = np.random.default_rng(7)
    shape = (2, 20, space.num_dimensions, space.max_choices)
    target, online = (rng.standard_normal(shape) for _ in range(2))
    # whatever is illegal would win, if anybody looked at it
    legal = space.legal(masks)
    target[:, ~legal], online[:, ~legal] = 100.0, 100.0
    predictions = Predictions(
        torch.zeros(shape),
        torch.from_numpy(target).float(),
        None,
        torch.from_numpy(online).float() if double_q else None,
    )
    exists = torch.from_numpy(space.exists)
    y = utility_target(algorithm, predictions, batch, batch.next_legal)
    for row in range(20):
        values = []
        for dimension in range(space.num_dimensions):
            allowed = np.flatnonzero(legal[row, dimension])
            chooser = online if double_q else target
            own = target[:, row, dimension][:, allowed]  # [K, legal]
            choosing = chooser[:, row, dimension][:, allowed]
            if ensemble_target == "max-of-mean":
                values.append(own.mean(axis=0)[choosing.mean(axis=0).argmax()])
            else:
                values.append(own[np.arange(2), choosing.argmax(axis=1)].mean())
        combined = np.sum(values) if decomposition == "sum" else np.mean(values)
        assert float(y[row]) == pytest.approx(float(batch.returns[row] + batch.discounts[row] * combined), abs=1e-5)
    leaf = torch.zeros(shape, requires_grad=True)
    predictions = replace(predictions, online=leaf, target=predictions.target_next)
    terms = loss_terms(algorithm, predictions, batch, exists, None)
    assert torch.isfinite(torch.autograd.grad(terms.loss, leaf)[0]).all()
    assert float(terms.metrics["mean_target"]) == pytest.approx(float(y.mean()), abs=1e-5)


@pytest.mark.parametrize("double_q", [False, True])
@pytest.mark.parametrize("ensemble_target", ["max-of-mean", "mean-of-max"])
def test_categorical_targets_use_legal_sub_actions_only(double_q: bool, ensemble_target: Any) -> None:
    """Illegal choices are changed beyond recognition, and the target does not notice."""
    algorithm = replace(preset("decqn-c51"), critics=2, double_q=double_q, ensemble_target=ensemble_target)
    space = FactorisedActions(SIZES)
    masks = random_masks(20, seed=8)
    batch = random_batch(space, masks, seed=9)
    support = torch.linspace(0, 10, 11)
    generator = torch.Generator().manual_seed(0)
    target, online = (torch.randn(2, 20, 3, 5, 11, generator=generator) for _ in range(2))
    illegal = torch.from_numpy(~space.legal(masks))

    def projected() -> torch.Tensor:
        predictions = Predictions(torch.zeros(2, 20, 3, 5, 11), target, None, online if double_q else None)
        return categorical_target(algorithm, predictions, batch, batch.next_legal, support)

    before = projected()
    best = torch.zeros(11)
    best[-1] = 50.0
    target[:, illegal], online[:, illegal] = best, best
    assert torch.equal(projected(), before)
    unmasked = categorical_target(
        algorithm, Predictions(target, target, None, online if double_q else None), batch, None, support
    )
    assert not torch.allclose(unmasked, before)
