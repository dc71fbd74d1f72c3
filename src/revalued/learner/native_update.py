"""The engine that updates in C."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from revalued.algorithms.loss import Predictions, loss_terms
from revalued.learner.engine import (
    ADAM_BETAS,
    ADAM_EPSILON,
    Updated,
    finite_priorities,
    metrics_of,
    non_finite,
    to_tensors,
)
from revalued.learner.metrics import Metrics
from revalued.native import layout
from revalued.native.acting import NativeCritics
from revalued.native.layout import Memory, ParametersC, address, aligned, array_address
from revalued.native.library import load
from revalued.native.merging import MergedLayers, merging_pays, writes_to
from revalued.networks import LAYER_NORM_EPSILON, interpret
from revalued.replay import Batch

if TYPE_CHECKING:
    from revalued.learner.learner import Learner

ROWS_AT_A_TIME = 256
"""Rows that go through a critic together: enough for fast products, few enough to stay in a core's cache."""
_ROWS_OF_A_PART, _WHOLE_UNIT = 128, 4
_WIDTH_UNIT = 16
_METRICS = ("loss", "td_loss", "mean_q", "td_error", "regulariser", "mean_target", "gradient_norm")

_NOT_FINITE = {-1: "targets", -2: "TD errors", -3: "gradients"}
"""What the library's answers mean."""


