"""Slow, obvious twins: the equations one number at a time, the network one critic at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from revalued.actions import FactorisedActions
from revalued.algorithms.loss import Predictions, TensorBatch
from revalued.config import AlgorithmConfig
from revalued.networks import NetworkShape

Floats = NDArray[np.float64]
LAYERS = ("input", "block1", "block2", "head")


@dataclass
class Numbers:
    """Everything a loss depends on; utilities [K, B, N, A], or logits with Z behind."""

    online: Floats
    target_next: Floats
    target: Floats
    online_next: Floats
    actions: NDArray[np.int64]
    returns: Floats
    discounts: Floats
    weights: Floats
    sizes: tuple[int, ...]
    support: Floats | None = None

    def predictions(self, algorithm: AlgorithmConfig) -> Predictions:
        """Return what the algorithm asks of its networks; the online predictions can be differentiated."""
        return Predictions(
            torch.tensor(self.online, requires_grad=True),
            torch.tensor(self.target_next),
            torch.tensor(self.target) if algorithm.is_regularised else None,
            torch.tensor(self.online_next) if algorithm.double_q else None,
        )

    def batch(self) -> TensorBatch:
        nothing = torch.empty(len(self.returns), 0)
        numbers = (self.actions, self.returns, self.discounts)
        actions, returns, discounts = (torch.tensor(array) for array in numbers)
        return TensorBatch(nothing, actions, returns, discounts, nothing, torch.tensor(self.weights))

    def exists(self) -> Tensor | None:
        space = FactorisedActions(self.sizes)
        return torch.from_numpy(space.exists) if space.is_padded else None


def random_numbers(
    critics: int, batch: int, sizes: tuple[int, ...], support: Floats | None, seed: int, padding: float = 0.0
) -> Numbers:
    """Return random inputs of every kind: errors inside and outside Huber's ±1, a termination, unequal weights."""
    rng = np.random.default_rng(seed)
    space = FactorisedActions(sizes)
    grid = (critics, batch, space.num_dimensions, space.max_choices)

    def utilities() -> Floats:
        if support is None:
            return np.where(space.exists, rng.normal(0, 1.5, grid), padding)
        return np.where(space.exists[..., None], rng.normal(0, 1.5, (*grid, len(support))), padding)

    predictions = (utilities(), utilities(), utilities(), utilities())
    actions = space.uniform(rng.random((batch, space.num_dimensions)))
    returns, weights = rng.normal(0, 1, batch), rng.uniform(0.2, 1, batch)
    discounts = np.where(np.arange(batch) == 1, 0.0, 0.97)
    return Numbers(*predictions, actions, returns, discounts, weights, sizes, support)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def argmax(values: Sequence[float]) -> int:
    return max(range(len(values)), key=lambda a: values[a])


def huber(error: float) -> float:
    return error * error / 2 if abs(error) <= 1 else abs(error) - 0.5


def softmax(logits: Sequence[float]) -> list[float]:
    largest = max(logits)
    powers = [math.exp(logit - largest) for logit in logits]
    return [power / sum(powers) for power in powers]


def expectation(probabilities: Sequence[float], support: Sequence[float]) -> float:
    return sum(p * z for p, z in zip(probabilities, support, strict=True))


def bootstrap(
    algorithm: AlgorithmConfig,
    numbers: Numbers,
    choosing: Callable[[Floats], float],
) -> list[list[list[int]]]:
    """Return the sub-action [B][N][K] whose value each target critic contributes in the next state.

    `choosing` turns the predictions for one choice into the number that is maximised.
    """
    chooser = numbers.online_next if algorithm.double_q else numbers.target_next
    critics = range(chooser.shape[0])
    choices: list[list[list[int]]] = []
    for b in range(chooser.shape[1]):
        choices.append([])
        for i, size in enumerate(numbers.sizes):
            values = [[choosing(chooser[k, b, i, a]) for a in range(size)] for k in critics]
            if algorithm.ensemble_target == "max-of-mean":
                of_mean = argmax([mean([values[k][a] for k in critics]) for a in range(size)])
                choices[b].append([of_mean for _ in critics])
            else:
                choices[b].append([argmax(values[k]) for k in critics])
    return choices


