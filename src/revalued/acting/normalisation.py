"""Observations on one scale: their running mean and deviation, over everything that the lanes have seen."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

LARGEST = 10.0
"""Normalised observations are cut off here: rare ones must not drown all others."""
_SMALLEST_VARIANCE = 1e-8


class ObservationNormaliser:
    """Takes the mean away and divides by the deviation, dimension by dimension.

    Sums are float64 and take in observations in the order of the lanes, so they depend on neither workers nor threads.
    The replay keeps observations as they came: what is learnt from them follows the newest mean and deviation.
    """

    def __init__(self, size: int) -> None:
        self._count, self._mean, self._squares = np.zeros(1), np.zeros(size), np.zeros(size)
        self.shift, self.scale = np.zeros(size, np.float32), np.ones(size, np.float32)

    def observe(self, observations: NDArray[np.float32]) -> None:
        """Take in observations [L, D]."""
        rows = observations.astype(np.float64)
        mean, before, total = rows.mean(axis=0), self._count[0], self._count[0] + len(rows)
        distance = mean - self._mean
        self._squares += ((rows - mean) ** 2).sum(axis=0) + distance**2 * (before * len(rows) / total)
        self._mean += distance * (len(rows) / total)
        self._count[0] = total
        self.settle()

    def settle(self) -> None:
        """Work out what observations are shifted and scaled by from the sums so far."""
        if self._count[0] > 0:
            self.shift[:] = self._mean
            self.scale[:] = 1 / np.sqrt(self._squares / self._count[0] + _SMALLEST_VARIANCE)

    def check(self) -> None:
        """Refuse sums that were taken over from a file and cannot be those of any observations."""
        sums = (self._count, self._mean, self._squares)
        if not all(np.isfinite(array).all() for array in sums) or self._count[0] < 0 or (self._squares < 0).any():
            raise ValueError("the sums over observations are not those of any observations")

    def __call__(self, observations: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return observations [B, D] on one scale."""
        normal: NDArray[np.float32] = ((observations - self.shift) * self.scale).clip(-LARGEST, LARGEST)
        return normal

    def tensors(self) -> dict[str, Tensor]:
        """Return the sums by name, for a checkpoint; whoever writes to them calls `settle`."""
        sums = {"count": self._count, "mean": self._mean, "squares": self._squares}
        return {name: torch.from_numpy(array) for name, array in sums.items()}
