"""K critics computed at once: every parameter is stacked on a leading axis, and each critic has its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from revalued.actions import FactorisedActions
from revalued.config import Head
from revalued.ops.utilities import aggregate_dueling

Parameters = dict[str, Tensor]


@dataclass(frozen=True)
class NetworkShape:
    """All sizes of a stack of critics."""

    observation_size: int
    hidden_size: int
    actions: FactorisedActions
    critics: int
    head: Head
    atoms: int = 1

    @property
    def head_size(self) -> int:
        """Return the width of the last layer: N·A utilities, one more for dueling, Z atoms each for categorical."""
        choices = self.actions.num_dimensions * self.actions.max_choices
        if self.head == "dueling":
            return choices + 1
        return choices * self.atoms if self.head == "categorical" else choices

    def layer_sizes(self) -> dict[str, tuple[int, int]]:
        """Return inputs and outputs of every linear layer."""
        hidden = self.hidden_size
        return {
            "input": (self.observation_size, hidden),
            "block1": (hidden, hidden),
            "block2": (hidden, hidden),
            "head": (hidden, self.head_size),
        }


def initialise(shape: NetworkShape, generator: torch.Generator, device: torch.device) -> Parameters:
    """Draw every weight and bias from Uniform(±1/√fan_in), independently for each critic."""
    parameters: Parameters = {}
    for name, (inputs, outputs) in shape.layer_sizes().items():
        bound = 1 / math.sqrt(inputs)
        weight = torch.empty(shape.critics, inputs, outputs).uniform_(-bound, bound, generator=generator)
        bias = torch.empty(shape.critics, 1, outputs).uniform_(-bound, bound, generator=generator)
        parameters[f"{name}.weight"], parameters[f"{name}.bias"] = weight, bias
    parameters["norm.scale"] = torch.ones(shape.critics, 1, shape.hidden_size)
    parameters["norm.shift"] = torch.zeros(shape.critics, 1, shape.hidden_size)
    return {name: tensor.to(device) for name, tensor in parameters.items()}


def torso(parameters: Parameters, observations: Tensor) -> Tensor:
    """Return features [K, B, H]: Linear, residual block h + relu(W2 relu(W1 h)), LayerNorm."""
    weight = parameters["input.weight"]
    inputs = observations.expand(weight.shape[0], -1, -1)
    hidden = torch.baddbmm(parameters["input.bias"], inputs, weight)
    block = torch.baddbmm(parameters["block1.bias"], hidden, parameters["block1.weight"]).relu()
    block = torch.baddbmm(parameters["block2.bias"], block, parameters["block2.weight"]).relu()
    normal = torch.nn.functional.layer_norm(hidden + block, hidden.shape[-1:])
    return torch.addcmul(parameters["norm.shift"], normal, parameters["norm.scale"])


def predict(parameters: Parameters, observations: Tensor, shape: NetworkShape) -> Tensor:
    """Return utilities [K, B, N, A] for observations [B, D]; logits [K, B, N, A, Z] with a categorical head."""
    features = torso(parameters, observations)
    space = shape.actions
    if shape.head == "dueling":
        # every branch and the value send gradients into the shared trunk (Tavakoli et al. 2018)
        features = scale_gradient(features, 1 / (space.num_dimensions + 1))
    output = torch.baddbmm(parameters["head.bias"], features, parameters["head.weight"])
    grid = (shape.critics, observations.shape[0], space.num_dimensions, space.max_choices)
    if shape.head == "dueling":
        exists = torch.from_numpy(space.exists).to(output.device) if space.is_padded else None
        return aggregate_dueling(output[..., 0], output[..., 1:].reshape(grid), exists)
    return output.view(*grid, shape.atoms) if shape.head == "categorical" else output.view(grid)


class _ScaleGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None]:
        return gradients[0] * ctx.scale, None


def scale_gradient(tensor: Tensor, scale: float) -> Tensor:
    """Pass values through unchanged and multiply the gradient that comes back by `scale`."""
    result: Tensor = _ScaleGradient.apply(tensor, scale)  # type: ignore[no-untyped-call]
    return result
