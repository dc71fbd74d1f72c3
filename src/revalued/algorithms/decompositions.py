"""How utilities make a Q-value: the decompositions by name, and the place where others are added."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from revalued.errors import UserError, unknown_name
from revalued.ops.utilities import mean_decomposition, sum_decomposition

if TYPE_CHECKING:  # the command line reads the names without waiting for torch
    from torch import Tensor

Combine: TypeAlias = "Callable[[Tensor], Tensor]"
"""From utilities [..., N] to Q-values [...], every row by itself."""

BUILT_IN: dict[str, Combine] = {
    "mean": mean_decomposition,
    "sum": sum_decomposition,
    # BDQ: every branch has an error of its own, but all learn towards one target, the mean over branches
    "branch": mean_decomposition,
    # C51: logits are averaged before the softmax; expected values, which people are shown, are averaged alike
    "logit-mean": mean_decomposition,
    # DQN: all combinations are the choices of a single dimension, and the mean of one utility is that utility
    "atomic": mean_decomposition,
}
_REGISTERED: dict[str, Combine] = {}
_SAMPLE_ROWS = 256


def register_decomposition(name: str, combine: Combine, *, overwrite: bool = False) -> None:
    """Add a decomposition: from now on `decomposition=name` works wherever `"mean"` does, in this process.

    `combine` makes Q-values [...] from utilities [..., N], in operations that PyTorch can differentiate, and must never
    fall as a utility rises: only then are the best sub-actions, each found by itself, the best action.
    """
    if not name:
        raise UserError("a decomposition needs a name")
    if name in BUILT_IN:
        raise UserError(f"decomposition {name!r} is built in: choose another name")
    if name in _REGISTERED and not overwrite:
        raise UserError(f"decomposition {name!r} is registered already: replace it with overwrite=True")
    _REGISTERED[name] = combine


def find_decomposition(name: str) -> Combine:
    """Return how `name` combines utilities; refuses a name that is neither built in nor registered in this process."""
    known = BUILT_IN | _REGISTERED
    if name not in known:
        error = unknown_name("decomposition", name, known)
        raise UserError(f"{error} (those of your own are registered first, with revalued.register_decomposition)")
    return known[name]


def check_decomposition(name: str, num_dimensions: int) -> None:
    """Try a registered decomposition on random utilities of that many dimensions; refuse one that cannot work."""
    if name in BUILT_IN:
        return
    import torch

    combine = find_decomposition(name)
    generator = torch.Generator().manual_seed(0)
    utilities = torch.randn(2, _SAMPLE_ROWS, num_dimensions, generator=generator, requires_grad=True)
    try:
        with torch.enable_grad():
            q_values = combine(utilities)
            (gradient,) = torch.autograd.grad(q_values.sum(), utilities)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"decomposition {name!r} fails with {num_dimensions} dimensions: {reason}") from error
    if q_values.shape != utilities.shape[:-1]:
        shapes = f"{list(q_values.shape)} from {list(utilities.shape)}"
        raise UserError(f"decomposition {name!r} must make one Q-value of the last axis, and made {shapes}")
    one_by_one = torch.stack([combine(row[None])[0] for row in utilities[0, :3]])
    if not torch.allclose(one_by_one, q_values[0, :3], atol=1e-5):
        raise UserError(f"decomposition {name!r} mixes rows: a Q-value may depend on its own utilities only")
    if (gradient < -1e-6).any():
        raise UserError(
            f"decomposition {name!r} falls as a utility rises: the best sub-actions would not make the best action"
        )
