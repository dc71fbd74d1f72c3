"""The loss of any algorithm of the family, composed from `ops` by the choices in its configuration."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from revalued.algorithms.decompositions import find_decomposition
from revalued.config import AlgorithmConfig
from revalued.ops import categorical
from revalued.ops.losses import exponential_weight, huber, quadratic_weight, regularisation_errors
from revalued.ops.targets import max_of_mean, mean_of_max, min_of_drawn, n_step_target
from revalued.ops.utilities import chosen_utilities, greedy_actions

_BOOTSTRAP = {"max-of-mean": max_of_mean, "mean-of-max": mean_of_max}
_WEIGHT = {"exponential": exponential_weight, "quadratic": quadratic_weight}


@dataclass(frozen=True)
class TensorBatch:
    """B n-step transitions (s, a, R, Γ, s') with importance weights ω, on the learner's device."""

    observations: Tensor
    actions: Tensor
    returns: Tensor
    discounts: Tensor
    next_observations: Tensor
    weights: Tensor
    next_legal: Tensor | None = None
    """[B, N, A], which choices are legal in s'; None in a task without action masks."""


@dataclass(frozen=True)
class Predictions:
    """What the networks say: utilities [K, B, N, A], or logits with Z behind; None what the algorithm does not use."""

    online: Tensor
    target_next: Tensor
    target: Tensor | None = None
    online_next: Tensor | None = None
    drawn: Tensor | None = None
    """[m], the target critics whose smallest value is the target; None: the mean of all."""


@dataclass(frozen=True)
class LossTerms:
    """A loss to differentiate, the batch's new replay priorities [B], and metrics for the log."""

    loss: Tensor
    priorities: Tensor
    metrics: dict[str, Tensor]


def loss_terms(
    algorithm: AlgorithmConfig,
    predictions: Predictions,
    batch: TensorBatch,
    exists: Tensor | None,
    support: Tensor | None,
) -> LossTerms:
    """Return Σ_k mean_b ω_b (TD + β · regulariser), summed over critics so that each learns as it would alone."""
    # targets maximise over what is legal in s'; masks exclude padding too
    legal = exists if batch.next_legal is None else batch.next_legal
    if support is None:
        terms = _utility_terms(algorithm, predictions, batch, legal)
    else:
        terms = _categorical_terms(algorithm, predictions, batch, legal, support)
    loss = terms["td_loss"]
    if "regulariser" in terms:
        loss = loss + algorithm.beta * terms["regulariser"]
    priorities = terms["td_error"].detach().mean(dim=0)
    means = torch.stack([term.detach() for term in terms.values()]).mean(dim=(1, 2))
    metrics = dict(zip(terms, means.unbind(), strict=True))
    return LossTerms((batch.weights / len(batch.weights) * loss).sum(), priorities, metrics)


def _utility_terms(
    algorithm: AlgorithmConfig, predictions: Predictions, batch: TensorBatch, legal: Tensor | None
) -> dict[str, Tensor]:
    """Return what the loss is made of and what the log shows the means of, each [K, B]."""
    with torch.no_grad():
        y = utility_target(algorithm, predictions, batch, legal)
    chosen = chosen_utilities(predictions.online, batch.actions)
    q_values = find_decomposition(algorithm.decomposition)(chosen)
    # a branch learns by itself; all others learn together, from the one error of the Q-value
    errors = y[:, None] - (chosen if algorithm.decomposition == "branch" else q_values[..., None])
    terms = {"td_loss": huber(errors).mean(dim=-1), "mean_q": q_values, "td_error": errors.abs().mean(dim=-1)}
    if predictions.target is not None:
        with torch.no_grad():
            target_chosen = chosen_utilities(predictions.target, batch.actions)
            weights = _WEIGHT[algorithm.regulariser_weight](y[:, None] - chosen, algorithm.regulariser_temperature)
        regulariser = regularisation_errors(chosen, target_chosen, weights)
        averages = algorithm.regulariser_reduction == "mean"
        terms["regulariser"] = regulariser.mean(dim=-1) if averages else regulariser.sum(dim=-1)
    terms["mean_target"] = y.expand_as(q_values)
    return terms


def _categorical_terms(
    algorithm: AlgorithmConfig, predictions: Predictions, batch: TensorBatch, legal: Tensor | None, support: Tensor
) -> dict[str, Tensor]:
    """Return the same of value distributions: the TD loss is a cross entropy, errors are those of expected values."""
    with torch.no_grad():
        target = categorical_target(algorithm, predictions, batch, legal, support)
        y = (target * support).sum(dim=-1)
    logits = categorical.average_logits(chosen_utilities(predictions.online, batch.actions))
    q_values = categorical.expected_values(logits.detach(), support)
    return {
        "td_loss": categorical.cross_entropy(target, logits),
        "mean_q": q_values,
        "td_error": (y - q_values).abs(),
        "mean_target": y.expand_as(q_values),
    }


def utility_target(
    algorithm: AlgorithmConfig, predictions: Predictions, batch: TensorBatch, legal: Tensor | None
) -> Tensor:
    """Return the target y [B] that all critics share."""
    combine, following = find_decomposition(algorithm.decomposition), (predictions.target_next, predictions.online_next)
    if predictions.drawn is not None:
        next_values = min_of_drawn(*following, legal, predictions.drawn, combine)
    else:
        next_values = combine(_BOOTSTRAP[algorithm.ensemble_target](*following, legal))
    return n_step_target(batch.returns, batch.discounts, next_values)


def categorical_target(
    algorithm: AlgorithmConfig, predictions: Predictions, batch: TensorBatch, legal: Tensor | None, support: Tensor
) -> Tensor:
    """Return the target distribution [B, Z]: the projected mixture, in equal parts, of the K target critics' (C51), or
    the target value as a histogram (HL-Gauss), made of their expected values' mean or the smallest of those drawn.

    The sub-actions are those of largest expected value: under the ensemble's mean (max-of-mean), or under each critic
    by itself (mean-of-max); double Q lets the online critics choose.
    """
    chooser = predictions.target_next if predictions.online_next is None else predictions.online_next
    values = categorical.expected_values(chooser, support)
    if algorithm.ensemble_target == "max-of-mean":
        choice = greedy_actions(values.mean(dim=0), legal).expand(values.shape[:3])
    else:
        choice = greedy_actions(values, legal)
    index = choice[..., None, None].expand(*choice.shape, 1, support.shape[0])
    logits = categorical.average_logits(predictions.target_next.gather(3, index).squeeze(3))
    if algorithm.categorical_target == "hl-gauss":
        q_values = categorical.expected_values(logits, support)
        next_values = q_values.mean(dim=0) if predictions.drawn is None else q_values[predictions.drawn].amin(dim=0)
        return categorical.gaussian_histogram(n_step_target(batch.returns, batch.discounts, next_values), support)
    mixture = logits.softmax(dim=-1).mean(dim=0)
    return categorical.project_distribution(mixture, batch.returns, batch.discounts, support)
