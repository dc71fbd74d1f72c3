"""From continuous actions to a few choices per dimension."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from revalued.errors import UserError


class Discretise(gymnasium.ActionWrapper[NDArray[np.float32], NDArray[np.int64], NDArray[np.float64]]):
    """Offers `bins` evenly spaced choices in each dimension of a bounded Box, ends included.

    Choice j of dimension i is `linspace(low_i, high_i, bins)[j]`; three bins are full back, off, full ahead.
    """

    def __init__(self, env: gymnasium.Env[NDArray[np.float32], NDArray[np.float64]], bins: int) -> None:
        super().__init__(env)
        space = env.action_space
        if bins < 2:
            raise UserError(f"bins must be at least 2 to leave a choice, got {bins}")
        if not isinstance(space, spaces.Box) or len(space.shape) != 1:
            raise UserError(f"only a flat Box of actions can be cut into bins, got {space}")
        if not space.is_bounded():
            raise UserError(f"actions without bounds cannot be cut into bins: {space}")
        num_dimensions = space.shape[0]
        self._table = np.linspace(space.low, space.high, bins, axis=1, dtype=space.dtype).ravel()  # [N · bins]
        self._offsets = np.arange(num_dimensions) * bins
        self.action_space = spaces.MultiDiscrete(np.full(num_dimensions, bins))

    def action(self, action: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the continuous action behind one choice per dimension."""
        chosen: NDArray[np.float64] = self._table.take(self._offsets + action)
        return chosen
