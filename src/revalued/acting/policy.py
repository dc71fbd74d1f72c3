"""Choosing actions: ε-greedy with one critic drawn per lane, and greedy on the ensemble's mean."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from revalued.config import EngineName
from revalued.native.acting import NativeCritics
from revalued.native.choice import resolve_engine
from revalued.networks import NetworkShape, Parameters, interpret, predict
from revalued.ops.categorical import expected_values
from revalued.ops.utilities import greedy_actions


class Policy:
    """Per-dimension values of every choice, from whatever parameters it is given."""

    def __init__(
        self,
        shape: NetworkShape,
        parameters: Parameters,
        support: Tensor | None,
        engine: EngineName | NativeCritics = "auto",
    ) -> None:
        self.shape, self.parameters, self.support = shape, parameters, support
        self.device = parameters["input"].device
        if not isinstance(engine, NativeCritics) and resolve_engine(engine, self.device) == "native":
            engine = NativeCritics(shape, parameters)
        self._native = engine if isinstance(engine, NativeCritics) else None
        self._is_plain = shape.head == "utilities" and not shape.actions.is_padded
        self.exists = torch.from_numpy(shape.actions.exists).to(self.device) if shape.actions.is_padded else None

    def utilities(self, observations: NDArray[np.float32]) -> Tensor:
        """Return utilities [K, B, N, A] for observations [B, D]; a categorical head's expected values."""
        if self._native is not None:
            return self._meaning(torch.from_numpy(self._native_outputs(observations)))
        with torch.no_grad():
            output = predict(self.parameters, torch.tensor(observations, device=self.device), self.shape, self.exists)
        return output if self.support is None else expected_values(output, self.support)

    def greedy(self, observations: NDArray[np.float32], masks: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return the greedy actions [B, N] of the ensemble's mean utilities, legal under the masks [B, Σ sizes]."""
        if self._native is not None and self._is_plain and masks is None:
            raw = self._native_outputs(observations)
            return self._best(raw[0] if len(raw) == 1 else raw.mean(axis=0))
        legal = None if masks is None else self.shape.actions.legal(masks)
        return self._best_legal(self.utilities(observations).mean(dim=0), legal)

    def greedy_of_critics(
        self,
        observations: NDArray[np.float32],
        critics: NDArray[np.int64],
        legal: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.int64]:
        """Return for every lane the greedy action [N] of the critic drawn for it, among those `legal` [L, N, A]."""
        if self._native is None:
            lanes = torch.arange(len(critics), device=self.device)
            own = self.utilities(observations)[torch.from_numpy(critics).to(self.device), lanes]
            return self._best_legal(own, legal)
        if self.shape.critics == 1:
            raw = self._native.outputs(observations, 0)
        else:  # lanes that drew the same critic side by side
            order = critics.argsort(kind="stable")
            raw = np.empty((len(critics), self.shape.head_size), np.float32)
            raw[order] = self._native.outputs(observations[order], critics[order])
        if self._is_plain and legal is None:
            return self._best(raw)
        return self._best_legal(self._meaning(torch.from_numpy(raw)[None])[0], legal)

    def _native_outputs(self, observations: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return raw outputs [K, B, O]."""
        assert self._native is not None
        num_critics, batch = self.shape.critics, len(observations)
        if num_critics == 1:
            return self._native.outputs(observations, 0)[None]
        critics = np.arange(num_critics).repeat(batch)
        raw = self._native.outputs(np.tile(observations, (num_critics, 1)), critics)
        return raw.reshape(num_critics, batch, -1)

    def _meaning(self, raw: Tensor) -> Tensor:
        output = interpret(raw, self.shape, self.exists)
        return output if self.support is None else expected_values(output, self.support)

    def _best(self, utilities: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the best choices [B, N] by utilities [B, N · A]: done before PyTorch would have begun."""
        best: NDArray[np.int64] = utilities.reshape(len(utilities), self.shape.actions.num_dimensions, -1).argmax(-1)
        return best

    def _best_legal(self, utilities: Tensor, legal: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        """Return the best choices [B, N] by utilities [B, N, A] among those `legal`, which all exist."""
        allowed = self.exists if legal is None else torch.from_numpy(legal).to(self.device)
        actions: NDArray[np.int64] = greedy_actions(utilities, allowed).cpu().numpy()
        return actions
