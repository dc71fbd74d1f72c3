"""The loss of any algorithm of the family, composed from `ops` by the choices in its configuration."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from revalued.algorithms.decompositions import find_decomposition
from revalued.config import AlgorithmConfig
from revalued.ops import categorical
from revalued.ops.losses import exponential_weight, huber, huber_slope, quadratic_weight, regularisation_errors
from revalued.ops.targets import max_of_mean, mean_of_max, n_step_target
from revalued.ops.utilities import chosen_utilities, greedy_actions, spread_to_choices

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


@dataclass(frozen=True)
class LossTerms:
    """A loss, its gradient with respect to `Predictions.online`, replay priorities [B], and figures for the log.

    The loss is differentiable, the gradient is written out: it costs a tenth of what automatic differentiation of so
    many small operations does, and tests hold one against the other.
    """

    loss: Tensor
    gradient: Tensor
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
    if support is not None:
        return _categorical_loss(algorithm, predictions, batch, legal, support)
    return _utility_loss(algorithm, predictions, batch, legal)


def utility_target(
    algorithm: AlgorithmConfig, predictions: Predictions, batch: TensorBatch, legal: Tensor | None
) -> Tensor:
    """Return the target y [B] that all critics share."""
    values = _BOOTSTRAP[algorithm.ensemble_target](predictions.target_next, predictions.online_next, legal)
    # BDQ averages its branches in the target too
    combine = find_decomposition(algorithm.decomposition).combine
    return n_step_target(batch.returns, batch.discounts, combine(values))


def _utility_loss(
    algorithm: AlgorithmConfig, predictions: Predictions, batch: TensorBatch, legal: Tensor | None
) -> LossTerms:
    with torch.no_grad():
        y = utility_target(algorithm, predictions, batch, legal)
    chosen = chosen_utilities(predictions.online, batch.actions)
    num_dimensions = chosen.shape[-1]
    if algorithm.decomposition == "branch":
        td_errors = y[:, None] - chosen
        td_loss, error_size = huber(td_errors).mean(dim=-1), td_errors.detach().abs().mean(dim=-1)
        q_values = chosen.mean(dim=-1)
        slope = huber_slope(td_errors.detach()) / num_dimensions
    else:
        decomposition = find_decomposition(algorithm.decomposition)
        q_values = decomposition.combine(chosen)
        td_errors = y - q_values
        td_loss, error_size = huber(td_errors), td_errors.detach().abs()
        share = decomposition.share(chosen.detach())  # ∂Q/∂U_i
        slope = (huber_slope(td_errors.detach())[..., None] * share).expand_as(chosen)
    loss = td_loss
    terms = {"td_loss": td_loss, "mean_q": q_values, "td_error": error_size}
    if algorithm.beta > 0 and predictions.target is not None:
        with torch.no_grad():
            target_chosen = chosen_utilities(predictions.target, batch.actions)
            weights = _WEIGHT[algorithm.regulariser_weight](y[:, None] - chosen, algorithm.regulariser_temperature)
        errors = regularisation_errors(chosen, target_chosen, weights)
        averages = algorithm.regulariser_reduction == "mean"
        regulariser = errors.mean(dim=-1) if averages else errors.sum(dim=-1)
        loss = td_loss + algorithm.beta * regulariser
        scale = algorithm.beta / num_dimensions if averages else algorithm.beta
        slope = slope + scale * weights * huber_slope(target_chosen - chosen.detach())
        terms["regulariser"] = regulariser
    share_of_batch = batch.weights / len(y)
    gradient = spread_to_choices(-share_of_batch[:, None] * slope, batch.actions, predictions.online.shape[3])
    return LossTerms((share_of_batch * loss).sum(), gradient, error_size.mean(dim=0), _means(terms, y))


def _categorical_loss(
    algorithm: AlgorithmConfig, predictions: Predictions, batch: TensorBatch, legal: Tensor | None, support: Tensor
) -> LossTerms:
    with torch.no_grad():
        target = categorical_target(algorithm, predictions, batch, legal, support)
        y = (target * support).sum(dim=-1)
    logits = categorical.average_logits(chosen_utilities(predictions.online, batch.actions))
    td_loss = categorical.cross_entropy(target, logits)
    q_values = categorical.expected_values(logits.detach(), support)
    error_size = (y - q_values).abs()
    share_of_batch = batch.weights / len(y)
    num_dimensions, choices = predictions.online.shape[2:4]
    slope = categorical.cross_entropy_slope(target, logits.detach()) / num_dimensions
    slope = (share_of_batch[:, None] * slope)[:, :, None].expand(-1, -1, num_dimensions, -1)
    gradient = spread_to_choices(slope, batch.actions, choices)
    terms = {"td_loss": td_loss, "mean_q": q_values, "td_error": error_size}
    return LossTerms((share_of_batch * td_loss).sum(), gradient, error_size.mean(dim=0), _means(terms, y))


def _means(terms: dict[str, Tensor], y: Tensor) -> dict[str, Tensor]:
    """Return the means over critics and batch, all in one operation."""
    stacked = torch.stack([*(term.detach() for term in terms.values()), y.expand_as(terms["td_loss"])])
    return dict(zip([*terms, "mean_target"], stacked.mean(dim=(1, 2)).unbind(), strict=True))


def categorical_target(
    algorithm: AlgorithmConfig, predictions: Predictions, batch: TensorBatch, legal: Tensor | None, support: Tensor
) -> Tensor:
    """Return the projected target distribution [B, Z]: a mixture, in equal parts, of the K target critics'.

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
    mixture = logits.softmax(dim=-1).mean(dim=0)
    return categorical.project_distribution(mixture, batch.returns, batch.discounts, support)
