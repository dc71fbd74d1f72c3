"""n-step assembly: which earlier steps are complete now, with which return R and discount Γ."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class CompleteSteps(NamedTuple):
    """C steps that the newest one completed, in any of the lanes pushed; a single number holds for all of them."""

    columns: npt.NDArray[np.int64] | slice  # [C] which of the pushed lanes, as an index into them
    ages: npt.NDArray[np.int64] | int  # [C] how many steps ago: 0 is the newest step itself
    returns: npt.NDArray[np.float64]  # [C] R = Σ_{j<m} γ^j r_j over the m = age + 1 steps there were
    discounts: npt.NDArray[np.float64] | float  # [C] Γ = γ^m, or 0 if the episode terminated


class NStepWindow:
    """The steps of each lane that still wait for their n-th reward.

    A step is complete after n rewards or at the end of its episode, whichever comes first, so the short tails of an
    episode are kept and never reach into the next one. Returns are summed in float64, in order of time.
    """

    def __init__(self, *, n_step: int, discount: float, num_lanes: int) -> None:
        # How many steps wait in each lane, and their returns so far [n, lanes], by age: 0 is the newest.
        self.num_pending = np.zeros(num_lanes, np.int64)
        self.returns = np.zeros((n_step, num_lanes))
        self._ages = np.arange(n_step)[:, None]
        self.discount_powers: npt.NDArray[np.float64] = np.float64(discount) ** np.arange(n_step + 1)
        self._reward_factors = self.discount_powers[:-1, None]

    def clear(self, lanes: npt.NDArray[np.int64]) -> None:
        """Forget the waiting steps of these lanes."""
        self.num_pending[lanes] = 0

    def push(
        self,
        lanes: npt.NDArray[np.int64] | slice,
        rewards: npt.NDArray[np.floating],
        terminated: npt.NDArray[np.bool_],
        ended: npt.NDArray[np.bool_],
    ) -> CompleteSteps:
        """Add one step to each of these lanes (each at most once) and return the steps complete by it."""
        last_age = len(self.returns) - 1
        returns = self.returns[:, lanes]
        returns[1:] = returns[:-1]
        returns[0] = 0.0
        returns += self._reward_factors * rewards
        self.returns[:, lanes] = returns
        num_pending = self.num_pending[lanes] + 1
        if min(num_pending.tolist()) > last_age and True not in ended.tolist():
            # As nearly always: each lane's oldest step, and no other, is complete.
            return CompleteSteps(slice(None), last_age, returns[-1], self.discount_powers.item(-1))
        # Ages of num_pending and beyond are leftovers of an earlier episode.
        ages, columns = ((self._ages < num_pending) & (ended | (self._ages == last_age))).nonzero()
        self.num_pending[lanes] = np.where(ended, 0, np.minimum(num_pending, last_age))
        return CompleteSteps(
            columns=columns,
            ages=ages,
            returns=returns[ages, columns],
            discounts=np.where(terminated[columns], 0.0, self.discount_powers[ages + 1]),
        )
