"""The engine that updates in C."""

from __future__ import annotations

import math
from ctypes import byref

import torch
from torch import Tensor

from revalued.algorithms.objective import LossTerms, Predictions, TensorBatch, loss_terms
from revalued.engines.state import ADAM_BETAS, ADAM_EPSILON, LearnerState
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
    """The update in C. The loss is, too, where utilities are averaged or added up; else PyTorch computes it."""

    def __init__(self, state: LearnerState) -> None:
        self.state, self._library, self._memory = state, load(), Memory()
        self._threads = torch.get_num_threads()
        shape, rows = state.shape, state.config.batch_size
        self._gradients = zeros(shape, state.device)
        outputs = (shape.critics, rows, shape.head_size)
        asks_target, asks_online = state.algorithm.beta > 0, state.algorithm.double_q
        self._online_now, self._target_next = torch.zeros(outputs), torch.zeros(outputs)
        self._target_now = torch.zeros(outputs) if asks_target else None
        self._online_next = torch.zeros(outputs) if asks_online else None
        # the last column carries the input layer's bias
        self._now, self._next = torch.ones(2, rows, shape.observation_size + 1).unbind()
        self._update = self._lay_out()
        self._computes_loss = shape.head == "utilities" and state.algorithm.decomposition in ("mean", "sum", "atomic")
        self._loss = self._lay_out_loss()
        self._output_gradient = torch.zeros(outputs)

    def _lay_out(self) -> UpdateC:
        state, memory = self.state, self._memory
        shape, rows, threads = state.shape, state.config.batch_size, self._threads
        critics, inputs, hidden, outputs = shape.critics, shape.observation_size + 1, shape.hidden_size, shape.head_size
        width = -(-(outputs + 1) // _WIDTH_UNIT) * _WIDTH_UNIT
        block = min(ROWS_AT_A_TIME, rows)

        def folding(merges: bool) -> FoldingC:
            block1 = memory.floats(critics, inputs, hidden) if merges else None
            return FoldingC(block1, memory.floats(critics, hidden, width), memory.floats(critics, outputs))

        kept_hidden, block1, block2 = (memory.floats(critics, rows, hidden) for _ in range(3))
        features = kept_hidden if state.merges_online else memory.floats(critics, rows, hidden)
        return UpdateC(
            self._library.sgemm, threads, critics, rows, inputs, hidden, outputs, width, block,
            LAYER_NORM_EPSILON, shape.trunk_gradient_scale,
            ParametersC.of(state.online), ParametersC.of(state.target), ParametersC.of(self._gradients),
            ParametersC.of(state.first_moment), ParametersC.of(state.second_moment),
            folding(state.merges_online), folding(state.merges_target),
            KeptC(
                kept_hidden, block1, block2, features, memory.floats(critics, rows), memory.floats(critics, rows),
            ),
            ScratchC(
                *(memory.floats(threads, block, hidden) for _ in range(3)), memory.floats(threads, block, width),
                memory.floats(threads, block), memory.floats(threads, block),
            ),
            SlopesC(
                *(memory.floats(threads, rows, width) for _ in range(2)),
                *(memory.floats(threads, rows, hidden) for _ in range(2)),
                memory.floats(threads, inputs, hidden), memory.floats(threads, hidden, width),
                memory.floats(threads, dtype=torch.float64),
            ),
            address(self._now), address(self._next), address(self._online_now), address(self._online_next),
            address(self._target_now), address(self._target_next),
        )  # fmt: skip

    def _lay_out_loss(self) -> LossC:
        algorithm, actions = self.state.algorithm, self.state.shape.actions
        return LossC(
            dimensions=actions.num_dimensions,
            choices=actions.max_choices,
            mean_of_max=algorithm.ensemble_target == "mean-of-max",
            adds=algorithm.decomposition == "sum",
            quadratic=algorithm.regulariser_weight == "quadratic",
            reduces_by_mean=algorithm.regulariser_reduction == "mean",
            beta=algorithm.beta,
            temperature=algorithm.regulariser_temperature,
            sums=self._memory.floats(self._threads, len(_FIGURES), dtype=torch.float64),
        )

    def differentiate(self, batch: Batch) -> LossTerms:
        """Compute the loss of the batch, and its gradient with respect to the critics' outputs."""
        if len(batch.rows) != self.state.config.batch_size:
            raise ValueError(f"expected {self.state.config.batch_size} transitions, not {len(batch.rows)}")
        tensors = self.state.to_device(batch)
        self._now[:, :-1] = tensors.observations
        self._next[:, :-1] = tensors.next_observations
        self._library.functions.revalued_predict(byref(self._update))
        terms = self._utility_loss(tensors) if self._computes_loss else self._any_loss(tensors)
        gradient = interpret_gradient(terms.gradient, self.state.shape, self.state.exists)
        self._output_gradient = gradient.contiguous()
        return terms

    def _utility_loss(self, batch: TensorBatch) -> LossTerms:
        state, loss = self.state, self._loss
        gradient = torch.empty(*self._online_now.shape[:2], loss.dimensions, loss.choices)
        priorities, figures = torch.empty(len(batch.returns)), torch.empty(len(_FIGURES))
        legal = state.exists if batch.next_legal is None else batch.next_legal
        loss.actions = address(batch.actions, torch.int64)
        loss.returns, loss.discounts = address(batch.returns), address(batch.discounts)
        loss.weights, loss.legal = address(batch.weights), address(legal, torch.bool)
        loss.legal_stride = 0 if batch.next_legal is None else loss.dimensions * loss.choices
        loss.gradient, loss.priorities, loss.figures = address(gradient), address(priorities), address(figures)
        wrong = self._library.functions.revalued_utility_loss(byref(self._update), byref(loss))
        if wrong > 0:
            raise IndexError(f"{wrong} sub-actions of the batch are none of the {loss.choices} choices")
        named = dict(zip(_FIGURES, figures.unbind(), strict=True))
        if self._target_now is None:
            del named["regulariser"]
        return LossTerms(named.pop("loss"), gradient, priorities, named)

    def _any_loss(self, batch: TensorBatch) -> LossTerms:
        state = self.state

        def meaning(output: Tensor) -> Tensor:
            return interpret(output, state.shape, state.exists)

        predictions = Predictions(
            meaning(self._online_now),
            meaning(self._target_next),
            None if self._target_now is None else meaning(self._target_now),
            None if self._online_next is None else meaning(self._online_next),
        )
        return loss_terms(state.algorithm, predictions, batch, state.exists, state.support)

    def step(self, updates: int) -> Tensor:
        """Do the backward pass, clip, take one Adam step and move the targets; return the norms [K] before clipping."""
        config, number = self.state.config, updates + 1
        norms = torch.empty(self.state.shape.critics)
        step = StepC(
            output_gradient=address(self._output_gradient),
            norms=address(norms),
            clip=config.gradient_clip,
            step_size=config.learning_rate / (1 - ADAM_BETAS[0] ** number),
            rate1=1 - ADAM_BETAS[0],
            rate2=1 - ADAM_BETAS[1],
            correction2=math.sqrt(1 - ADAM_BETAS[1] ** number),
            epsilon=ADAM_EPSILON,
            target_rate=config.target_update_rate,
        )
        self._library.functions.revalued_step(byref(self._update), byref(step))
        return norms
