"""K critics side by side: their parameters stacked on a leading axis, and what their outputs mean.

Every critic is Linear(D → H), a residual block h + relu(W2 relu(W1 h)), LayerNorm, and one linear layer to everything
its head predicts. `predict` says it plainly; `revalued.passes` computes the same, and gradients, for learning.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from revalued.actions import FactorisedActions
from revalued.config import Head
from revalued.ops.utilities import aggregate_dueling, dueling_gradient

LAYER_NORM_EPSILON = 1e-5
ALIGNMENT = 16


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

    @property
    def trunk_gradient_scale(self) -> float:
        """Return the factor on gradients into the trunk: BDQ's N branches and value all send theirs."""
        return 1 / (self.actions.num_dimensions + 1) if self.head == "dueling" else 1.0

    def tensor_sizes(self) -> dict[str, tuple[int, int]]:
        """Return rows and columns of every parameter of one critic, in the order in which they lie in memory."""
        hidden = self.hidden_size
        sizes: dict[str, tuple[int, int]] = {}
        linear = {
            "input": (self.observation_size, hidden),
            "block1": (hidden, hidden),
            "block2": (hidden, hidden),
            "head": (hidden, self.head_size),
        }
        for name, (inputs, outputs) in linear.items():
            sizes[f"{name}.weight"], sizes[f"{name}.bias"] = (inputs, outputs), (1, outputs)
        return {**sizes, "norm.scale": (1, hidden), "norm.shift": (1, hidden)}


class Parameters:
    """The parameters of a stack of critics: one row of memory per critic, seen as stacked matrices by name.

    A row holds everything of one critic, so that norms, Adam and target updates are single passes over it. Matrices
    begin at multiples of `ALIGNMENT` numbers, where vector instructions are fastest; the gaps stay zero.
    """

    def __init__(self, rows: Tensor, shape: NetworkShape) -> None:
        self.rows, self.shape = rows, shape
        self.named: dict[str, Tensor] = {}
        offsets, _ = _layout(shape)
        for name, (height, width) in shape.tensor_sizes().items():
            flat = rows[:, offsets[name] : offsets[name] + height * width]
            self.named[name] = flat.view(-1, height, width)
        height, width = shape.observation_size + 1, shape.hidden_size
        # the input layer's bias lies behind its weights: together they multiply observations with a one behind them
        self.input = rows[:, : height * width].view(-1, height, width)

    @classmethod
    def zeros(cls, shape: NetworkShape, device: torch.device, critics: int | None = None) -> Parameters:
        """Return parameters that are all zero, for as many critics as asked for."""
        _, size = _layout(shape)
        return cls(torch.zeros(critics or shape.critics, size, device=device), shape)

    def of(self, critics: slice) -> Parameters:
        """Return a view of some of the critics."""
        return Parameters(self.rows[critics], self.shape)

    def __getitem__(self, name: str) -> Tensor:
        return self.named[name]


def _layout(shape: NetworkShape) -> tuple[dict[str, int], int]:
    """Return where every parameter begins in a critic's row, and the length of the row."""
    offsets: dict[str, int] = {}
    end = 0
    for name, (height, width) in shape.tensor_sizes().items():
        # the input layer's bias stays right behind its weights, see `Parameters.input`
        offsets[name] = end if name == "input.bias" else -(-end // ALIGNMENT) * ALIGNMENT
        end = offsets[name] + height * width
    return offsets, -(-end // ALIGNMENT) * ALIGNMENT


def initialise(shape: NetworkShape, generator: torch.Generator, device: torch.device) -> Parameters:
    """Draw every weight and bias from Uniform(±1/√fan_in), independently for each critic."""
    parameters = Parameters.zeros(shape, torch.device("cpu"))
    for name, tensor in parameters.named.items():
        layer, kind = name.split(".")
        if layer == "norm":
            tensor.fill_(1.0 if kind == "scale" else 0.0)
        else:
            bound = 1 / math.sqrt(shape.tensor_sizes()[f"{layer}.weight"][0])
            tensor.copy_(torch.empty(tensor.shape).uniform_(-bound, bound, generator=generator))
    return Parameters(parameters.rows.to(device), shape)


def with_ones(observations: Tensor) -> Tensor:
    """Return observations [B, D] with a column of ones behind them, which carries the input layer's bias."""
    return torch.nn.functional.pad(observations, (0, 1), value=1.0)


def interpret(output: Tensor, shape: NetworkShape, exists: Tensor | None) -> Tensor:
    """Return utilities [k, B, N, A] from raw head outputs [k, B, O]; logits [k, B, N, A, Z] with a categorical head."""
    grid = (*output.shape[:2], shape.actions.num_dimensions, shape.actions.max_choices)
    if shape.head == "dueling":
        return aggregate_dueling(output[..., 0], output[..., 1:].reshape(grid), exists)
    return output.view(*grid, shape.atoms) if shape.head == "categorical" else output.view(grid)


def interpret_gradient(gradient: Tensor, shape: NetworkShape, exists: Tensor | None) -> Tensor:
    """Carry a gradient with respect to what `interpret` returned back to the raw head outputs [k, B, O]."""
    if shape.head == "dueling":
        value, advantages = dueling_gradient(gradient, exists)
        return torch.cat([value[..., None], advantages.flatten(2)], dim=-1)
    return gradient.flatten(2)


def predict(parameters: Parameters, observations: Tensor, exists: Tensor | None) -> Tensor:
    """Return utilities [k, B, N, A] (or logits) of observations [B, D]."""
    inputs = with_ones(observations).expand(parameters.rows.shape[0], -1, -1)
    hidden = torch.bmm(inputs, parameters.input)
    block = torch.baddbmm(parameters["block1.bias"], hidden, parameters["block1.weight"]).relu_()
    block = torch.baddbmm(parameters["block2.bias"], block, parameters["block2.weight"]).relu_()
    normal = torch.nn.functional.layer_norm(hidden + block, [parameters.shape.hidden_size], eps=LAYER_NORM_EPSILON)
    features = torch.addcmul(parameters["norm.shift"], normal, parameters["norm.scale"])
    output = torch.baddbmm(parameters["head.bias"], features, parameters["head.weight"])
    return interpret(output, parameters.shape, exists)
