"""Small learners, batches for them, and a learner of plain critics that does the same one critic at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from naive import NaiveCritic, naive_predict, split_input
from revalued.actions import FactorisedActions
from revalued.algorithms.loss import Predictions, TensorBatch, loss_terms
from revalued.algorithms.presets import PRESETS, preset
from revalued.config import AlgorithmConfig, EngineName, LearnerConfig
from revalued.learner.learner import Learner
from revalued.native import why_missing
from revalued.networks import NetworkShape
from revalued.replay import Batch

CPU = torch.device("cpu")
NEEDS_NATIVE = pytest.mark.skipif(why_missing() is not None, reason=f"no native engine: {why_missing()}")
ENGINES = ["torch", pytest.param("native", marks=NEEDS_NATIVE)]
NO_CLIP = 1e6
SIZES = (3, 2, 4)
# few observations let the first two layers be multiplied beforehand, many do not
FEW_OBSERVATIONS, MANY_OBSERVATIONS = 3, 40


def learner_for(
    algorithm: AlgorithmConfig,
    *,
    observation_size: int = FEW_OBSERVATIONS,
    sizes: tuple[int, ...] = SIZES,
    seed: int = 0,
    batch_size: int = 16,
    gradient_clip: float = NO_CLIP,
    target_update_rate: float | Literal["auto"] = 0.1,
    learning_rate: float = 1e-3,
    hidden_size: int = 12,
    engine: EngineName = "auto",
    **options: Any,
) -> Learner:
    """Return a small learner whose targets and LayerNorms are far enough from where they start to be seen."""
    categorical = algorithm.head == "categorical"
    space = FactorisedActions.atomic(sizes) if algorithm.decomposition == "atomic" else FactorisedActions(sizes)
    atoms = 11 if categorical else 1
    shape = NetworkShape(observation_size, hidden_size, space, algorithm.critics, algorithm.head, atoms)
    config = LearnerConfig(hidden_size, learning_rate, batch_size, gradient_clip, target_update_rate, **options)
    learner = Learner(algorithm, config, shape, (-3.0, 4.0) if categorical else None, seed, CPU, engine=engine)
    generator = torch.Generator().manual_seed(seed + 1)
    state = {name: tensor.clone() for name, tensor in learner.tensors().items()}
    for name, tensor in state.items():
        if name.startswith(("target.", "online.norm")):
            tensor += 0.3 * torch.randn(tensor.shape, generator=generator)
    learner.load_tensors(state, updates=0)
    return learner


def batch_for(learner: Learner, seed: int, discount: float = 0.97) -> Batch:
    rng = np.random.default_rng(seed)
    size, space = learner.config.batch_size, learner.shape.actions
    observations = rng.normal(0, 1, (2, size, learner.shape.observation_size)).astype(np.float32)
    return Batch(
        rows=np.arange(size),
        observations=observations[0],
        actions=space.uniform(rng.random((size, space.num_dimensions))),
        returns=rng.normal(0, 2, size).astype(np.float32),
        discounts=np.where(rng.random(size) < 0.2, 0.0, discount).astype(np.float32),
        next_observations=observations[1],
        weights=rng.uniform(0.2, 1, size).astype(np.float32),
    )


def group(learner: Learner, name: str) -> dict[str, Tensor]:
    """Return a copy of one group of the learner's tensors under the parameters' own names."""
    tensors = learner.tensors()
    found = {key.removeprefix(f"{name}."): tensors[key].clone() for key in tensors if key.startswith(f"{name}.")}
    return split_input(found)


def applied_gradients(learner: Learner, batch: Batch) -> dict[str, Tensor]:
    """Do the learner's first update and return the gradients it took: Adam's first moment is then a tenth of them."""
    assert learner.updates == 0
    learner.update(batch)
    return {name: tensor / 0.1 for name, tensor in group(learner, "adam.first_moment").items()}


class NaiveLearner:
    """One plain critic, its target and `torch.optim.Adam` for each k; gradients by automatic differentiation."""

    def __init__(self, learner: Learner, scale_trunk: bool = True) -> None:
        self.algorithm, self.config, self.shape = learner.algorithm, learner.config, learner.shape
        self.support = None if learner.support is None else learner.support.double()
        self.exists = learner.exists
        online, target = group(learner, "online"), group(learner, "target")
        self.online = [NaiveCritic(self.shape, online, k, scale_trunk) for k in range(self.shape.critics)]
        self.target = [NaiveCritic(self.shape, target, k) for k in range(self.shape.critics)]
        self.optimisers = [self.optimiser(critic) for critic in self.online]

    def optimiser(self, critic: NaiveCritic) -> torch.optim.Optimizer:
        weights = [tensor for tensor in critic.parameters() if tensor.dim() == 2]
        others = [tensor for tensor in critic.parameters() if tensor.dim() != 2]
        groups = [
            {"params": weights, "weight_decay": self.config.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, self.config.learning_rate)

    def tensors(self, batch: Batch) -> TensorBatch:
        observations, next_observations = torch.tensor(batch.observations), torch.tensor(batch.next_observations)
        floats = (batch.returns, batch.discounts, batch.weights)
        returns, discounts, weights = (torch.tensor(array, dtype=torch.float64) for array in floats)
        actions = torch.tensor(batch.actions)
        return TensorBatch(observations, actions, returns, discounts, next_observations, weights)

    def predictions(self, batch: Batch) -> Predictions:
        tensors = self.tensors(batch)
        online = naive_predict(self.online, tensors.observations)
        with torch.no_grad():
            next_of_online = naive_predict(self.online, tensors.next_observations)
            return Predictions(
                online,
                naive_predict(self.target, tensors.next_observations),
                naive_predict(self.target, tensors.observations) if self.algorithm.is_regularised else None,
                next_of_online if self.algorithm.double_q else None,
            )

    def gradients(self, batch: Batch) -> Tensor:
        """Leave gradients in the critics, unclipped; return the priorities."""
        for critic in self.online:
            critic.zero_grad()
        terms = loss_terms(self.algorithm, self.predictions(batch), self.tensors(batch), self.exists, self.support)
        terms.loss.backward()  # type: ignore[no-untyped-call]
        return terms.priorities

    def update(self, batch: Batch) -> Tensor:
        priorities = self.gradients(batch)
        for critic, optimiser in zip(self.online, self.optimisers, strict=True):
            gradients = [tensor.grad for tensor in critic.parameters() if tensor.grad is not None]
            norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
            if norm > self.config.gradient_clip:
                for gradient in gradients:
                    gradient *= self.config.gradient_clip / norm
            optimiser.step()
        rate = self.config.target_update_rate
        assert rate != "auto"
        for target, online in zip(self.target, self.online, strict=True):
            for mine, theirs in zip(target.parameters(), online.parameters(), strict=True):
                mine.data = mine.data + rate * (theirs.data - mine.data)
        return priorities

    def stacked(self, critics: list[NaiveCritic], gradients: bool = False) -> dict[str, Tensor]:
        each = [critic.gradients() if gradients else critic.stacked() for critic in critics]
        return {name: torch.stack([one[name] for one in each]) for name in each[0]}


def assert_close(found: dict[str, Tensor], expected: dict[str, Tensor], rtol: float, atol: float) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        difference = (tensor.double() - expected[name].double()).abs()
        excess = difference - rtol * expected[name].double().abs() - atol
        assert excess.max() <= 0, f"{name} is off by up to {difference.max().item()}"


FAMILY = {
    **{name: replace(PRESETS[name].algorithm, critics=min(PRESETS[name].algorithm.critics, 3)) for name in PRESETS},
    "c51 ensemble": replace(preset("decqn-c51"), critics=2),
    "sum, regularised": replace(preset("decqn-sum"), critics=2, beta=0.5),
    "dueling, mean, regularised": replace(preset("bdq"), decomposition="mean", beta=0.5, double_q=False),
    "revalued, mean of max, double": replace(
        preset("revalued"), critics=4, double_q=True, ensemble_target="mean-of-max"
    ),
}


def same_bits(one: Learner, other: Learner) -> bool:
    mine, theirs = one.tensors(), other.tensors()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)
