"""The update as PyTorch operations."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.optim.adam import adam

from revalued.algorithms.loss import LossTerms, Predictions, TensorBatch, loss_terms
from revalued.learner.passes import Workspace, backward, even_groups, fold, forward
from revalued.learner.state import ADAM_BETAS, ADAM_EPSILON, LearnerState, Updated, finite_priorities, metrics_of
from revalued.networks import Parameters, interpret, interpret_gradient, part, with_ones, zeros
from revalued.replay import Batch


class _Group(NamedTuple):
    """Critics that go through the passes together: views of their parameters, gradients and memory."""

    critics: slice
    online: Parameters
    target: Parameters
    gradients: Parameters
    work: Workspace
    scratch: Workspace


class TorchEngine:
    """The update on any device, all critics stacked."""

    def __init__(self, state: LearnerState, *, compiled: bool = False) -> None:
        self.state = state
        shape, device, rows = state.shape, state.device, state.config.batch_size
        self._gradients = zeros(shape, device)
        self._merges_online, self._merges_target = state.merges_online, state.merges_target
        work = Workspace.reserve(shape, rows, device, keep_hidden=not self._merges_online)
        scratch = Workspace.reserve(shape, rows, device, keep_hidden=False)
        self._groups = [
            _Group(
                critics,
                part(state.online, critics),
                part(state.target, critics),
                part(self._gradients, critics),
                work.part(critics),
                scratch.part(critics),
            )
            for critics in even_groups(shape.critics, torch.get_num_threads() if device.type == "cpu" else 1)
        ]
        self._differentiate = self._differentiate_plainly
        if compiled:
            mode = "reduce-overhead" if device.type == "cuda" else "default"
            self._differentiate = torch.compile(self._differentiate_plainly, mode=mode)

    def update(self, batch: Batch, updates: int) -> Updated:
        """Do one gradient step."""
        terms = self._differentiate(self.state.to_device(batch))
        priorities = finite_priorities(terms, updates)
        return Updated(priorities, metrics_of(terms, self._step(updates)))

    def critics(self) -> None:
        """Return nothing: PyTorch evaluates the critics."""

    def _differentiate_plainly(self, batch: TensorBatch) -> LossTerms:
        """Compute the loss of the batch and leave its gradient in `_gradients`."""
        state = self.state
        inputs, next_inputs = with_ones(batch.observations), with_ones(batch.next_observations)
        asks_target, asks_online = state.algorithm.beta > 0, state.algorithm.double_q
        target_next, target, online_next, passes, foldings = [], [], [], [], []
        for group in self._groups:
            folding = fold(group.target, merge_input=self._merges_target)
            target_next.append(forward(group.target, folding, next_inputs, group.scratch).output)
            if asks_target:
                target.append(forward(group.target, folding, inputs, group.scratch).output)
            foldings.append(folding := fold(group.online, merge_input=self._merges_online))
            if asks_online:
                online_next.append(forward(group.online, folding, next_inputs, group.scratch).output)
            passes.append(forward(group.online, folding, inputs, group.work))

        def meaning(outputs: list[Tensor]) -> Tensor:
            whole = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
            return interpret(whole, state.shape, state.exists)

        predictions = Predictions(
            meaning([passed.output for passed in passes]),
            meaning(target_next),
            meaning(target) if asks_target else None,
            meaning(online_next) if asks_online else None,
        )
        terms = loss_terms(state.algorithm, predictions, batch, state.exists, state.support)
        gradient = interpret_gradient(terms.gradient, state.shape, state.exists)
        scale = state.shape.trunk_gradient_scale
        for group, folding, passed in zip(self._groups, foldings, passes, strict=True):
            own = gradient[group.critics]
            backward(group.online, folding, passed, own, scale, group.scratch, group.gradients)
        return terms

    def _step(self, updates: int) -> Tensor:
        """Clip each critic's gradient, take one Adam step, move the targets; return the norms [K] before clipping."""
        state, config = self.state, self.state.config
        gradients, online = list(self._gradients.values()), list(state.online.values())
        of_each = [torch.linalg.vector_norm(gradient.flatten(1), dim=1) for gradient in gradients]
        norms: Tensor = torch.linalg.vector_norm(torch.stack(of_each), dim=0)
        # on a CPU it is free to ask whether there is anything to clip; elsewhere asking would wait for the device
        if state.device.type != "cpu" or (norms > config.gradient_clip).any():
            factors = (config.gradient_clip / norms).clamp(max=1.0)[:, None, None]
            for gradient in gradients:
                gradient *= factors
        # fused Adam adds 1 to the number of steps before it uses it
        steps = [torch.tensor(float(updates), device=state.device) for _ in online]
        adam(
            online, gradients, list(state.first_moment.values()), list(state.second_moment.values()), [], steps,
            fused=True, amsgrad=False, beta1=ADAM_BETAS[0], beta2=ADAM_BETAS[1], lr=config.learning_rate,
            weight_decay=0.0, eps=ADAM_EPSILON, maximize=False,
        )  # fmt: skip
        torch._foreach_lerp_(list(state.target.values()), online, config.target_update_rate)
        return norms
