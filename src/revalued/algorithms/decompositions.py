"""How utilities make a Q-value: the decompositions by name, and the place where others are added."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from revalued.errors import UserError, unknown_name

if TYPE_CHECKING:  # the command line reads the names without waiting for torch
    from torch import Tensor

Combine: TypeAlias = "Callable[[Tensor], Tensor]"
"""From utilities [..., N] to Q-values [...], every row by itself."""
Share: TypeAlias = "Callable[[Tensor], Tensor | float]"
"""From utilities [..., N] to ∂Q/∂U_i, in any form that broadcasts to [..., N]."""

BUILT_IN = ("mean", "sum", "branch", "logit-mean", "atomic")
_REGISTERED: dict[str, Decomposition] = {}
_SAMPLE_ROWS = 256


@dataclass(frozen=True)
class Decomposition:
    """A way to combine the utilities of the chosen sub-actions, and its derivative."""

    combine: Combine
    share: Share


def register_decomposition(name: str, combine: Combine, share: Share | None = None, *, overwrite: bool = False) -> None:
    """Add a decomposition: from now on `decomposition=name` works wherever `"mean"` does, in this process.

    `combine` makes Q-values [...] from utilities [..., N] and must never fall as a utility rises: only then are the
    best sub-actions, each found by itself, the best action. `share` is its derivative ∂Q/∂U_i [..., N]; without it,
    automatic differentiation finds the derivative, which is slower.
    """
    if not name:
        raise UserError("a decomposition needs a name")
    if name in BUILT_IN:
        raise UserError(f"decomposition {name!r} is built in: choose another name")
    if name in _REGISTERED and not overwrite:
        raise UserError(f"decomposition {name!r} is registered already: replace it with overwrite=True")
    _REGISTERED[name] = Decomposition(combine, share or partial(_differentiate, combine))


def find_decomposition(name: str) -> Decomposition:
    """Return how `name` combines utilities; branches and single choices (`branch`, `atomic`) are averaged."""
    from revalued.ops.utilities import mean_decomposition, sum_decomposition

    if name == "sum":
        return Decomposition(sum_decomposition, lambda utilities: 1.0)
    if name in BUILT_IN:
        return Decomposition(mean_decomposition, lambda utilities: 1 / utilities.shape[-1])
    refuse_unknown(name)
    return _REGISTERED[name]


def refuse_unknown(name: str) -> None:
    """Refuse a name that is neither built in nor registered in this process."""
    if name not in BUILT_IN and name not in _REGISTERED:
        error = unknown_name("decomposition", name, (*BUILT_IN, *_REGISTERED))
        raise UserError(f"{error} (those of your own are registered first, with revalued.register_decomposition)")


def check_decomposition(name: str, num_dimensions: int) -> None:
    """Try a registered decomposition on random utilities of that many dimensions; refuse one that cannot work."""
    if name in BUILT_IN:
        return
    import torch

    found = find_decomposition(name)
    generator = torch.Generator().manual_seed(0)
    utilities = torch.randn(2, _SAMPLE_ROWS, num_dimensions, generator=generator)
    try:
        q_values = found.combine(utilities)
        expected = _differentiate(found.combine, utilities)
        share = torch.as_tensor(found.share(utilities)).expand_as(utilities)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"decomposition {name!r} fails with {num_dimensions} dimensions: {reason}") from error
    if q_values.shape != utilities.shape[:-1]:
        shapes = f"{list(q_values.shape)} from {list(utilities.shape)}"
        raise UserError(f"decomposition {name!r} must make one Q-value of the last axis, and made {shapes}")
    one_by_one = torch.stack([found.combine(row[None])[0] for row in utilities[0, :3]])
    if not torch.allclose(one_by_one, q_values[0, :3], atol=1e-5):
        raise UserError(f"decomposition {name!r} mixes rows: a Q-value may depend on its own utilities only")
    if (expected < -1e-6).any():
        raise UserError(
            f"decomposition {name!r} falls as a utility rises: the best sub-actions would not make the best action"
        )
    if not torch.allclose(share, expected, atol=1e-4):
        raise UserError(f"the share of decomposition {name!r} is not the derivative of its Q-value")


def _differentiate(combine: Combine, utilities: Tensor) -> Tensor:
    """Return ∂Q/∂U_i by automatic differentiation; rows are independent, so one pass finds it for all."""
    import torch

    with torch.enable_grad():
        leaf = utilities.detach().requires_grad_()
        (found,) = torch.autograd.grad(combine(leaf).sum(), leaf)
    return found
