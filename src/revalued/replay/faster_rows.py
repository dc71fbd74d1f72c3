"""What a replay may be given to store its steps faster than NumPy does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class FasterRows(Protocol):
    """What faster code can do in the arrays of a `Replay`; results are equal to the bit to those of NumPy."""

    def append(
        self,
        lanes: npt.NDArray[np.int64],
        actions: Array,
        rewards: Array,
        terminated: npt.NDArray[np.bool_],
        truncated: npt.NDArray[np.bool_],
        next_observations: Array,
        new_leaf: float,
    ) -> int | None:
        """Store a step of distinct lanes if nothing ends and one transition becomes complete in each.

        Return how many transitions were overwritten; None where the step is another, and then nothing is written.
        """


MakeFasterRows = Callable[[Mapping[str, Array], list[npt.NDArray[np.float64]], int, int], FasterRows]
"""From the arrays of a replay, the levels of its tree, the number of its leaves, and `max_choices`."""
