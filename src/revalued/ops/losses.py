"""The TD loss and REValueD's regularisation loss (equations 2, 7 and 8), before any averaging over the batch."""

from __future__ import annotations

import torch
from torch import Tensor


def huber(error: Tensor) -> Tensor:
    """Huber loss with δ = 1: error²/2 inside [−1, 1], |error| − 1/2 outside."""
    return torch.nn.functional.huber_loss(error, torch.zeros_like(error), reduction="none")


def exponential_weight(delta: Tensor, temperature: float) -> Tensor:
    """Equation 7: w = 1 − exp(−|δ| / c)."""
    return -torch.expm1(-delta.abs() / temperature)


def quadratic_weight(delta: Tensor, temperature: float) -> Tensor:
    """Appendix I: w = min((δ / c)², 1)."""
    return (delta / temperature).square().clamp(max=1.0)


def regularisation_errors(chosen: Tensor, target_chosen: Tensor, weights: Tensor) -> Tensor:
    """Equation 7 per dimension: w_k,i · Huber(Ū_k,i − U_k,i), each critic against its own target; all [K, B, N]."""
    return weights * huber(target_chosen - chosen)
