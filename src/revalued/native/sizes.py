"""Which products of matrices save work, told from their sizes."""

from __future__ import annotations

from revalued.networks import NetworkShape


def merging_pays(shape: NetworkShape, rows: int, *, backward: bool) -> bool:
    """Tell from the sizes whether multiplying the first two layers saves arithmetic for batches of so many rows."""
    hidden, inputs = shape.hidden_size, shape.observation_size + 1
    # products of size B·H·H against those of size D·H·H and B·D·H; the backward pass has two more of the first kind
    products = 3 if backward else 1
    separate = products * rows * hidden * hidden
    merged = products * inputs * hidden * hidden + (2 if backward else 1) * rows * inputs * hidden
    return merged < separate


def merging_saves_reading(shape: NetworkShape) -> bool:
    """Tell whether the product of the first two layers is so much smaller than the second that making it pays.

    With a few observations it is reading the weights that takes the time, not arithmetic.
    """
    return 4 * (shape.observation_size + 1) <= shape.hidden_size


def merging_shrinks(shape: NetworkShape) -> bool:
    """Tell whether the product is smaller than the second layer: enough where it is made once for all, as in a file."""
    return shape.observation_size < shape.hidden_size