def naive_target(algorithm: AlgorithmConfig, numbers: Numbers) -> list[float]:
    """Return y for every transition."""
    choices = bootstrap(algorithm, numbers, float)
    critics, dimensions = range(numbers.online.shape[0]), range(len(numbers.sizes))
    y = []
    for b in range(len(numbers.returns)):
        values = [mean([float(numbers.target_next[k, b, i, choices[b][i][k]]) for k in critics]) for i in dimensions]
        value = sum(values) if algorithm.decomposition == "sum" else mean(values)
        y.append(float(numbers.returns[b]) + float(numbers.discounts[b]) * value)
    return y


def naive_weight(algorithm: AlgorithmConfig, delta: float) -> float:
    scaled = abs(delta) / algorithm.regulariser_temperature
    return 1 - math.exp(-scaled) if algorithm.regulariser_weight == "exponential" else min(scaled * scaled, 1.0)


def naive_loss(
    algorithm: AlgorithmConfig, numbers: Numbers, weighing: Floats | None = None
) -> tuple[float, list[float]]:
    """Return the loss and the priorities.

    `weighing` stands in for the online utilities in the regulariser's weights, so that a finite difference of the
    loss holds the weights still.
    """
    if numbers.support is not None:
        return _naive_categorical_loss(algorithm, numbers)
    weighing = numbers.online if weighing is None else weighing
    critics, dimensions, y = range(len(numbers.online)), range(len(numbers.sizes)), naive_target(algorithm, numbers)
    loss, priorities = 0.0, []
    for b, target in enumerate(y):
        sizes_of_errors = []
        for k in critics:
            at = [(k, b, i, int(numbers.actions[b, i])) for i in dimensions]
            utilities = [float(numbers.online[index]) for index in at]
            if algorithm.decomposition == "branch":
                errors = [target - utility for utility in utilities]
            elif algorithm.decomposition == "sum":
                errors = [target - sum(utilities)]
            else:
                errors = [target - mean(utilities)]
            term = mean([huber(error) for error in errors])
            sizes_of_errors.append(mean([abs(error) for error in errors]))
            pulls = [
                naive_weight(algorithm, target - float(weighing[index]))
                * huber(float(numbers.target[index]) - float(numbers.online[index]))
                for index in at
            ]
            term += algorithm.beta * (sum(pulls) if algorithm.regulariser_reduction == "sum" else mean(pulls))
            loss += float(numbers.weights[b]) * term / len(y)
        priorities.append(mean(sizes_of_errors))
    return loss, priorities


def naive_projection(
    probabilities: Sequence[float], reward: float, discount: float, support: Sequence[float]
) -> list[float]:
    """Give each atom the share 1 − distance/spacing, if positive, of the mass of every moved atom."""
    low, high = support[0], support[-1]
    spacing = (high - low) / (len(support) - 1)
    moved = [min(max(reward + discount * z, low), high) for z in support]
    shares = [[max(0.0, 1 - abs(place - z) / spacing) for place in moved] for z in support]
    return [sum(p * share for p, share in zip(probabilities, row, strict=True)) for row in shares]


def naive_categorical_target(algorithm: AlgorithmConfig, numbers: Numbers) -> list[list[float]]:
    """Return the projected mixture of the K target critics' distributions, for every transition."""
    assert numbers.support is not None
    support: list[float] = numbers.support.tolist()
    choices = bootstrap(algorithm, numbers, lambda logits: expectation(softmax(logits.tolist()), support))
    targets = []
    for b in range(len(numbers.returns)):
        mixture = [0.0] * len(support)
        for k in range(len(numbers.online)):
            chosen = [numbers.target_next[k, b, i, choice[k]] for i, choice in enumerate(choices[b])]
            probabilities = softmax([mean([float(logits[z]) for logits in chosen]) for z in range(len(support))])
            mixture = [m + p / len(numbers.online) for m, p in zip(mixture, probabilities, strict=True)]
        targets.append(naive_projection(mixture, float(numbers.returns[b]), float(numbers.discounts[b]), support))
    return targets


def _naive_categorical_loss(algorithm: AlgorithmConfig, numbers: Numbers) -> tuple[float, list[float]]:
    assert numbers.support is not None
    support: list[float] = numbers.support.tolist()
    loss, priorities = 0.0, []
    for b, target in enumerate(naive_categorical_target(algorithm, numbers)):
        y = expectation(target, support)
        sizes_of_errors = []
        for k in range(len(numbers.online)):
            chosen = [numbers.online[k, b, i, a] for i, a in enumerate(numbers.actions[b].tolist())]
            probabilities = softmax([mean([float(logits[z]) for logits in chosen]) for z in range(len(support))])
            entropy = -sum(p * math.log(q) for p, q in zip(target, probabilities, strict=True))
            loss += float(numbers.weights[b]) * entropy / len(numbers.returns)
            sizes_of_errors.append(abs(y - expectation(probabilities, support)))
        priorities.append(mean(sizes_of_errors))
    return loss, priorities


