"""Action masks of the stored observations, eight booleans to a byte."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class MaskStore:
    """One mask of `size` booleans per row; a size of 0 stores nothing and costs nothing."""

    def __init__(self, num_rows: int, size: int) -> None:
        self.size = size
        self.packed = np.zeros((num_rows, -(-size // 8)), np.uint8)

    def checked(self, name: str, masks: npt.NDArray[np.bool_] | None, num_lanes: int) -> npt.NDArray[np.bool_] | None:
        """Return the masks of so many lanes, None if they are empty; they are as long as this store has room for."""
        if masks is None and self.size == 0:
            return None
        shape = None if masks is None else masks.shape
        if shape != (num_lanes, self.size):
            raise ValueError(f"{name} must have shape {(num_lanes, self.size)}, got {shape}")
        return masks if self.size > 0 else None

    def write(self, rows: npt.NDArray[np.int64], masks: npt.NDArray[np.bool_] | None) -> None:
        """Store masks [L, size] in these rows."""
        if masks is not None:
            self.packed[rows] = np.packbits(masks, axis=1)


def read_masks(packed: npt.NDArray[np.uint8], rows: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.bool_] | None:
    """Return the masks [B, size] of these rows of what a store has packed."""
    if size == 0:
        return None
    return np.unpackbits(packed.take(rows, axis=0), axis=1, count=size).view(np.bool_)
