"""The critics' forward and backward pass for learning, written out.

A general tool would do up to twice the arithmetic and many times the copying; tests hold these functions against
automatic differentiation of `networks.predict`. What they use is exact algebra:

- The input layer has no activation, so (x W0 + b0) W1 = x (W0 W1) + b0 W1: with few observations it is cheaper to
  multiply the weights first. A column of ones behind the observations carries the biases along.
- LayerNorm's scale g and shift c go into the head: (n ∘ g + c) Wh + bh = n (g ∘ Wh) + (c Wh + bh).
- Features n are normalised, so rows of the head's weights may be centred without changing n Wh; the gradient that comes
  back through centred weights is centred too, which is half of LayerNorm's backward pass.

All large intermediate results live in a `Workspace` that is used again and again, so they stay in the core's cache.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from revalued.networks import LAYER_NORM_EPSILON, NetworkShape, Parameters


def merging_pays(shape: NetworkShape, rows: int, *, backward: bool) -> bool:
    """Tell from the sizes whether multiplying the first two layers saves arithmetic for batches of so many rows."""
    hidden, inputs = shape.hidden_size, shape.observation_size + 1
    # products of size B·H·H against those of size D·H·H and B·D·H; the backward pass has two more of the first kind
    products = 3 if backward else 1
    separate = products * rows * hidden * hidden
    merged = products * inputs * hidden * hidden + (2 if backward else 1) * rows * inputs * hidden
    return merged < separate


class Folding(NamedTuple):
    """What depends on the parameters alone, made once for all batches that go through them."""

    block1: Tensor | None  # [k, D+1, H]: input and first block layer multiplied, None where that does not pay
    head_weight: Tensor  # [k, H, O]: the head with LayerNorm's scale in it, centred
    head_bias: Tensor  # [k, 1, O]: and LayerNorm's shift


def fold(parameters: Parameters, *, merge_input: bool) -> Folding:
    """Multiply those layers together that have no activation between them."""
    merged = None
    if merge_input:
        merged = torch.bmm(parameters.input, parameters["block1.weight"])
        merged[:, -1:] += parameters["block1.bias"]
    weight = parameters["norm.scale"].transpose(1, 2) * parameters["head.weight"]
    weight -= weight.mean(dim=1, keepdim=True)
    bias = torch.baddbmm(parameters["head.bias"], parameters["norm.shift"], parameters["head.weight"])
    return Folding(merged, weight, bias)


class Workspace(NamedTuple):
    """Memory for the intermediate results [k, B, H] of one pass."""

    hidden: Tensor  # after the input layer
    block1: Tensor  # after relu
    block2: Tensor  # after relu
    normal: Tensor  # after LayerNorm; the same memory as `hidden` where the backward pass does not need that

    @classmethod
    def make(cls, shape: NetworkShape, critics: int, rows: int, device: torch.device, *, merged: bool) -> Workspace:
        """Reserve memory for so many critics and rows."""
        hidden, block1, block2 = (torch.empty(critics, rows, shape.hidden_size, device=device) for _ in range(3))
        return cls(hidden, block1, block2, hidden if merged else torch.empty_like(hidden))

    def first(self, rows: int) -> Workspace:
        """Return a part of the memory, for fewer rows."""
        return Workspace(*(tensor[:, :rows] for tensor in self))


class Pass(NamedTuple):
    """A forward pass: what came out, and what the backward pass needs."""

    inputs: Tensor  # [k, B, D+1]
    output: Tensor  # [k, B, O]
    inverse_deviation: Tensor  # [k, B, 1]
    work: Workspace


def forward(parameters: Parameters, folding: Folding, inputs: Tensor, work: Workspace) -> Pass:
    """Compute raw head outputs [k, B, O] of inputs [B, D+1] (see `networks.with_ones`)."""
    inputs = inputs.expand(parameters.rows.shape[0], -1, -1)
    torch.bmm(inputs, parameters.input, out=work.hidden)
    if folding.block1 is None:
        torch.baddbmm(parameters["block1.bias"], work.hidden, parameters["block1.weight"], out=work.block1).relu_()
    else:
        torch.bmm(inputs, folding.block1, out=work.block1).relu_()
    torch.baddbmm(parameters["block2.bias"], work.block1, parameters["block2.weight"], out=work.block2).relu_()
    residual = torch.add(work.hidden, work.block2, out=work.normal)
    residual -= residual.mean(dim=-1, keepdim=True)
    deviation = torch.linalg.vector_norm(residual, dim=-1, keepdim=True)
    variance = deviation.square_().div_(parameters.shape.hidden_size)
    inverse_deviation = variance.add_(LAYER_NORM_EPSILON).rsqrt_()
    work.normal.mul_(inverse_deviation)
    output = torch.baddbmm(folding.head_bias, work.normal, folding.head_weight)
    return Pass(inputs, output, inverse_deviation, work)


def backward(
    parameters: Parameters, folding: Folding, passed: Pass, output_gradient: Tensor, scratch: Workspace,
    gradients: Parameters, *, add: bool = False,
) -> None:  # fmt: skip
    """Write the gradient of a loss into `gradients`, from its gradient [k, B, O] with respect to the pass's output.

    With `add` it is added to what is there already: the gradient of another part of the batch.
    """
    shape, work, inputs_t = parameters.shape, passed.work, passed.inputs.transpose(1, 2)
    beta = 1.0 if add else 0.0

    def put(name: str, gradient: Tensor) -> None:
        gradients[name].add_(gradient) if add else gradients[name].copy_(gradient)

    # the head, and LayerNorm's scale and shift which are folded into it
    head_weight = torch.bmm(work.normal.transpose(1, 2), output_gradient)
    head_bias = output_gradient.sum(dim=1, keepdim=True)
    put("head.weight", parameters["norm.scale"].transpose(1, 2) * head_weight)
    gradients["head.weight"].baddbmm_(parameters["norm.shift"].transpose(1, 2), head_bias)
    put("head.bias", head_bias)
    trunk_scale = shape.trunk_gradient_scale
    put("norm.scale", (head_weight * parameters["head.weight"]).sum(dim=2)[:, None] * trunk_scale)
    put("norm.shift", torch.bmm(head_bias, parameters["head.weight"].transpose(1, 2)) * trunk_scale)
    # LayerNorm: ds = (dn − mean(dn) − n · mean(dn ∘ n)) / deviation. With centred weights mean(dn) is 0, and
    # Σ_h dn ∘ n = Σ_o (output − bias) ∘ output gradient, which needs no pass over the features
    scale = passed.inverse_deviation * trunk_scale
    along = ((passed.output - folding.head_bias) * output_gradient).sum(dim=-1, keepdim=True)
    residual = torch.bmm(output_gradient * scale, folding.head_weight.transpose(1, 2), out=scratch.hidden)
    residual.addcmul_(work.normal, along * scale, value=-1 / shape.hidden_size)
    # the residual block
    block2 = _through_relu(residual, work.block2, scratch.block2)
    gradients["block2.weight"].baddbmm_(work.block1.transpose(1, 2), block2, beta=beta)
    put("block2.bias", block2.sum(dim=1, keepdim=True))
    block1 = torch.bmm(block2, parameters["block2.weight"].transpose(1, 2), out=scratch.block1)
    block1 = _through_relu(block1, work.block1, scratch.block1)
    if folding.block1 is None:
        gradients["block1.weight"].baddbmm_(work.hidden.transpose(1, 2), block1, beta=beta)
        put("block1.bias", block1.sum(dim=1, keepdim=True))
        residual.baddbmm_(block1, parameters["block1.weight"].transpose(1, 2))
        gradients.input.baddbmm_(inputs_t, residual, beta=beta)
    else:
        merged = torch.bmm(inputs_t, block1)
        gradients["block1.weight"].baddbmm_(parameters.input.transpose(1, 2), merged, beta=beta)
        put("block1.bias", merged[:, -1:])
        gradients.input.baddbmm_(merged, parameters["block1.weight"].transpose(1, 2), beta=beta)
        gradients.input.baddbmm_(inputs_t, residual)


def _through_relu(gradient: Tensor, output: Tensor, out: Tensor) -> Tensor:
    """Let the gradient through where relu's output was positive."""
    passed: Tensor = torch.ops.aten.threshold_backward.grad_input(gradient, output, 0, grad_input=out)
    return passed
