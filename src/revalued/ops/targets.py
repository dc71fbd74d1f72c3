"""Learning targets: which sub-actions of the next state are worth what, and the n-step target made of it."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from revalued.ops.utilities import greedy_actions, hide_illegal


def max_of_mean(target_next: Tensor, online_next: Tensor | None, legal: Tensor | None) -> Tensor:
    """Equation 5: per dimension, maximise the ensemble's mean utility; [B, N] from target utilities [K, B, N, A].

    With `online_next` (double Q) the online ensemble's mean chooses and the target ensemble's mean values the choice.
    """
    mean = target_next.mean(dim=0)
    if online_next is None:
        return hide_illegal(mean, legal).amax(dim=-1)
    choice = greedy_actions(online_next.mean(dim=0), legal)
    return mean.gather(-1, choice[..., None]).squeeze(-1)


def mean_of_max(target_next: Tensor, online_next: Tensor | None, legal: Tensor | None) -> Tensor:
    """Theorem 2's reading: average every critic's own maximum; [B, N] from target utilities [K, B, N, A]."""
    if online_next is None:
        return hide_illegal(target_next, legal).amax(dim=-1).mean(dim=0)
    choice = greedy_actions(online_next, legal)
    return target_next.gather(-1, choice[..., None]).squeeze(-1).mean(dim=0)


def min_of_drawn(
    target_next: Tensor,
    online_next: Tensor | None,
    legal: Tensor | None,
    drawn: Tensor,
    combine: Callable[[Tensor], Tensor],
) -> Tensor:
    """REDQ's target for a greedy policy: min over k in M of Q_k(s', a'), [B] from target utilities [K, B, N, A].

    M are the critics `drawn` [m]. Sub-action a'_i is, as in equation 5, the choice that the mean of all K prefers (with
    double Q, of all online critics). The minimum is one of Q-values, which `combine` makes of utilities [m, B, N]: a
    minimum in every dimension by itself would belong to no critic.
    """
    choice = greedy_actions((target_next if online_next is None else online_next).mean(dim=0), legal)
    drawn_next = target_next[drawn]
    index = choice[None, ..., None].expand(len(drawn_next), *choice.shape, 1)
    return combine(drawn_next.gather(-1, index).squeeze(-1)).amin(dim=0)


USUAL_RATE = 0.005
USUAL_WEIGHT = 0.6
"""Mean of the regulariser's weights w, as measured on walker-walk."""


def compensated_rate(beta: float, num_dimensions: int, *, is_summed: bool) -> float:
    """Return the Polyak rate at which values rise as fast as with the usual one and no regulariser.

    The pull towards the target network balances the TD gradient at a distance, so that values follow as if the rate
    were τ / (1 + ρ w), with ρ = β N where the regulariser is summed over dimensions and β where it is averaged.
    """
    pull = beta * (num_dimensions if is_summed else 1)
    return min(1.0, USUAL_RATE * (1 + pull * USUAL_WEIGHT))


def n_step_target(returns: Tensor, discounts: Tensor, next_values: Tensor) -> Tensor:
    """Return y = R + Γ · V(s'), with Γ = 0 where the episode terminated; all [B]."""
    return returns + discounts * next_values
