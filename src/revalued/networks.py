"""K critics side by side: parameters stacked on a leading axis, the network's forward and backward pass.

Every critic is Linear(D → H), a residual block h + relu(W2 relu(W1 h)), LayerNorm, and one linear layer to everything
its head predicts. The backward pass is written out, because the exact algebra below saves up to half of the arithmetic
and all of the copying that a general tool would do; tests hold it against automatic differentiation.

- The input layer has no activation, so (x W0 + b0) W1 = x (W0 W1) + b0 W1: with few observations it is cheaper to
  multiply the weights first (`Folding`). Rows of ones behind the observations carry the biases along.
- LayerNorm's scale and shift are folded into the head: (n ∘ g + c) Wh = n (g ∘ Wh) + c Wh.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from revalued.actions import FactorisedActions
from revalued.config import Head
from revalued.ops.utilities import aggregate_dueling

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


class Folding(NamedTuple):
    """What depends on the parameters alone, made once for all batches that go through them."""

    block1: Tensor | None  # [k, D+1, H]: input and first block layer multiplied, None where that does not pay
    head_weight: Tensor  # [k, H, O]: the head with LayerNorm's scale in it
    head_bias: Tensor  # [k, 1, O]: and LayerNorm's shift


def fold(parameters: Parameters, *, merge_input: bool) -> Folding:
    """Multiply those layers together that have no activation between them."""
    merged = None
    if merge_input:
        merged = torch.bmm(parameters.input, parameters["block1.weight"])
        merged[:, -1:] += parameters["block1.bias"]
    weight = parameters["norm.scale"].transpose(1, 2) * parameters["head.weight"]
    bias = torch.baddbmm(parameters["head.bias"], parameters["norm.shift"], parameters["head.weight"])
    return Folding(merged, weight, bias)


def merging_pays(shape: NetworkShape, batch_sizes: list[int], *, backward: bool) -> bool:
    """Tell from the sizes whether multiplying the first two layers saves arithmetic for batches of these sizes."""
    rows, hidden, inputs = sum(batch_sizes), shape.hidden_size, shape.observation_size + 1
    # products of size B·H·H against those of size D·H·H and B·D·H; the backward pass has two of each first kind
    products = 3 if backward else 1
    separate = products * rows * hidden * hidden
    merged = products * inputs * hidden * hidden + (2 if backward else 1) * rows * inputs * hidden
    return merged < separate


class Activations(NamedTuple):
    """What the backward pass needs of a forward pass."""

    inputs: Tensor  # [B, D+1]
    hidden: Tensor | None  # [k, B, H], None where the first two layers are merged
    block1: Tensor  # after relu
    block2: Tensor  # after relu
    residual: Tensor
    normal: Tensor  # after LayerNorm
    mean: Tensor
    inverse_deviation: Tensor


def forward(parameters: Parameters, folding: Folding, inputs: Tensor) -> tuple[Tensor, Activations]:
    """Return raw head outputs [k, B, O] of inputs [B, D+1] (see `with_ones`), and what the backward pass needs."""
    activations = _trunk(parameters, folding.block1, inputs)
    return torch.baddbmm(folding.head_bias, activations.normal, folding.head_weight), activations


def _trunk(parameters: Parameters, merged: Tensor | None, inputs: Tensor) -> Activations:
    stacked = inputs.expand(parameters.rows.shape[0], -1, -1)
    hidden = torch.bmm(stacked, parameters.input)
    if merged is None:
        block1 = torch.baddbmm(parameters["block1.bias"], hidden, parameters["block1.weight"]).relu_()
    else:
        block1 = torch.bmm(stacked, merged).relu_()
    block2 = torch.baddbmm(parameters["block2.bias"], block1, parameters["block2.weight"]).relu_()
    residual = hidden + block2
    normal, mean, inverse_deviation = torch.native_layer_norm(
        residual, [parameters.shape.hidden_size], None, None, LAYER_NORM_EPSILON
    )
    kept = hidden if merged is None else None
    return Activations(inputs, kept, block1, block2, residual, normal, mean, inverse_deviation)


def backward(
    parameters: Parameters, folding: Folding, activations: Activations, output_gradient: Tensor, gradients: Parameters,
    *, add: bool = False,
) -> None:  # fmt: skip
    """Write the gradient of a loss into `gradients`, from its gradient with respect to the outputs of `forward`.

    With `add` it is added to what is there already: the gradient of another part of the batch.
    """
    shape = parameters.shape
    beta = 1.0 if add else 0.0

    def multiply(name: str, left: Tensor, right: Tensor) -> None:
        gradients[name].baddbmm_(left.transpose(1, 2), right, beta=beta)

    def put(name: str, gradient: Tensor) -> None:
        gradients[name].add_(gradient) if add else gradients[name].copy_(gradient)

    inputs = activations.inputs.expand(parameters.rows.shape[0], -1, -1)
    # the head, and LayerNorm's scale and shift which are folded into it
    head_weight = torch.bmm(activations.normal.transpose(1, 2), output_gradient)
    head_bias = output_gradient.sum(dim=1, keepdim=True)
    put("head.weight", parameters["norm.scale"].transpose(1, 2) * head_weight)
    gradients["head.weight"].baddbmm_(parameters["norm.shift"].transpose(1, 2), head_bias)
    put("head.bias", head_bias)
    trunk_scale = shape.trunk_gradient_scale
    put("norm.scale", (head_weight * parameters["head.weight"]).sum(dim=2)[:, None] * trunk_scale)
    put("norm.shift", torch.bmm(head_bias, parameters["head.weight"].transpose(1, 2)) * trunk_scale)
    normal = torch.bmm(output_gradient, folding.head_weight.transpose(1, 2))
    if trunk_scale != 1:
        normal *= trunk_scale
    residual = torch.ops.aten.native_layer_norm_backward(
        normal, activations.residual, [shape.hidden_size], activations.mean, activations.inverse_deviation,
        None, None, [True, False, False],
    )[0]  # fmt: skip
    # the residual block
    block2 = torch.ops.aten.threshold_backward(residual, activations.block2, 0)
    multiply("block2.weight", activations.block1, block2)
    put("block2.bias", block2.sum(dim=1, keepdim=True))
    block1 = torch.bmm(block2, parameters["block2.weight"].transpose(1, 2))
    block1 = torch.ops.aten.threshold_backward(block1, activations.block1, 0)
    if activations.hidden is None:
        merged = torch.bmm(inputs.transpose(1, 2), block1)
        multiply("block1.weight", parameters.input, merged)
        put("block1.bias", merged[:, -1:])
        gradients.input.baddbmm_(merged, parameters["block1.weight"].transpose(1, 2), beta=beta)
    else:
        multiply("block1.weight", activations.hidden, block1)
        put("block1.bias", block1.sum(dim=1, keepdim=True))
        residual.baddbmm_(block1, parameters["block1.weight"].transpose(1, 2))
    gradients.input.baddbmm_(inputs.transpose(1, 2), residual, beta=1.0 if activations.hidden is None else beta)


def interpret(output: Tensor, shape: NetworkShape, exists: Tensor | None) -> Tensor:
    """Return utilities [k, B, N, A] from raw head outputs [k, B, O]; logits [k, B, N, A, Z] with a categorical head."""
    grid = (*output.shape[:2], shape.actions.num_dimensions, shape.actions.max_choices)
    if shape.head == "dueling":
        return aggregate_dueling(output[..., 0], output[..., 1:].reshape(grid), exists)
    return output.view(*grid, shape.atoms) if shape.head == "categorical" else output.view(grid)


def predict(parameters: Parameters, observations: Tensor, exists: Tensor | None) -> Tensor:
    """Return utilities [k, B, N, A] (or logits) of a few observations [B, D], too few for any folding to pay."""
    normal = _trunk(parameters, None, with_ones(observations)).normal
    features = torch.addcmul(parameters["norm.shift"], normal, parameters["norm.scale"])
    output = torch.baddbmm(parameters["head.bias"], features, parameters["head.weight"])
    return interpret(output, parameters.shape, exists)
