"""Categorical (C51) value distributions, factorised at the logits."""

from __future__ import annotations

from torch import Tensor


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


def cross_entropy(target_probabilities: Tensor, logits: Tensor) -> Tensor:
    """Return −Σ_z p_z log softmax(logits)_z: [K, B] from a target [B, Z] shared by all critics and logits [K, B, Z]."""
    return -(target_probabilities * logits.log_softmax(dim=-1)).sum(dim=-1)
