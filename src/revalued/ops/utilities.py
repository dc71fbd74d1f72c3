"""Choosing from and combining utilities: equation 1 of the paper and its relatives."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line reads the names of decompositions without waiting for torch
    from torch import Tensor


def chosen_utilities(utilities: Tensor, actions: Tensor) -> Tensor:
    """Return U_k,i(s, a_i): [K, B, N, ...] from utilities [K, B, N, A, ...] and actions [B, N]."""
    index = actions[None, :, :, None]
    if utilities.dim() == 5:  # logits carry atoms behind the choices
        index = index[..., None].expand(utilities.shape[0], -1, -1, -1, utilities.shape[-1])
    else:
        index = index.expand(utilities.shape[0], -1, -1, -1)
    return utilities.gather(3, index).squeeze(3)


def hide_illegal(utilities: Tensor, legal: Tensor | None) -> Tensor:
    """Set utilities of padding and of illegal choices to −∞; `legal` broadcasts to [..., N, A], None allows all."""
    return utilities if legal is None else utilities.masked_fill(~legal, -math.inf)


def greedy_actions(utilities: Tensor, legal: Tensor | None) -> Tensor:
    """Return the legal choice of largest utility in every dimension: [..., N] from [..., N, A]."""
    return hide_illegal(utilities, legal).argmax(dim=-1)


def mean_decomposition(per_dimension: Tensor) -> Tensor:
    """Equation 1 (DecQN): Q = (1/N) Σ_i U_i, over the last axis."""
    return per_dimension.mean(dim=-1)


def sum_decomposition(per_dimension: Tensor) -> Tensor:
    """Appendix B (DecQN-Sum): Q = Σ_i U_i, over the last axis."""
    return per_dimension.sum(dim=-1)


def aggregate_dueling(value: Tensor, advantages: Tensor, exists: Tensor | None) -> Tensor:
    """BDQ: Q_i(s, a) = V(s) + A_i(s, a) − mean_a A_i(s, a); the mean is over choices that exist.

    value [K, B], advantages [K, B, N, A], exists [N, A] or None where nothing is padded.
    """
    if exists is None:
        centre = advantages.mean(dim=-1, keepdim=True)
    else:
        centre = (advantages * exists).sum(dim=-1, keepdim=True) / exists.sum(dim=-1, keepdim=True)
    return value[:, :, None, None] + advantages - centre
