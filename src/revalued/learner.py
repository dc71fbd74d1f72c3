"""The learner: the only owner of the online and target parameters, the optimiser, and the priorities it hands back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.adam import adam

from revalued.algorithms.objective import LossTerms, Predictions, TensorBatch, loss_terms
from revalued.config import AlgorithmConfig, LearnerConfig
from revalued.networks import (
    NetworkShape,
    Parameters,
    initialise,
    interpret,
    interpret_gradient,
    part,
    with_ones,
    zeros,
)
from revalued.passes import Workspace, backward, even_groups, fold, forward, merging_pays
from revalued.replay import Batch

ADAM_BETAS = (0.9, 0.999)
ADAM_EPSILON = 1e-8


class NonFiniteError(RuntimeError):
    """Learning has diverged: a loss, a priority or a parameter is no longer a finite number."""


class _Group(NamedTuple):
    """Critics that go through the passes together: views of their parameters, gradients and memory."""

    critics: slice
    online: Parameters
    target: Parameters
    gradients: Parameters
    work: Workspace
    scratch: Workspace


class Learner:
    """Stacked critics and their targets, updated together."""

    def __init__(
        self,
        algorithm: AlgorithmConfig,
        config: LearnerConfig,
        shape: NetworkShape,
        support: tuple[float, float] | None,
        seed: int,
        device: torch.device,
        *,
        compile_update: bool = False,
    ) -> None:
        self.algorithm, self.config, self.shape, self.device = algorithm, config, shape, device
        self.updates = 0
        self.online = initialise(shape, torch.Generator().manual_seed(seed), device)
        self.target = {name: tensor.clone() for name, tensor in self.online.items()}
        self.first_moment, self.second_moment = zeros(shape, device), zeros(shape, device)
        self.exists = torch.from_numpy(shape.actions.exists).to(device) if shape.actions.is_padded else None
        self.support = None if support is None else torch.linspace(*support, shape.atoms, device=device)
        self._gradients = zeros(shape, device)
        self._merge_online = merging_pays(shape, config.batch_size, backward=True)
        target_rows = config.batch_size * (2 if algorithm.beta > 0 else 1)
        self._merge_target = merging_pays(shape, target_rows, backward=False)
        work = Workspace.reserve(shape, config.batch_size, device, keep_hidden=not self._merge_online)
        scratch = Workspace.reserve(shape, config.batch_size, device, keep_hidden=False)
        self._groups = [
            _Group(
                critics,
                part(self.online, critics),
                part(self.target, critics),
                part(self._gradients, critics),
                work.part(critics),
                scratch.part(critics),
            )
            for critics in even_groups(shape.critics, torch.get_num_threads() if device.type == "cpu" else 1)
        ]
        self._differentiate = self._differentiate_plainly
        if compile_update:
            mode = "reduce-overhead" if device.type == "cuda" else "default"
            self._differentiate = torch.compile(self._differentiate_plainly, mode=mode)

    @torch.no_grad()
    def update(self, batch: Batch) -> tuple[NDArray[np.float32], dict[str, Tensor]]:
        """Do one gradient step on the batch; return its new priorities [B] and figures for the log."""
        terms = self._differentiate(self._to_device(batch))
        priorities: NDArray[np.float32] = terms.priorities.cpu().numpy()
        if not np.isfinite(priorities).all():
            raise NonFiniteError(f"the TD errors of update {self.updates + 1:,} are not finite: learning has diverged")
        norms = self._step()
        return priorities, {"loss": terms.loss, **terms.metrics, "gradient_norm": norms.mean()}

    def _differentiate_plainly(self, batch: TensorBatch) -> LossTerms:
        """Compute the loss and leave its gradient in `_gradients`."""
        inputs, next_inputs = with_ones(batch.observations), with_ones(batch.next_observations)
        asks_target, asks_online = self.algorithm.beta > 0, self.algorithm.double_q
        target_next, target, online_next, passes, foldings = [], [], [], [], []
        for group in self._groups:
            folding = fold(group.target, merge_input=self._merge_target)
            target_next.append(forward(group.target, folding, next_inputs, group.scratch).output)
            if asks_target:
                target.append(forward(group.target, folding, inputs, group.scratch).output)
            foldings.append(folding := fold(group.online, merge_input=self._merge_online))
            if asks_online:
                online_next.append(forward(group.online, folding, next_inputs, group.scratch).output)
            passes.append(forward(group.online, folding, inputs, group.work))

        def meaning(outputs: list[Tensor]) -> Tensor:
            whole = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
            return interpret(whole, self.shape, self.exists)

        predictions = Predictions(
            meaning([passed.output for passed in passes]),
            meaning(target_next),
            meaning(target) if asks_target else None,
            meaning(online_next) if asks_online else None,
        )
        terms = loss_terms(self.algorithm, predictions, batch, self.exists, self.support)
        gradient = interpret_gradient(terms.gradient, self.shape, self.exists)
        scale = self.shape.trunk_gradient_scale
        for group, folding, passed in zip(self._groups, foldings, passes, strict=True):
            own = gradient[group.critics]
            backward(group.online, folding, passed, own, scale, group.scratch, group.gradients)
        return terms

    def _step(self) -> Tensor:
        """Clip each critic's gradient, take one Adam step, move the targets; return the norms [K] before clipping."""
        gradients, online = list(self._gradients.values()), list(self.online.values())
        of_each = [torch.linalg.vector_norm(gradient.flatten(1), dim=1) for gradient in gradients]
        norms: Tensor = torch.linalg.vector_norm(torch.stack(of_each), dim=0)
        # on a CPU it is free to ask whether there is anything to clip; elsewhere asking would wait for the device
        if self.device.type != "cpu" or (norms > self.config.gradient_clip).any():
            factors = (self.config.gradient_clip / norms).clamp(max=1.0)[:, None, None]
            for gradient in gradients:
                gradient *= factors
        # fused Adam adds 1 to the number of steps before it uses it
        steps = [torch.tensor(float(self.updates), device=self.device) for _ in online]
        adam(
            online, gradients, list(self.first_moment.values()), list(self.second_moment.values()), [], steps,
            fused=True, amsgrad=False, beta1=ADAM_BETAS[0], beta2=ADAM_BETAS[1], lr=self.config.learning_rate,
            weight_decay=0.0, eps=ADAM_EPSILON, maximize=False,
        )  # fmt: skip
        torch._foreach_lerp_(list(self.target.values()), online, self.config.target_update_rate)
        self.updates += 1
        return norms

    def _to_device(self, batch: Batch) -> TensorBatch:
        # torch owns aligned copies: matrix products may round differently for buffers of another alignment
        def copy(array: NDArray[np.generic]) -> Tensor:
            return torch.tensor(array, device=self.device)

        return TensorBatch(
            copy(batch.observations), copy(batch.actions), copy(batch.returns), copy(batch.discounts),
            copy(batch.next_observations), copy(batch.weights),
            None if batch.next_masks is None else copy(self.shape.actions.legal(batch.next_masks)),
        )  # fmt: skip

    def check_finite(self) -> None:
        """Raise if any parameter is not a finite number; called before a checkpoint is written."""
        for name, tensor in self.online.items():
            if not torch.isfinite(tensor).all():
                raise NonFiniteError(f"parameter {name} is not finite after update {self.updates:,}")

    def tensors(self) -> dict[str, Tensor]:
        """Return all learned state by name, for a checkpoint."""
        groups = {
            "online": self.online,
            "target": self.target,
            "adam.first_moment": self.first_moment,
            "adam.second_moment": self.second_moment,
        }
        return {f"{group}.{name}": tensor for group, stack in groups.items() for name, tensor in stack.items()}

    def load_tensors(self, tensors: Mapping[str, Tensor], updates: int) -> None:
        """Take over the state that `tensors` returned after that many updates."""
        own = self.tensors()
        for name, tensor in own.items():
            if name not in tensors or tensors[name].shape != tensor.shape:
                raise ValueError(f"the checkpoint's {name} does not fit this network")
        for name, tensor in own.items():
            tensor.copy_(tensors[name])
        self.updates = updates
