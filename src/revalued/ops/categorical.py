"""Categorical (C51) value distributions, factorised at the logits, and values as classes (HL-Gauss)."""

from __future__ import annotations

import torch
from torch import Tensor

SMOOTHING = 0.75
"""Deviation of HL-Gauss in units of the atoms' distance, as its authors recommend: mass falls on about six atoms."""


def expected_values(logits: Tensor, support: Tensor) -> Tensor:
    """Return Σ_z softmax(logits)_z · z over the last axis, for atoms at `support` [Z]."""
    return (logits.softmax(dim=-1) * support).sum(dim=-1)


def average_logits(chosen_logits: Tensor) -> Tensor:
    """DecQN-C51: ℓ = (1/N) Σ_i ℓ_i; [K, B, Z] from the chosen sub-actions' logits [K, B, N, Z]."""
    return chosen_logits.mean(dim=2)


def project_distribution(probabilities: Tensor, returns: Tensor, discounts: Tensor, support: Tensor) -> Tensor:
    """Move every atom z to R + Γ·z, cut at the support's ends, and share its mass among the two nearest atoms.

    probabilities [B, Z], returns and discounts [B], equally spaced support [Z]; Bellemare et al. 2017, algorithm 1.
    """
    num_atoms = support.shape[0]
    spacing = (support[-1] - support[0]) / (num_atoms - 1)
    moved = returns[:, None] + discounts[:, None] * support
    position = ((moved - support[0]) / spacing).clamp(0, num_atoms - 1)
    lower = position.floor()
    share_above = position - lower
    below = lower.nan_to_num(0.0).long()  # a reward that is no number shows in the shares, not as a wild index
    # at the last atom share_above is 0, so the clamped neighbour receives nothing
    above = (below + 1).clamp(max=num_atoms - 1)
    projected = probabilities.new_zeros(probabilities.shape)
    projected.scatter_add_(1, below, probabilities * (1 - share_above))
    projected.scatter_add_(1, above, probabilities * share_above)
    return projected


def gaussian_histogram(values: Tensor, support: Tensor) -> Tensor:
    """HL-Gauss: p_z = Φ((z + ς/2 − y)/σ) − Φ((z − ς/2 − y)/σ), divided by the sum; [B, Z] from values y [B].

    ς is the distance of the equally spaced atoms `support` [Z], σ = 0.75 ς. A value beyond the support's ends counts as
    the end. Farebrother et al. 2024.
    """
    spacing = (support[-1] - support[0]) / (len(support) - 1)
    edges = torch.cat([support - spacing / 2, support[-1:] + spacing / 2])
    within = values.clamp(support[0], support[-1])[:, None]
    below: Tensor = torch.special.ndtr((edges - within) / (SMOOTHING * spacing))
    return below.diff(dim=1) / (below[:, -1:] - below[:, :1])


def cross_entropy(target_probabilities: Tensor, logits: Tensor) -> Tensor:
    """Return −Σ_z p_z log softmax(logits)_z: [K, B] from a target [B, Z] shared by all critics and logits [K, B, Z]."""
    return -(target_probabilities * logits.log_softmax(dim=-1)).sum(dim=-1)
