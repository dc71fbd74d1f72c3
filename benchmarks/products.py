"""The matrix products of one update, listed: what remains of it if everything else cost nothing.

They merge the first two layers where that saves arithmetic, as the native engine does. Products
of a matrix with a single row (LayerNorm's shift through the head) are left out, as are additions of any kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from benchmarks.sizes import Size
from revalued.native.merging import merging_pays

Layout = Literal["NN", "TN", "NT"]
"""Which of the two operands is read transposed."""


@dataclass(frozen=True)
class Product:
    """out = left · right for operands by name; the same names are the same memory."""

    left: str
    right: str
    out: str
    layout: Layout = "NN"
    adds: bool = False
    """Whether the product is added to what `out` holds."""


def passes(size: Size) -> list[list[Product]]:
    """Return the products of one critic: those of weights alone, the forward passes, the backward pass."""
    target_inputs = ("next", "now") if size.beta > 0 else ("next",)
    merge_online = merging_pays(size.shape, size.batch_size, backward=True)
    merge_target = merging_pays(size.shape, size.batch_size * len(target_inputs), backward=False)
    folds = [
        Product(f"{net}.input", f"{net}.block1", f"{net}.merged")
        for net, merge in (("target", merge_target), ("online", merge_online))
        if merge
    ]
    target = [list(_forward("target", inputs, merge_target)) for inputs in target_inputs]
    return [folds, *target, list(_forward("online", "now", merge_online)), list(_backward(merge_online))]


def _forward(net: str, inputs: str, merge: bool) -> Iterator[Product]:
    yield Product(inputs, f"{net}.input", f"{net}:hidden")
    if merge:
        yield Product(inputs, f"{net}.merged", f"{net}:block1")
    else:
        yield Product(f"{net}:hidden", f"{net}.block1", f"{net}:block1")
    yield Product(f"{net}:block1", f"{net}.block2", f"{net}:block2")
    yield Product(f"{net}:normal", f"{net}.head", f"{net}:{inputs}:output")


def _backward(merge: bool) -> Iterator[Product]:
    yield Product("online:normal", "slope:output", "gradient.head", "TN")
    yield Product("slope:output", "online.head", "slope:residual", "NT")
    yield Product("online:block1", "slope:residual", "gradient.block2", "TN")
    yield Product("slope:residual", "online.block2", "slope:block1", "NT")
    if merge:
        yield Product("now", "slope:block1", "gradient.merged", "TN")
        yield Product("online.input", "gradient.merged", "gradient.block1", "TN")
        yield Product("gradient.merged", "online.block1", "gradient.input", "NT")
        yield Product("now", "slope:residual", "gradient.input", "TN", adds=True)
    else:
        yield Product("online:hidden", "slope:block1", "gradient.block1", "TN")
        yield Product("slope:block1", "online.block1", "slope:hidden", "NT")
        yield Product("now", "slope:hidden", "gradient.input", "TN")


def has_batch_rows(operand: str) -> bool:
    """Tell whether an operand's rows are the batch's: observations and activations, not weights."""
    return ":" in operand or is_observation(operand)


def is_observation(operand: str) -> bool:
    """Tell whether all critics share the operand."""
    return operand in ("now", "next")


def operand_shape(operand: str, size: Size) -> tuple[int, int]:
    """Return rows and columns of an operand of one critic."""
    inputs, hidden, outputs = size.observation_size + 1, size.hidden_size, size.shape.head_size
    if is_observation(operand):
        return size.batch_size, inputs
    if has_batch_rows(operand):
        return size.batch_size, outputs if operand.endswith(":output") else hidden
    layer = operand.split(".")[1]
    rows = inputs if layer in ("input", "merged") else hidden
    return rows, outputs if layer == "head" else hidden


def multiply_adds(size: Size) -> int:
    """Return the multiplications of one update, over all critics."""
    total = 0
    for product in (product for listed in passes(size) for product in listed):
        rows, inner = operand_shape(product.left, size)
        right = operand_shape(product.right, size)
        rows, inner = (inner, rows) if product.layout == "TN" else (rows, inner)
        columns, right_inner = (right[0], right[1]) if product.layout == "NT" else (right[1], right[0])
        if inner != right_inner or operand_shape(product.out, size) != (rows, columns):
            raise AssertionError(f"{product} does not fit together")
        total += rows * inner * columns
    return total * size.critics
