"""The engine that updates in C."""

from __future__ import annotations

import math
from ctypes import byref

import torch
from torch import Tensor

from revalued.algorithms.objective import Predictions, TensorBatch, loss_terms
from revalued.engines.state import ADAM_BETAS, ADAM_EPSILON, LearnerState, NonFiniteError, Updated, finite_priorities
from revalued.engines.native.layout import (
    FoldingC,
    KeptC,
    LossC,
    Memory,
    ParametersC,
    ScratchC,
    SlopesC,
    StepC,
    UpdateC,
    address,
)
from revalued.engines.native.library import load
from revalued.networks import LAYER_NORM_EPSILON, interpret, interpret_gradient, zeros
from revalued.replay import Batch

ROWS_AT_A_TIME = 128
"""Rows that go through a critic together: enough for fast products, few enough to stay in a core's cache."""
_WIDTH_UNIT = 16
_FIGURES = ("loss", "td_loss", "mean_q", "td_error", "regulariser", "mean_target")


class NativeEngine:
    """The update in C: all of it where utilities are averaged or added up, else all but the loss."""

    def __init__(self, state: LearnerState) -> None:
        self.state, self._library, self._memory = state, load(), Memory()
        self._threads = torch.get_num_threads()
        shape, rows = state.shape, state.config.batch_size
        self._computes_loss = shape.head == "utilities" and state.algorithm.decomposition in ("mean", "sum", "atomic")
        # with the loss in C a critic is done with before the next one begins, and they share memory
        self._places = self._threads if self._computes_loss else shape.critics
        self._gradients = zeros(shape, state.device)
        outputs = (shape.critics, rows, shape.head_size)
        self._target_next = torch.zeros(outputs)
        self._target_now = torch.zeros(outputs) if state.algorithm.beta > 0 else None
        self._online_next = torch.zeros(outputs) if state.algorithm.double_q else None
        self._output, self._output_gradient = torch.zeros(2, self._places, *outputs[1:]).unbind()
        # the last column carries the input layer's bias
        self._now, self._next = torch.ones(2, rows, shape.observation_size + 1).unbind()
        self._update, self._loss = self._lay_out(), self._lay_out_loss()

    def _lay_out(self) -> UpdateC:
        state, reserve = self.state, self._memory.reserve
        shape, rows, threads = state.shape, state.config.batch_size, self._threads
        critics, inputs, hidden, outputs = shape.critics, shape.observation_size + 1, shape.hidden_size, shape.head_size
        width = -(-(outputs + 1) // _WIDTH_UNIT) * _WIDTH_UNIT
        block = min(ROWS_AT_A_TIME, rows)

        def folding(merges: bool) -> FoldingC:
            block1 = reserve(critics, inputs, hidden) if merges else None
            return FoldingC(block1, reserve(critics, hidden, width), reserve(critics, outputs))

        kept = [reserve(self._places, rows, hidden) for _ in range(3)]
        features = kept[0] if state.merges_online else reserve(self._places, rows, hidden)
        return UpdateC(
            self._library.sgemm, threads, critics, rows, inputs, hidden, outputs, width, block,
            LAYER_NORM_EPSILON, shape.trunk_gradient_scale,
            ParametersC.of(state.online), ParametersC.of(state.target), ParametersC.of(self._gradients),
            ParametersC.of(state.first_moment), ParametersC.of(state.second_moment),
            folding(state.merges_online), folding(state.merges_target),
            KeptC(
                *kept, features, reserve(self._places, rows), reserve(self._places, rows),
                address(self._output), address(self._output_gradient),
            ),
            ScratchC(
                *(reserve(threads, block, hidden) for _ in range(3)), reserve(threads, block, width),
                reserve(threads, block), reserve(threads, block),
            ),
            SlopesC(
                *(reserve(threads, rows, width) for _ in range(2)), *(reserve(threads, rows, hidden) for _ in range(2)),
                reserve(threads, inputs, hidden), reserve(threads, hidden, width),
                reserve(threads, dtype=torch.float64),
            ),
            address(self._now), address(self._next),
            address(self._online_next), address(self._target_now), address(self._target_next),
        )  # fmt: skip

    def _lay_out_loss(self) -> LossC:
        algorithm, actions = self.state.algorithm, self.state.shape.actions
        self._figures = torch.zeros(self._threads, len(_FIGURES), dtype=torch.float64)
        return LossC(
            dimensions=actions.num_dimensions,
            choices=actions.max_choices,
            mean_of_max=algorithm.ensemble_target == "mean-of-max",
            adds=algorithm.decomposition == "sum",
            quadratic=algorithm.regulariser_weight == "quadratic",
            reduces_by_mean=algorithm.regulariser_reduction == "mean",
            beta=algorithm.beta,
            temperature=algorithm.regulariser_temperature,
            targets=self._memory.reserve(self.state.config.batch_size),
            errors=self._memory.reserve(self.state.shape.critics, self.state.config.batch_size),
            figures=address(self._figures, torch.float64),
        )

    def update(self, batch: Batch, updates: int) -> Updated:
        """Do one gradient step."""
        if len(batch.rows) != self.state.config.batch_size:
            raise ValueError(f"expected {self.state.config.batch_size} transitions, not {len(batch.rows)}")
        tensors = self.state.to_device(batch)
        self._now[:, :-1] = tensors.observations
        self._next[:, :-1] = tensors.next_observations
        norms = torch.empty(self.state.shape.critics)
        step = self._lay_out_step(norms, updates)
        priorities, figures = (self._whole if self._computes_loss else self._in_halves)(tensors, step, updates)
        return Updated(priorities, {**figures, "gradient_norm": norms.mean()})

    def _lay_out_step(self, norms: Tensor, updates: int) -> StepC:
        config, number = self.state.config, updates + 1
        return StepC(
            clip=config.gradient_clip,
            step_size=config.learning_rate / (1 - ADAM_BETAS[0] ** number),
            rate1=1 - ADAM_BETAS[0],
            rate2=1 - ADAM_BETAS[1],
            correction2=math.sqrt(1 - ADAM_BETAS[1] ** number),
            epsilon=ADAM_EPSILON,
            target_rate=config.target_update_rate,
            norms=address(norms),
        )

    def _whole(self, batch: TensorBatch, step: StepC, updates: int) -> Updated:
        state, loss = self.state, self._loss
        priorities = torch.empty(len(batch.returns))
        legal = state.exists if batch.next_legal is None else batch.next_legal
        loss.actions = address(batch.actions, torch.int64)
        loss.returns, loss.discounts = address(batch.returns), address(batch.discounts)
        loss.weights, loss.legal = address(batch.weights), address(legal, torch.bool)
        loss.legal_stride = 0 if batch.next_legal is None else loss.dimensions * loss.choices
        loss.priorities = address(priorities)
        result = self._library.functions.revalued_update(byref(self._update), byref(loss), byref(step))
        if result > 0:
            raise IndexError(f"{result} sub-actions of the batch are none of the {loss.choices} choices")
        if result < 0:
            raise NonFiniteError(f"the targets of update {updates + 1:,} are not finite: learning has diverged")
        sums = self._figures.sum(dim=0)
        sums[1:] /= state.shape.critics * len(priorities)  # the first is the loss, a weighted sum already
        figures = dict(zip(_FIGURES, sums.float().unbind(), strict=True))
        if self._target_now is None:
            del figures["regulariser"]
        return Updated(finite_priorities(priorities, updates), figures)

    def _in_halves(self, batch: TensorBatch, step: StepC, updates: int) -> Updated:
        state, functions = self.state, self._library.functions
        functions.revalued_predict(byref(self._update))

        def meaning(output: Tensor) -> Tensor:
            return interpret(output, state.shape, state.exists)

        predictions = Predictions(
            meaning(self._output),
            meaning(self._target_next),
            None if self._target_now is None else meaning(self._target_now),
            None if self._online_next is None else meaning(self._online_next),
        )
        terms = loss_terms(state.algorithm, predictions, batch, state.exists, state.support)
        priorities = finite_priorities(terms.priorities, updates)
        self._output_gradient.copy_(interpret_gradient(terms.gradient, state.shape, state.exists))
        functions.revalued_step(byref(self._update), byref(step))
        return Updated(priorities, {"loss": terms.loss, **terms.metrics})
