"""The learner: the only owner of the online and target parameters, the optimiser, and the priorities it hands back."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from revalued.actions import FactorisedActions
from revalued.algorithms.objective import Predictions, TensorBatch, loss_terms
from revalued.config import AlgorithmConfig, LearnerConfig
from revalued.networks import NetworkShape, Parameters, initialise, predict
from revalued.replay import Batch

ADAM_BETAS = (0.9, 0.999)
ADAM_EPSILON = 1e-8


class NonFiniteError(RuntimeError):
    """Learning has diverged: a loss, a priority or a parameter is no longer a finite number."""


class Learner:
    """Stacked critics and their targets, updated together by one optimiser."""

    def __init__(
        self,
        algorithm: AlgorithmConfig,
        config: LearnerConfig,
        shape: NetworkShape,
        support: tuple[float, float] | None,
        seed: int,
        device: torch.device,
    ) -> None:
        self.algorithm, self.config, self.shape, self.device = algorithm, config, shape, device
        self.updates = 0
        self.online = initialise(shape, torch.Generator().manual_seed(seed), device)
        self.target = {name: tensor.clone() for name, tensor in self.online.items()}
        self.first_moment = {name: torch.zeros_like(tensor) for name, tensor in self.online.items()}
        self.second_moment = {name: torch.zeros_like(tensor) for name, tensor in self.online.items()}
        for tensor in self.online.values():
            tensor.requires_grad_()
        self.exists = _exists(shape.actions, device)
        self.support = None if support is None else torch.linspace(*support, shape.atoms, device=device)

    def update(self, batch: Batch) -> tuple[NDArray[np.float32], dict[str, Tensor]]:
        """Do one gradient step on the batch; return its new priorities [B] and figures for the log."""
        tensors = self._to_device(batch)
        terms = loss_terms(self.algorithm, self._predict(tensors), tensors, self.exists, self.support)
        gradients = torch.autograd.grad(terms.loss, list(self.online.values()))
        norms = self._apply(dict(zip(self.online, gradients, strict=True)))
        self.updates += 1
        priorities: NDArray[np.float32] = terms.priorities.cpu().numpy()
        if not np.isfinite(priorities).all():
            raise NonFiniteError(f"the TD errors of update {self.updates:,} are not finite: learning has diverged")
        metrics = {"loss": terms.loss.detach(), **terms.metrics, "gradient_norm": norms.mean()}
        return priorities, metrics

    def _predict(self, batch: TensorBatch) -> Predictions:
        online = predict(self.online, batch.observations, self.shape)
        with torch.no_grad():
            target_next = predict(self.target, batch.next_observations, self.shape)
            target = predict(self.target, batch.observations, self.shape) if self.algorithm.beta > 0 else None
            double = self.algorithm.double_q
            online_next = predict(self.online, batch.next_observations, self.shape) if double else None
        return Predictions(online, target_next, target, online_next)

    @torch.no_grad()
    def _apply(self, gradients: Parameters) -> Tensor:
        """Clip each critic's gradient, take one Adam step, move the targets; return the norms [K] before clipping."""
        names = list(self.online)
        squares = [gradients[name].flatten(1).square().sum(dim=1) for name in names]
        norms = torch.stack(squares).sum(dim=0).sqrt()
        factors = (self.config.gradient_clip / norms.clamp(min=1e-12)).clamp(max=1.0)[:, None, None]
        clipped = [gradients[name].mul_(factors) for name in names]
        online = [self.online[name] for name in names]
        first = [self.first_moment[name] for name in names]
        second = [self.second_moment[name] for name in names]
        step = self.updates + 1
        beta1, beta2 = ADAM_BETAS
        torch._foreach_lerp_(first, clipped, 1 - beta1)
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, clipped, clipped, 1 - beta2)
        correction1, correction2 = 1 - beta1**step, math.sqrt(1 - beta2**step)
        denominators = torch._foreach_sqrt(second)
        torch._foreach_div_(denominators, correction2)
        torch._foreach_add_(denominators, ADAM_EPSILON)
        torch._foreach_addcdiv_(online, first, denominators, -self.config.learning_rate / correction1)
        torch._foreach_lerp_([self.target[name] for name in names], online, self.config.target_update_rate)
        return norms

    def _to_device(self, batch: Batch) -> TensorBatch:
        # torch owns aligned copies: matrix products may round differently for buffers of another alignment
        def copy(array: NDArray[np.generic]) -> Tensor:
            return torch.tensor(array, device=self.device)

        return TensorBatch(
            copy(batch.observations), copy(batch.actions), copy(batch.returns), copy(batch.discounts),
            copy(batch.next_observations), copy(batch.weights),
        )  # fmt: skip

    def check_finite(self) -> None:
        """Raise if any parameter is not a finite number; called before a checkpoint is written."""
        for name, tensor in self.online.items():
            if not torch.isfinite(tensor).all():
                raise NonFiniteError(f"parameter {name} is not finite after update {self.updates:,}")

    def tensors(self) -> dict[str, Tensor]:
        """Return all learned state by name, for a checkpoint."""
        groups = self._groups()
        return {f"{group}.{name}": tensor.detach() for group, named in groups.items() for name, tensor in named.items()}

    @torch.no_grad()
    def load_tensors(self, tensors: Mapping[str, Tensor], updates: int) -> None:
        """Take over the state that `tensors` returned after that many updates."""
        for name, tensor in self.tensors().items():
            if name not in tensors or tensors[name].shape != tensor.shape:
                raise ValueError(f"the checkpoint's {name} does not fit this network")
            tensor.copy_(tensors[name])
        self.updates = updates

    def _groups(self) -> dict[str, Parameters]:
        return {
            "online": self.online,
            "target": self.target,
            "adam.first_moment": self.first_moment,
            "adam.second_moment": self.second_moment,
        }


def _exists(actions: FactorisedActions, device: torch.device) -> Tensor | None:
    return torch.from_numpy(actions.exists).to(device) if actions.is_padded else None
