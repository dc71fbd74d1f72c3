"""The learner: the only owner of the online and target parameters, the optimiser, and the priorities it hands back.

On a CPU the work is cut into parts, one critic each (an odd critic out is cut into two halves of the batch), and a few
threads carry them out, each with single-threaded matrix products. A part stays in its core's cache from the forward
pass to Adam, and results do not depend on the number of threads. On CUDA all critics are one part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.adam import adam

from revalued.algorithms.objective import Predictions, TensorBatch, loss_terms
from revalued.config import AlgorithmConfig, LearnerConfig
from revalued.networks import NetworkShape, Parameters, initialise, interpret, interpret_gradient, with_ones
from revalued.parallel import Threads
from revalued.passes import Folding, Pass, Workspace, backward, fold, forward, merging_pays
from revalued.replay import Batch

ADAM_BETAS = (0.9, 0.999)
ADAM_EPSILON = 1e-8


class NonFiniteError(RuntimeError):
    """Learning has diverged: a loss, a priority or a parameter is no longer a finite number."""


@dataclass(frozen=True)
class Part:
    """Some critics and some of the batch, computed together; views of everything that belongs to them."""

    critics: slice
    blocks: list[slice]  # rows of the batch, worked on one after the other
    online: Parameters
    target: Parameters
    gradients: Parameters
    work: list[Workspace]  # per block, from the online forward pass to the backward pass
    scratch: list[Workspace]  # per block, for what is needed only for a moment; all parts of a thread share it


@dataclass(frozen=True)
class Outputs:
    """Raw head outputs of all critics for the whole batch, [K, B, O]; filled in by the parts."""

    online: Tensor
    target_next: Tensor
    target: Tensor | None
    online_next: Tensor | None


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
        threads: int = 1,
    ) -> None:
        self.algorithm, self.config, self.shape, self.device = algorithm, config, shape, device
        self.updates = 0
        self.online = initialise(shape, torch.Generator().manual_seed(seed), device)
        self.target = Parameters(self.online.rows.clone(), shape)
        self.first_moment = Parameters.zeros(shape, device)
        self.second_moment = Parameters.zeros(shape, device)
        self.exists = torch.from_numpy(shape.actions.exists).to(device) if shape.actions.is_padded else None
        self.support = None if support is None else torch.linspace(*support, shape.atoms, device=device)
        self._merge_online = merging_pays(shape, config.batch_size, backward=True)
        target_rows = config.batch_size * (2 if algorithm.beta > 0 else 1)
        self._merge_target = merging_pays(shape, target_rows, backward=False)
        self._threads = Threads(threads)
        self._parts = self._cut_into_parts()
        size = (shape.critics, config.batch_size, shape.head_size)
        self._outputs = Outputs(
            online=torch.empty(size, device=device),
            target_next=torch.empty(size, device=device),
            target=torch.empty(size, device=device) if algorithm.beta > 0 else None,
            online_next=torch.empty(size, device=device) if algorithm.double_q else None,
        )

    def _cut_into_parts(self) -> list[Part]:
        critics, size = self.shape.critics, self.config.batch_size
        if self.device.type != "cpu":
            return [self._part(slice(0, critics), [slice(0, size)], self._workspace(critics, size))]
        # half of the paper's batch keeps a layer's activations and weights together in a core's cache
        halves = [slice(0, size - size // 2), slice(size - size // 2, size)] if size > 1 else [slice(0, 1)]
        cuts = [(slice(k, k + 1), halves) for k in range(critics - critics % 2)]
        if critics % 2 == 1:
            cuts += [(slice(critics - 1, critics), [half]) for half in halves]
        scratches = [self._workspace(1, halves[0].stop) for _ in range(self._threads.count)]
        return [self._part(*cut, scratches[number % len(scratches)]) for number, cut in enumerate(cuts)]

    def _part(self, critics: slice, blocks: list[slice], scratch: Workspace) -> Part:
        count = critics.stop - critics.start
        return Part(
            critics,
            blocks,
            self.online.of(critics),
            self.target.of(critics),
            Parameters.zeros(self.shape, self.device, count),
            [self._workspace(count, rows.stop - rows.start, merged=self._merge_online) for rows in blocks],
            [scratch.first(rows.stop - rows.start) for rows in blocks],
        )

    def _workspace(self, critics: int, rows: int, *, merged: bool = True) -> Workspace:
        return Workspace.make(self.shape, critics, rows, self.device, merged=merged)

    @torch.no_grad()
    def update(self, batch: Batch) -> tuple[NDArray[np.float32], dict[str, Tensor]]:
        """Do one gradient step on the batch; return its new priorities [B] and figures for the log."""
        tensors = self._to_device(batch)
        inputs, next_inputs = with_ones(tensors.observations), with_ones(tensors.next_observations)
        kept = self._threads.map(lambda part: self._predict(part, inputs, next_inputs), self._parts)
        terms = loss_terms(self.algorithm, self._interpret(self._outputs), tensors, self.exists, self.support)
        priorities: NDArray[np.float32] = terms.priorities.cpu().numpy()
        if not np.isfinite(priorities).all():
            raise NonFiniteError(f"the TD errors of update {self.updates + 1:,} are not finite: learning has diverged")
        self.updates += 1
        norms = self._learn(kept, interpret_gradient(terms.gradient, self.shape, self.exists))
        return priorities, {"loss": terms.loss, **terms.metrics, "gradient_norm": norms.mean()}

    def _predict(self, part: Part, inputs: Tensor, next_inputs: Tensor) -> tuple[Folding, list[Pass]]:
        """Fill in a part of the outputs; return what its backward pass needs."""
        online, target, outputs = part.online, part.target, self._outputs
        target_folding = fold(target, merge_input=self._merge_target)
        folding = fold(online, merge_input=self._merge_online)
        passes = []
        for rows, work, scratch in zip(part.blocks, part.work, part.scratch, strict=True):
            place = (part.critics, rows)
            outputs.target_next[place] = forward(target, target_folding, next_inputs[rows], scratch).output
            if outputs.target is not None:
                outputs.target[place] = forward(target, target_folding, inputs[rows], scratch).output
            if outputs.online_next is not None:
                outputs.online_next[place] = forward(online, folding, next_inputs[rows], work).output
            passed = forward(online, folding, inputs[rows], work)
            outputs.online[place] = passed.output
            passes.append(passed)
        return folding, passes

    def _interpret(self, outputs: Outputs) -> Predictions:
        def meaning(output: Tensor | None) -> Tensor | None:
            return None if output is None else interpret(output, self.shape, self.exists)

        online, target_next = (interpret(raw, self.shape, self.exists) for raw in (outputs.online, outputs.target_next))
        return Predictions(online, target_next, meaning(outputs.target), meaning(outputs.online_next))

    def _learn(self, kept: list[tuple[Folding, list[Pass]]], raw_gradient: Tensor) -> Tensor:
        """Carry the gradient back through every part and take the step; return the gradient norms [K]."""
        norms = torch.empty(self.shape.critics, device=self.device)
        halves = self._parts[-2:] if len(self._parts) > self.shape.critics else []

        def work(number: int) -> None:
            part, (folding, passes) = self._parts[number], kept[number]
            for rows, passed, scratch in zip(part.blocks, passes, part.scratch, strict=True):
                gradient, again = raw_gradient[part.critics, rows], rows != part.blocks[0]
                backward(part.online, folding, passed, gradient, scratch, part.gradients, add=again)
            if part not in halves:
                gradients = part.gradients.rows
                norms[part.critics] = norm = torch.linalg.vector_norm(gradients, dim=1)
                self._step(part.critics, slice(None), gradients, norm)

        self._threads.map(work, range(len(self._parts)))
        if halves:
            norms[-1:] = self._step_of_halves(halves[0].gradients.rows, halves[1].gradients.rows)
        return norms

    def _step_of_halves(self, first: Tensor, second: Tensor) -> Tensor:
        """Step with the last critic, whose gradient comes in two halves; its parameters are shared out instead."""
        middle, last = first.shape[1] // 2, slice(self.shape.critics - 1, self.shape.critics)
        columns = [slice(0, middle), slice(middle, None)]

        def add(piece: slice) -> Tensor:
            norm: Tensor = torch.linalg.vector_norm(first[:, piece].add_(second[:, piece]), dim=1)
            return norm

        norm = torch.hypot(*self._threads.map(add, columns))
        self._threads.map(lambda piece: self._step(last, piece, first[:, piece], norm), columns)
        return norm

    def _step(self, critics: slice, columns: slice, gradients: Tensor, norms: Tensor) -> None:
        """Clip by the critics' norms, take one Adam step, move the targets, for some columns of the parameters."""
        if self.device.type != "cpu" or (norms > self.config.gradient_clip).any():
            gradients *= (self.config.gradient_clip / norms).clamp(max=1.0)[:, None]
        place = (critics, columns)
        online = self.online.rows[place]
        adam(
            [online], [gradients], [self.first_moment.rows[place]], [self.second_moment.rows[place]], [],
            # fused Adam adds 1 to the number of steps before it uses it
            [torch.tensor(float(self.updates - 1), device=self.device)],
            fused=True, amsgrad=False, beta1=ADAM_BETAS[0], beta2=ADAM_BETAS[1], lr=self.config.learning_rate,
            weight_decay=0.0, eps=ADAM_EPSILON, maximize=False,
        )  # fmt: skip
        self.target.rows[place].lerp_(online, self.config.target_update_rate)

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
        for name, tensor in self.online.named.items():
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
        return {f"{group}.{name}": tensor for group, stack in groups.items() for name, tensor in stack.named.items()}

    def load_tensors(self, tensors: Mapping[str, Tensor], updates: int) -> None:
        """Take over the state that `tensors` returned after that many updates."""
        own = self.tensors()
        for name, tensor in own.items():
            if name not in tensors or tensors[name].shape != tensor.shape:
                raise ValueError(f"the checkpoint's {name} does not fit this network")
        for name, tensor in own.items():
            tensor.copy_(tensors[name])
        self.updates = updates
