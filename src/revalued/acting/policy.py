"""Choosing actions: greedy by one critic for each lane, or by the ensemble's mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from revalued.acting.normalisation import ObservationNormaliser
from revalued.actions import FactorisedActions
from revalued.networks import NetworkShape, Parameters, interpret, predict
from revalued.ops.categorical import expected_values
from revalued.ops.utilities import greedy_actions


class Critics(Protocol):
    """Critics that are asked for the raw outputs of their heads."""

    def all_outputs(self, observations: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return what each critic says about each of the observations [B, D]: [K, B, O]."""

    def outputs(self, observations: NDArray[np.float32], critics: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return outputs [B, O] of observations [B, D], each through the critic [B] named for it."""


class TorchCritics:
    """Critics evaluated by PyTorch, on the device of their parameters."""

    def __init__(self, shape: NetworkShape, parameters: Parameters) -> None:
        self._parameters = parameters
        # one dimension of as many choices as the head has outputs: these as they are
        self._shape = replace(shape, actions=FactorisedActions((shape.head_size,)), head="utilities", atoms=1)

    def all_outputs(self, observations: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return what each critic says about each of the observations [B, D]: [K, B, O]."""
        with torch.no_grad():
            inputs = torch.tensor(observations, device=self._parameters["input"].device)
            outputs: NDArray[np.float32] = predict(self._parameters, inputs, self._shape, None)[:, :, 0].cpu().numpy()
        return outputs

    def outputs(self, observations: NDArray[np.float32], critics: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return outputs [B, O] of observations [B, D], each through the critic [B] named for it."""
        own: NDArray[np.float32] = self.all_outputs(observations)[critics, np.arange(len(critics))]
        return own


class Policy:
    """Per-dimension values of every choice, from whatever parameters it is given; PyTorch's unless told otherwise."""

    def __init__(
        self,
        shape: NetworkShape,
        parameters: Parameters,
        support: Tensor | None,
        critics: Critics | None = None,
        normaliser: ObservationNormaliser | None = None,
    ) -> None:
        self.shape, self.parameters, self.support, self.normaliser = shape, parameters, support, normaliser
        self.device = parameters["input"].device
        self.critics: Critics = TorchCritics(shape, parameters) if critics is None else critics
        self._is_plain = shape.head == "utilities" and not shape.actions.is_padded
        self.exists = torch.from_numpy(shape.actions.exists).to(self.device) if shape.actions.is_padded else None

    def utilities(self, observations: NDArray[np.float32]) -> Tensor:
        """Return utilities [K, B, N, A] for observations [B, D]; a categorical head's expected values."""
        return self._meaning(self._all_outputs(observations))

    def greedy(self, observations: NDArray[np.float32], masks: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return the greedy actions [B, N] of the ensemble's mean utilities, legal under the masks [B, Σ sizes]."""
        return self.greedy_of_mean(observations, None if masks is None else self.shape.actions.legal(masks))

    def greedy_of_mean(
        self, observations: NDArray[np.float32], legal: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64]:
        """Return for every lane the greedy action [N] of the ensemble's mean, among those `legal` [L, N, A]."""
        if self._is_plain and legal is None:
            raw = self._all_outputs(observations)
            return self._best(raw[0] if len(raw) == 1 else raw.mean(axis=0))
        return self._best_legal(self.utilities(observations).mean(dim=0), legal)

    def greedy_of_critics(
        self, observations: NDArray[np.float32], critics: NDArray[np.int64], legal: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64]:
        """Return for every lane the greedy action [N] of the critic drawn for it, among those `legal` [L, N, A]."""
        raw = self.critics.outputs(self.normalise(observations), critics)
        if self._is_plain and legal is None:
            return self._best(raw)
        return self._best_legal(self._meaning(raw[None])[0], legal)

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that actions depend on, by the names that checkpoints give it."""
        sums = {} if self.normaliser is None else self.normaliser.tensors()
        groups = {"online": self.parameters, "observations": sums}
        return {f"{group}.{name}": tensor for group, stack in groups.items() for name, tensor in stack.items()}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over what `tensors` returned."""
        for name, tensor in self.tensors().items():
            tensor.copy_(tensors[name])
        if self.normaliser is not None:
            self.normaliser.settle()

    def normalise(self, observations: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return observations as the critics take them."""
        return observations if self.normaliser is None else self.normaliser(observations)

    def _all_outputs(self, observations: NDArray[np.float32]) -> NDArray[np.float32]:
        return self.critics.all_outputs(self.normalise(observations))

    def _meaning(self, raw: NDArray[np.float32]) -> Tensor:
        """Return utilities [K, B, N, A] from raw outputs [K, B, O]."""
        output = interpret(torch.from_numpy(raw).to(self.device), self.shape, self.exists)
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
