"""What an engine works on, and what it must be able to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from revalued.algorithms.objective import LossTerms, TensorBatch
from revalued.config import AlgorithmConfig, LearnerConfig
from revalued.networks import NetworkShape, Parameters
from revalued.passes import merging_pays
from revalued.replay import Batch

ADAM_BETAS = (0.9, 0.999)
ADAM_EPSILON = 1e-8


@dataclass(frozen=True)
class LearnerState:
    """What is learned, all on one device, and what decides how."""

    algorithm: AlgorithmConfig
    config: LearnerConfig
    shape: NetworkShape
    device: torch.device
    online: Parameters
    target: Parameters
    first_moment: Parameters
    second_moment: Parameters
    exists: Tensor | None
    """Which choices are no padding, [N, A]; None where none is."""
    support: Tensor | None
    """Atoms [Z] of categorical heads."""

    @property
    def merges_online(self) -> bool:
        """Tell whether the online critics' first two layers are multiplied beforehand."""
        return merging_pays(self.shape, self.config.batch_size, backward=True)

    @property
    def merges_target(self) -> bool:
        """Tell whether the target critics' first two layers are multiplied beforehand."""
        rows = self.config.batch_size * (2 if self.algorithm.beta > 0 else 1)
        return merging_pays(self.shape, rows, backward=False)

    def to_device(self, batch: Batch) -> TensorBatch:
        """Return the batch as tensors of their own."""

        # torch owns aligned copies: matrix products may round differently for buffers of another alignment
        def copy(array: NDArray[np.generic]) -> Tensor:
            return torch.tensor(array, device=self.device)

        return TensorBatch(
            copy(batch.observations), copy(batch.actions), copy(batch.returns), copy(batch.discounts),
            copy(batch.next_observations), copy(batch.weights),
            None if batch.next_masks is None else copy(self.shape.actions.legal(batch.next_masks)),
        )  # fmt: skip


class Engine(Protocol):
    """One update in two halves: parameters change only in the second, so that the learner can stop in between."""

    def differentiate(self, batch: Batch) -> LossTerms:
        """Compute the loss of the batch, and remember what `step` needs."""

    def step(self, updates: int) -> Tensor:
        """Take the step that `differentiate` prepared, after so many updates; return the gradients' norms [K]."""
