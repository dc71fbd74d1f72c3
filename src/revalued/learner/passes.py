"""The critics' forward and backward pass for learning, written out.

A general tool would do up to twice the arithmetic and many times the copying; tests hold these functions against
automatic differentiation of `networks.predict`. What they use is exact algebra:

- The input layer has no activation, so (x W0 + b0) W1 = x (W0 W1) + b0 W1: with few observations it is cheaper to
  multiply the weights first.
- LayerNorm's scale g and shift c go into the head: (n ∘ g + c) Wh + bh = n (g ∘ Wh) + (c Wh + bh).
- LayerNorm takes the mean m of the features h away and multiplies by r, one over their deviation. Columns of the head's
  weights may be centred, and then (h − m) Wh = h Wh: the features need not be normalised at all, only the head's few
  outputs are multiplied by r. The gradient that comes back through centred weights is centred too, which is half of
  LayerNorm's backward pass. A last column of 1/H in the head's weights yields the mean m along with the outputs.

All large intermediate results live in a `Workspace` that is used again and again: fresh memory costs more than the
arithmetic done in it.
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


def even_groups(critics: int, threads: int) -> list[slice]:
    """Cut critics into one group that divides evenly among the threads, and the rest.

    Stacked products give whole matrices to threads: of 3 critics on 2 threads, one thread would do two and one wait.
    The rest is smaller than the number of threads; its matrices are cut up among all of them where it is a single one.
    """
    even = critics - critics % threads
    return [group for group in (slice(0, even), slice(even, critics)) if group.start < group.stop]


class Folding(NamedTuple):
    """What depends on the parameters alone, made once for all batches that go through them."""

    block1: Tensor | None  # [K, D+1, H]: input and first block layer multiplied, None where that does not pay
    head_weight: Tensor  # [K, H, O+1]: the head with LayerNorm's scale in it, centred; its last column averages
    head_bias: Tensor  # [K, 1, O]: and with LayerNorm's shift


def fold(parameters: Parameters, *, merge_input: bool) -> Folding:
    """Multiply those layers together that have no activation between them."""
    merged = None
    if merge_input:
        merged = torch.bmm(parameters["input"], parameters["block1.weight"])
        merged[:, -1:] += parameters["block1.bias"]
    weight = parameters["norm.scale"].transpose(1, 2) * parameters["head.weight"]
    weight -= weight.mean(dim=1, keepdim=True)
    weight = torch.nn.functional.pad(weight, (0, 1), value=1 / weight.shape[1])
    bias = torch.baddbmm(parameters["head.bias"], parameters["norm.shift"], parameters["head.weight"])
    return Folding(merged, weight, bias)


class Workspace(NamedTuple):
    """Memory for the large intermediate results of one pass, [K, B, H] each."""

    hidden: Tensor  # after the input layer
    block1: Tensor  # after relu
    block2: Tensor  # after relu
    features: Tensor  # the sum of `hidden` and `block2`; in place of one of them where nobody asks for that again

    @classmethod
    def reserve(cls, shape: NetworkShape, rows: int, device: torch.device, *, keep_hidden: bool) -> Workspace:
        """Reserve memory for batches of so many rows; only a backward pass through unmerged layers needs `hidden`."""
        hidden, *others = torch.empty(4, shape.critics, rows, shape.hidden_size, device=device).unbind()
        return cls(hidden, others[0], others[1], others[2] if keep_hidden else hidden)

    def part(self, critics: slice) -> Workspace:
        """Return the memory of some of the critics."""
        return Workspace(*(tensor[critics] for tensor in self))


class Pass(NamedTuple):
    """A forward pass: what came out, and what the backward pass needs."""

    inputs: Tensor  # [K, B, D+1]
    output: Tensor  # [K, B, O]
    mean: Tensor  # [K, B, 1], of the features
    inverse_deviation: Tensor  # [K, B, 1], of the features
    work: Workspace


def forward(parameters: Parameters, folding: Folding, inputs: Tensor, work: Workspace) -> Pass:
    """Compute raw head outputs [K, B, O] of inputs [B, D+1] (see `networks.with_ones`)."""
    inputs = inputs.expand(len(parameters["input"]), -1, -1)
    torch.bmm(inputs, parameters["input"], out=work.hidden)
    if folding.block1 is None:
        torch.bmm(work.hidden, parameters["block1.weight"], out=work.block1).add_(parameters["block1.bias"]).relu_()
    else:
        torch.bmm(inputs, folding.block1, out=work.block1).relu_()
    torch.bmm(work.block1, parameters["block2.weight"], out=work.block2).add_(parameters["block2.bias"]).relu_()
    features = torch.add(work.hidden, work.block2, out=work.features)
    raw = torch.bmm(features, folding.head_weight)
    mean = raw[..., -1:]
    # the variance is the mean square without the squared mean; rounding must not make it negative
    mean_square = torch.linalg.vector_norm(features, dim=-1, keepdim=True).square_().div_(features.shape[-1])
    variance = mean_square.addcmul_(mean, mean, value=-1).clamp_(min=0.0)
    inverse_deviation = variance.add_(LAYER_NORM_EPSILON).rsqrt_()
    output = torch.addcmul(folding.head_bias, raw[..., :-1], inverse_deviation)
    return Pass(inputs, output, mean, inverse_deviation, work)


def backward(
    parameters: Parameters,
    folding: Folding,
    passed: Pass,
    output_gradient: Tensor,
    trunk_scale: float,
    scratch: Workspace,
    gradients: Parameters,
) -> None:
    """Write the gradient of a loss into `gradients`, from its gradient [K, B, O] with respect to the pass's output.

    Gradients into everything before the head are multiplied by `trunk_scale`. Uses up the pass's workspace.
    """
    work, inputs_t = passed.work, passed.inputs.transpose(1, 2)
    features, hidden_size = work.features, work.features.shape[-1]
    # the head, and LayerNorm's scale and shift which are folded into it: features enter as (features − mean) · r
    scaled = output_gradient * passed.inverse_deviation
    mean_part = torch.bmm(passed.mean.transpose(1, 2), scaled)
    head_weight = torch.bmm(features.transpose(1, 2), scaled).sub_(mean_part)
    head_bias = torch.sum(output_gradient, 1, keepdim=True, out=gradients["head.bias"])
    torch.mul(head_weight, parameters["norm.scale"].transpose(1, 2), out=gradients["head.weight"])
    gradients["head.weight"].addcmul_(parameters["norm.shift"].transpose(1, 2), head_bias)
    scale_gradient = (head_weight * parameters["head.weight"]).sum(dim=2)[:, None]
    torch.mul(scale_gradient, trunk_scale, out=gradients["norm.scale"])
    shift_gradient = torch.bmm(head_bias, parameters["head.weight"].transpose(1, 2))
    torch.mul(shift_gradient, trunk_scale, out=gradients["norm.shift"])
    # LayerNorm: ds = r (dn − mean(dn) − n · mean(dn ∘ n)) with n = (features − mean) r. With centred weights mean(dn)
    # is 0, Σ_h dn ∘ n = Σ_o (output − bias) ∘ output gradient, and the head's averaging column carries n's own mean
    along = ((passed.output - folding.head_bias) * scaled).sum(dim=-1, keepdim=True)
    pull = along * passed.inverse_deviation * (trunk_scale / hidden_size)
    upstream = torch.cat([scaled * trunk_scale, pull * passed.mean * hidden_size], dim=-1)
    residual = torch.bmm(upstream, folding.head_weight.transpose(1, 2), out=scratch.hidden)
    residual.addcmul_(features, pull, value=-1)
    # the residual block
    block2 = _through_relu(residual, work.block2, work.block2)
    torch.bmm(work.block1.transpose(1, 2), block2, out=gradients["block2.weight"])
    torch.sum(block2, 1, keepdim=True, out=gradients["block2.bias"])
    block1 = torch.bmm(block2, parameters["block2.weight"].transpose(1, 2), out=scratch.block1)
    block1 = _through_relu(block1, work.block1, scratch.block1)
    if folding.block1 is None:
        torch.bmm(work.hidden.transpose(1, 2), block1, out=gradients["block1.weight"])
        torch.sum(block1, 1, keepdim=True, out=gradients["block1.bias"])
        residual.baddbmm_(block1, parameters["block1.weight"].transpose(1, 2))
        torch.bmm(inputs_t, residual, out=gradients["input"])
    else:
        merged = torch.bmm(inputs_t, block1)
        torch.bmm(parameters["input"].transpose(1, 2), merged, out=gradients["block1.weight"])
        gradients["block1.bias"].copy_(merged[:, -1:])
        torch.bmm(merged, parameters["block1.weight"].transpose(1, 2), out=gradients["input"])
        gradients["input"].baddbmm_(inputs_t, residual)


def _through_relu(gradient: Tensor, output: Tensor, out: Tensor) -> Tensor:
    """Let the gradient through where relu's output was positive."""
    passed: Tensor = torch.ops.aten.threshold_backward.grad_input(gradient, output, 0, grad_input=out)
    return passed
