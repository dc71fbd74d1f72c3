"""The update, said plainly: predict, compute the loss, differentiate, clip, take a step of Adam, move the targets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from revalued.algorithms.loss import LossTerms, Predictions, TensorBatch, loss_terms
from revalued.config import AlgorithmConfig
from revalued.learner.engine import ADAM_BETAS, ADAM_EPSILON, Updated, finite_priorities, metrics_of, to_tensors
from revalued.networks import NetworkShape, Parameters, decayed_weights, predict
from revalued.replay import Batch

if TYPE_CHECKING:
    from revalued.learner.learner import Learner


class TorchEngine:
    """The update on any device, all critics stacked."""

    def __init__(self, learner: Learner, *, compiled: bool = False) -> None:
        self.learner = learner
        # the learner's own memory, but here it is differentiated with respect to it
        self._online = {name: tensor.detach().requires_grad_() for name, tensor in learner.online.items()}
        self._optimiser = torch.optim.Adam(
            self._online.values(), learner.config.learning_rate, ADAM_BETAS, ADAM_EPSILON, fused=True
        )
        for name, parameter in self._online.items():
            self._optimiser.state[parameter] = {
                "step": torch.zeros((), device=learner.device),
                "exp_avg": learner.first_moment[name],
                "exp_avg_sq": learner.second_moment[name],
            }
        self._compute_loss = self._loss
        if compiled:
            mode = "reduce-overhead" if learner.device.type == "cuda" else "default"
            self._compute_loss = torch.compile(self._loss, mode=mode)

    def critics(self) -> None:
        """Return nothing: PyTorch evaluates the critics."""

    def update(self, batch: Batch, updates: int) -> Updated:
        """Do one gradient step."""
        learner = self.learner
        self._optimiser.zero_grad()
        with torch.enable_grad():
            drawn = learner.drawn_critics(updates)
            terms = self._compute_loss(
                to_tensors(batch, learner.shape.actions, learner.device),
                None if drawn is None else torch.tensor(drawn, device=learner.device),
            )
            terms.loss.backward()  # type: ignore[no-untyped-call]
        priorities = finite_priorities(terms, updates)
        norms = self._clip()
        for weight in decayed_weights(learner.online) if learner.config.weight_decay else ():
            weight *= 1 - learner.config.learning_rate * learner.config.weight_decay
        for state in self._optimiser.state.values():
            state["step"].fill_(updates)  # those that a checkpoint has behind it count too
        self._optimiser.step()
        for name, target in learner.target.items():
            target.lerp_(learner.online[name], learner.target_rate)
        return priorities, metrics_of(terms, norms)

    def _loss(self, batch: TensorBatch, drawn: Tensor | None) -> LossTerms:
        """Ask the critics for what the algorithm wants to know, and return the loss."""
        learner = self.learner
        predictions = ask_critics(learner.algorithm, self._online, learner.target, batch, learner.shape, learner.exists)
        predictions = replace(predictions, drawn=drawn)
        return loss_terms(learner.algorithm, predictions, batch, learner.exists, learner.support)

    def _clip(self) -> Tensor:
        """Clip each critic's gradient by its own norm; return the norms [K] before."""
        gradients = [parameter.grad for parameter in self._online.values() if parameter.grad is not None]
        of_each = [torch.linalg.vector_norm(gradient.flatten(1), dim=1) for gradient in gradients]
        norms: Tensor = torch.linalg.vector_norm(torch.stack(of_each), dim=0)
        factors = (self.learner.config.gradient_clip / norms).clamp(max=1.0)[:, None, None]
        # on a CPU it is free to ask whether there is anything to clip; elsewhere asking would wait for the device
        if norms.device.type != "cpu" or (factors < 1).any():
            for gradient in gradients:
                gradient *= factors
        return norms


def ask_critics(
    algorithm: AlgorithmConfig,
    online: Parameters,
    target: Parameters,
    batch: TensorBatch,
    shape: NetworkShape,
    exists: Tensor | None,
) -> Predictions:
    """Return what the critics say about a batch, as far as the algorithm wants to know; only `online` is learnt."""
    target_now, online_next = None, None
    with torch.no_grad():
        target_next = predict(target, batch.next_observations, shape, exists)
        if algorithm.is_regularised:
            target_now = predict(target, batch.observations, shape, exists)
        if algorithm.double_q:
            online_next = predict(online, batch.next_observations, shape, exists)
    return Predictions(predict(online, batch.observations, shape, exists), target_next, target_now, online_next)
