"""What a learner asks of the engine that carries out its updates, and what both engines share."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from revalued.actions import FactorisedActions
from revalued.algorithms.loss import LossTerms, TensorBatch
from revalued.learner.metrics import Metrics
from revalued.native.acting import NativeCritics
from revalued.replay import Batch

ADAM_BETAS = (0.9, 0.999)
ADAM_EPSILON = 1e-8


class NonFiniteError(RuntimeError):
    """Learning has diverged: a loss, a priority or a parameter is no longer a finite number."""


Updated: TypeAlias = tuple[NDArray[np.float32], Metrics]
"""What an update leaves behind besides new parameters: priorities of the transitions [B], and metrics for the log."""


class Engine(Protocol):
    """A way to update the learner it was made for."""

    def update(self, batch: Batch, updates: int) -> Updated:
        """Do one gradient step after so many others; raises `NonFiniteError` rather than learn from no numbers."""

    def critics(self) -> NativeCritics | None:
        """Return the online critics for choosing actions; None where PyTorch evaluates them."""


def to_tensors(batch: Batch, actions: FactorisedActions, device: torch.device) -> TensorBatch:
    """Return the batch as tensors of their own on the device."""

    # torch owns aligned copies: matrix products may round differently for buffers of another alignment
    def copy(array: NDArray[np.generic]) -> Tensor:
        return torch.tensor(array, device=device)

    return TensorBatch(
        copy(batch.observations), copy(batch.actions), copy(batch.returns), copy(batch.discounts),
        copy(batch.next_observations), copy(batch.weights),
        None if batch.next_masks is None else copy(actions.legal(batch.next_masks)),
    )  # fmt: skip


def non_finite(what: str, updates: int) -> NonFiniteError:
    """Return the error that says what is not finite in the update after so many others."""
    return NonFiniteError(f"the {what} of update {updates + 1:,} are not finite: learning has diverged")


def finite_priorities(terms: LossTerms, updates: int) -> NDArray[np.float32]:
    """Return a loss's priorities on the host; refuses those that are not finite."""
    priorities: NDArray[np.float32] = terms.priorities.cpu().numpy()
    if not np.isfinite(priorities).all():
        raise non_finite("TD errors", updates)
    return priorities


def metrics_of(terms: LossTerms, norms: Tensor) -> Metrics:
    """Put the metrics of a loss and the gradients' norms [K] together."""
    found = {"loss": terms.loss.detach(), **terms.metrics, "gradient_norm": norms.mean()}
    return Metrics(list(found), torch.stack(list(found.values())))