class NaiveCritic(nn.Module):
    """One critic of plain PyTorch layers in double precision, with the weights of critic k of a stack."""

    def __init__(self, shape: NetworkShape, parameters: Mapping[str, Tensor], k: int, scale_trunk: bool = True) -> None:
        super().__init__()
        self.shape, self.scale_trunk = shape, scale_trunk
        for name in LAYERS:
            weight = parameters[f"{name}.weight"][k].detach()
            layer = nn.Linear(weight.shape[0], weight.shape[1], dtype=torch.float64)
            layer.weight.data = weight.T.double().clone()
            layer.bias.data = parameters[f"{name}.bias"][k, 0].detach().double().clone()
            self.add_module(name, layer)
        self.norm = nn.LayerNorm(shape.hidden_size, dtype=torch.float64)
        self.norm.weight.data = parameters["norm.scale"][k, 0].detach().double().clone()
        self.norm.bias.data = parameters["norm.shift"][k, 0].detach().double().clone()

    def layer(self, name: str) -> nn.Linear:
        layer = self.get_submodule(name)
        assert isinstance(layer, nn.Linear)
        return layer

    def stacked(self) -> dict[str, Tensor]:
        """Return this critic's parameters under the stack's names and in the stack's shapes, without K.

        They are views, so that writing to them changes the critic; `gradients` are laid out the same way.
        """
        views = {}
        for name in LAYERS:
            layer = self.layer(name)
            views[f"{name}.weight"], views[f"{name}.bias"] = layer.weight.data.T, layer.bias.data[None]
        return {**views, "norm.scale": self.norm.weight.data[None], "norm.shift": self.norm.bias.data[None]}

    def gradients(self) -> dict[str, Tensor]:
        found: dict[str, Tensor | None] = {}
        for name in LAYERS:
            layer = self.layer(name)
            found[f"{name}.weight"] = None if layer.weight.grad is None else layer.weight.grad.T
            found[f"{name}.bias"] = None if layer.bias.grad is None else layer.bias.grad[None]
        found["norm.scale"] = None if self.norm.weight.grad is None else self.norm.weight.grad[None]
        found["norm.shift"] = None if self.norm.bias.grad is None else self.norm.bias.grad[None]
        return {name: gradient for name, gradient in found.items() if gradient is not None}

    def features(self, observations: Tensor) -> Tensor:
        hidden = self.layer("input")(observations.double())
        block = torch.relu(self.layer("block2")(torch.relu(self.layer("block1")(hidden))))
        features: Tensor = self.norm(hidden + block)
        return features

    def forward(self, observations: Tensor) -> Tensor:
        """Return utilities [B, N, A], or logits [B, N, A, Z]."""
        features = self.features(observations)
        space, rows = self.shape.actions, len(observations)
        grid = (rows, space.num_dimensions, space.max_choices)
        if self.shape.head != "dueling":
            output: Tensor = self.layer("head")(features)
            return output.reshape(*grid, self.shape.atoms) if self.shape.head == "categorical" else output.reshape(grid)
        if self.scale_trunk and features.requires_grad:
            scale = 1 / (space.num_dimensions + 1)
            features.register_hook(lambda gradient: gradient * scale)  # type: ignore[no-untyped-call]
        output = self.layer("head")(features)
        value, advantages = output[:, :1], output[:, 1:].reshape(grid)
        branches = [
            value + advantages[:, i] - advantages[:, i, :size].mean(dim=1, keepdim=True)
            for i, size in enumerate(space.sizes)
        ]
        return torch.stack(branches, dim=1)


def split_input(parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return stacked parameters with the input layer's last row, its bias, under a name of its own."""
    found = dict(parameters)
    joint = found.pop("input")
    return {"input.weight": joint[:, :-1], "input.bias": joint[:, -1:], **found}


def naive_predict(critics: Sequence[NaiveCritic], observations: Tensor) -> Tensor:
    """Return the predictions of all critics, [K, B, N, A] or with Z behind."""
    return torch.stack([critic(observations) for critic in critics])
