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
