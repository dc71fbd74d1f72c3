"""K critics side by side: their parameters stacked on a leading axis, and what their outputs mean.

Every critic is Linear(D → H), a residual block h + relu(W2 relu(W1 h)), LayerNorm, and one linear layer to everything
its head predicts. A `prenorm` torso has one to three blocks h + W2 relu(W1 LayerNorm(h)) instead, as in SimBa (Lee et
al. 2024), though of constant width. `predict` says it, and automatic differentiation of it is what learning is; C
computes the same of the plain one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from revalued.actions import FactorisedActions
from revalued.config import Head, Torso
from revalued.ops.utilities import aggregate_dueling

LAYER_NORM_EPSILON = 1e-5
_PRENORM = {"norm": ("scale", "shift"), "first": ("weight", "bias"), "second": ("weight", "bias")}
"""The layers of a block of a `prenorm` torso; their names end with the number of the block."""


@dataclass(frozen=True)
class NetworkShape:
    """All sizes of a stack of critics."""

    observation_size: int
    hidden_size: int
    actions: FactorisedActions
    critics: int
    head: Head
    atoms: int = 1
    torso: Torso = "plain"
    blocks: int = 1

    @property
    def head_size(self) -> int:
        """Return the width of the last layer: N·A utilities, one more for dueling, Z atoms each for categorical."""
        choices = self.actions.num_dimensions * self.actions.max_choices
        if self.head == "dueling":
            return choices + 1
        return choices * self.atoms if self.head == "categorical" else choices

    @property
    def trunk_gradient_scale(self) -> float:
        """Return the factor on gradients into the trunk: BDQ's N branches and value all send theirs."""
        return 1 / (self.actions.num_dimensions + 1) if self.head == "dueling" else 1.0

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return rows and columns of every parameter of one critic."""
        hidden = self.hidden_size
        plain = {
            "block1.weight": (hidden, hidden),
            "block1.bias": (1, hidden),
            "block2.weight": (hidden, hidden),
            "block2.bias": (1, hidden),
        }
        prenorm = {
            f"{layer}{block}.{name}": (hidden if name == "weight" else 1, hidden)
            for block in range(1, self.blocks + 1)
            for layer, names in _PRENORM.items()
            for name in names
        }
        return {
            # the last row is the bias: observations come with a one behind them
            "input": (self.observation_size + 1, hidden),
            **(plain if self.torso == "plain" else prenorm),
            "norm.scale": (1, hidden),
            "norm.shift": (1, hidden),
            "head.weight": (hidden, self.head_size),
            "head.bias": (1, self.head_size),
        }


Parameters = dict[str, Tensor]
"""The parameters of K critics by name, each a stack of K matrices: [K, rows, columns]."""


def zeros(shape: NetworkShape, device: torch.device) -> Parameters:
    """Return parameters that are all zero."""
    return {name: torch.zeros(shape.critics, *size, device=device) for name, size in shape.sizes().items()}


def initialise(shape: NetworkShape, generator: torch.Generator, device: torch.device) -> Parameters:
    """Draw every weight and bias from Uniform(±1/√fan_in), independently for each critic."""
    parameters = zeros(shape, torch.device("cpu"))
    for name, tensor in parameters.items():
        layer = name.split(".")[0]
        if name.endswith(".scale"):
            tensor.fill_(1.0)
        elif not layer.startswith("norm"):
            bound = 1 / math.sqrt(shape.observation_size if layer == "input" else shape.hidden_size)
            tensor.uniform_(-bound, bound, generator=generator)
    return {name: tensor.to(device) for name, tensor in parameters.items()}


def decayed_weights(parameters: Parameters) -> list[Tensor]:
    """Return the parameters that inputs are multiplied by, without biases and norms: views, not copies."""
    without_bias = parameters["input"][:, :-1]
    return [without_bias, *(tensor for name, tensor in parameters.items() if name.endswith(".weight"))]


def interpret(output: Tensor, shape: NetworkShape, exists: Tensor | None) -> Tensor:
    """Return utilities [K, B, N, A] from raw head outputs [K, B, O]; logits [K, B, N, A, Z] with a categorical head."""
    grid = (*output.shape[:2], shape.actions.num_dimensions, shape.actions.max_choices)
    if shape.head == "dueling":
        return aggregate_dueling(output[..., 0], output[..., 1:].reshape(grid), exists)
    return output.view(*grid, shape.atoms) if shape.head == "categorical" else output.view(grid)


def predict(parameters: Parameters, observations: Tensor, shape: NetworkShape, exists: Tensor | None) -> Tensor:
    """Return utilities [K, B, N, A] (or logits) of observations [B, D]."""
    inputs = torch.nn.functional.pad(observations, (0, 1), value=1.0)  # the ones carry the input layer's bias
    hidden = torch.bmm(inputs.expand(shape.critics, -1, -1), parameters["input"])
    if shape.torso == "plain":
        block = _linear(parameters, "block1", hidden).relu_()
        hidden = hidden + _linear(parameters, "block2", block).relu_()
    else:
        for number in range(1, shape.blocks + 1):
            block = _linear(parameters, f"first{number}", _norm(parameters, f"norm{number}", hidden)).relu_()
            hidden = hidden + _linear(parameters, f"second{number}", block)
    features = _norm(parameters, "norm", hidden)
    if features.requires_grad and shape.trunk_gradient_scale != 1:
        # between two equal ends lies nothing new, but only one of them passes its share of the gradient on
        features = torch.lerp(features.detach(), features, shape.trunk_gradient_scale)
    return interpret(_linear(parameters, "head", features), shape, exists)


def _linear(parameters: Parameters, layer: str, inputs: Tensor) -> Tensor:
    return torch.baddbmm(parameters[f"{layer}.bias"], inputs, parameters[f"{layer}.weight"])


def _norm(parameters: Parameters, layer: str, inputs: Tensor) -> Tensor:
    normal = torch.nn.functional.layer_norm(inputs, inputs.shape[-1:], eps=LAYER_NORM_EPSILON)
    return torch.addcmul(parameters[f"{layer}.shift"], normal, parameters[f"{layer}.scale"])