@contextmanager
def _one_thread() -> Iterator[None]:
    """PyTorch's sums round differently with another number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class NativeEngine:
    """The update in C: all of it where utilities are averaged or added up, else all but the loss."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self._library, self._memory = learner, load(), Memory()
        shape, rows = learner.shape, learner.config.batch_size
        # How the work is cut depends on the sizes alone, so that the number of threads changes no bit: a critic is one
        # part, unless it is one of the last few that do not go evenly into most numbers of threads.
        self._parts = max(1, rows // _ROWS_OF_A_PART)
        self._threads = min(torch.get_num_threads(), shape.critics * self._parts)
        self._computes_loss = shape.head == "utilities" and learner.algorithm.decomposition in ("mean", "sum", "atomic")
        # with the loss in C a critic is done with before the next one begins, and they share memory
        self._places = self._threads if self._computes_loss else shape.critics
        critics, outputs = shape.critics, (rows, shape.head_size)
        # of the next states and, for the regulariser, of those now
        target_passes = 2 if learner.algorithm.is_regularised else 1
        self._target = torch.zeros(critics, target_passes, *outputs)
        self._online_next = torch.zeros(critics, *outputs) if learner.algorithm.double_q else None
        kept = torch.zeros(2, self._places, aligned(math.prod(outputs)))
        self._output, self._output_gradient = kept[..., : math.prod(outputs)].view(2, self._places, *outputs).unbind()
        # next and now; the last column carries the input layer's bias
        self._observations = torch.ones(2, rows, shape.observation_size + 1)
        self._next, self._now = self._observations.numpy()[..., :-1]
        self._exists = shape.actions.exists if shape.actions.is_padded else None
        self._norms, self._metrics = np.zeros(critics, np.float32), np.zeros(len(_METRICS))
        self._logged = [
            i for i, name in enumerate(_METRICS) if name != "regulariser" or learner.algorithm.is_regularised
        ]
        self._names = [_METRICS[i] for i in self._logged]
        self._merged = self._merged_target = None
        if merging_pays(shape, rows, backward=True):
            self._merged = MergedLayers(shape, learner.online)
        if merging_pays(shape, rows * target_passes, backward=False):
            self._merged_target = MergedLayers(shape, learner.target)
        self._update, self._loss, self._step = self._lay_out(), self._lay_out_loss(), self._lay_out_step()
        self._folded = [*learner.online.values(), *learner.target.values()]
        self._folded_after: list[int] | None = None

    def _lay_out(self) -> layout.UpdateC:
        learner, reserve, places = self.learner, self._memory.reserve, self._memory.reserve_places
        shape, rows, threads = learner.shape, learner.config.batch_size, self._threads
        critics, inputs, hidden, outputs = shape.critics, shape.observation_size + 1, shape.hidden_size, shape.head_size
        width = -(-(outputs + 1) // _WIDTH_UNIT) * _WIDTH_UNIT
        block = min(ROWS_AT_A_TIME, rows)

        def folding(merged: MergedLayers | None) -> layout.FoldingC:
            return layout.FoldingC(
                block1=None if merged is None else merged.address,
                head_weight=reserve(critics, hidden, width),
                head_bias=reserve(critics, outputs),
            )

        kept_hidden = places(self._places, rows, hidden)
        kept = layout.KeptC(
            hidden=kept_hidden,
            block1=places(self._places, rows, hidden),
            block2=places(self._places, rows, hidden),
            features=kept_hidden if self._merged is not None else places(self._places, rows, hidden),
            mean=places(self._places, rows),
            inverse_deviation=places(self._places, rows),
            output=self._output.data_ptr(),
            output_gradient=self._output_gradient.data_ptr(),
        )
        scratch = layout.ScratchC(
            hidden=places(threads, block, hidden),
            block1=places(threads, block, hidden),
            block2=places(threads, block, hidden),
            raw=places(threads, block, width),
            mean=places(threads, block),
            inverse_deviation=places(threads, block),
            outputs=places(threads, 2, outputs),
        )
        backward = layout.BackwardC(
            scaled=places(threads, rows, width),
            upstream=places(threads, rows, width),
            residual=places(threads, rows, hidden),
            block1=places(threads, rows, hidden),
            merged=places(threads, inputs, hidden),
            head=places(threads, hidden, width),
            squares=reserve(threads, self._parts, dtype=torch.float64),
        )
        return layout.UpdateC(
            threads=threads,
            critics=critics,
            rows=rows,
            inputs=inputs,
            hidden=hidden,
            outputs=outputs,
            whole=critics - critics % _WHOLE_UNIT,
            parts=self._parts,
            width=width,
            block=block,
            epsilon=LAYER_NORM_EPSILON,
            trunk_scale=shape.trunk_gradient_scale,
            online=ParametersC.of(learner.online),
            target=ParametersC.of(learner.target),
            first_moment=ParametersC.of(learner.first_moment),
            second_moment=ParametersC.of(learner.second_moment),
            gradients=ParametersC(
                **{name.replace(".", "_"): places(threads, *size) for name, size in shape.sizes().items()}
            ),
            online_folding=folding(self._merged),
            target_folding=folding(self._merged_target),
            kept=kept,
            scratch=scratch,
            backward=backward,
            observations=address(self._observations),
            target_next=address(self._target),
            online_next=address(self._online_next),
            target_passes=self._target.shape[1],
        )

    def _lay_out_loss(self) -> layout.LossC:
        algorithm, actions = self.learner.algorithm, self.learner.shape.actions
        critics, rows = self.learner.shape.critics, self.learner.config.batch_size
        return layout.LossC(
            dimensions=actions.num_dimensions,
            choices=actions.max_choices,
            mean_of_max=algorithm.ensemble_target == "mean-of-max",
            adds=algorithm.decomposition == "sum",
            quadratic=algorithm.regulariser_weight == "quadratic",
            reduces_by_mean=algorithm.regulariser_reduction == "mean",
            beta=algorithm.beta,
            temperature=algorithm.regulariser_temperature,
            targets=self._memory.reserve(rows),
            errors=self._memory.reserve(critics, rows),
            sums=self._memory.reserve(critics, self._parts, len(_METRICS) - 1, dtype=torch.float64),
            metrics=array_address(self._metrics, np.float64),
        )

    def _lay_out_step(self) -> layout.StepC:
        config = self.learner.config
        return layout.StepC(
            clip=config.gradient_clip,
            rate1=1 - ADAM_BETAS[0],
            rate2=1 - ADAM_BETAS[1],
            epsilon=ADAM_EPSILON,
            target_rate=self.learner.target_rate,
            keep=1 - config.learning_rate * config.weight_decay,
            norms=array_address(self._norms, np.float32),
        )

    def critics(self) -> NativeCritics:
        """Return the online critics, which share what this engine has multiplied."""
        return NativeCritics(self.learner.shape, self.learner.online, self._merged)

    def _count_writes(self) -> None:
        """Let all others know that an update has written; what is folded here belongs to what it wrote."""
        increment_version(self._folded)
        self._folded_after = list(map(writes_to, self._folded))
        if self._merged is not None:
            self._merged.take_as_current()

    def update(self, batch: Batch, updates: int) -> Updated:
        """Do one gradient step."""
        if len(batch.rows) != self.learner.config.batch_size:
            raise ValueError(f"expected {self.learner.config.batch_size} transitions, not {len(batch.rows)}")
        self._now[:], self._next[:] = batch.observations, batch.next_observations
        if list(map(writes_to, self._folded)) != self._folded_after:  # by others than the last update, which folds too
            self._library.revalued_fold(byref(self._update))
        self._step.step_size = self.learner.config.learning_rate / (1 - ADAM_BETAS[0] ** (updates + 1))
        self._step.correction2 = math.sqrt(1 - ADAM_BETAS[1] ** (updates + 1))
        return (self._whole if self._computes_loss else self._in_halves)(batch, updates)

    def _whole(self, batch: Batch, updates: int) -> Updated:
        loss, priorities = self._loss, np.empty(len(batch.rows), np.float32)
        if batch.next_masks is None:
            legal, loss.legal_stride = self._exists, 0
        else:
            legal, loss.legal_stride = (
                self.learner.shape.actions.legal(batch.next_masks),
                loss.dimensions * loss.choices,
            )
        loss.actions = array_address(batch.actions, np.int64)
        loss.returns = array_address(batch.returns, np.float32)
        loss.discounts = array_address(batch.discounts, np.float32)
        loss.weights = array_address(batch.weights, np.float32)
        loss.legal = None if legal is None else array_address(legal, np.bool_)
        loss.priorities = array_address(priorities, np.float32)
        drawn = self.learner.drawn_critics(updates)
        if drawn is not None:
            loss.drawn, loss.num_drawn = array_address(drawn, np.int64), len(drawn)
        result = self._library.revalued_update(byref(self._update), byref(loss), byref(self._step))
        self._count_writes()
        if result > 0:
            raise IndexError(f"{result} sub-actions of the batch are none of the {loss.choices} choices")
        if result < 0:
            raise non_finite(_NOT_FINITE[result], updates)
        return priorities, Metrics(self._names, self._metrics[self._logged])

    def _in_halves(self, batch: Batch, updates: int) -> Updated:
        learner, functions = self.learner, self._library
        functions.revalued_predict(byref(self._update))

        def meaning(output: Tensor) -> Tensor:
            return interpret(output, learner.shape, learner.exists)

        output = self._output.detach().requires_grad_()
        with torch.enable_grad(), _one_thread():
            predictions = Predictions(
                meaning(output),
                meaning(self._target[:, 0]),
                meaning(self._target[:, 1]) if learner.algorithm.is_regularised else None,
                None if self._online_next is None else meaning(self._online_next),
                None if (drawn := learner.drawn_critics(updates)) is None else torch.from_numpy(drawn),
            )
            tensors = to_tensors(batch, learner.shape.actions, learner.device)
            terms = loss_terms(learner.algorithm, predictions, tensors, learner.exists, learner.support)
            priorities = finite_priorities(terms, updates)
            (gradient,) = torch.autograd.grad(terms.loss, output)
        self._output_gradient.copy_(gradient)
        functions.revalued_step(byref(self._update), byref(self._step))
        self._count_writes()
        if not np.isfinite(self._norms).all():
            raise non_finite(_NOT_FINITE[-3], updates)
        return priorities, metrics_of(terms, torch.from_numpy(self._norms))
