"""Memory that is read in random places."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

_ALIGNMENT = 64


def zeros_together(*kinds: tuple[tuple[int, ...], npt.DTypeLike]) -> list[npt.NDArray[Any]]:
    """Return arrays of zeros of these shapes and types, one behind the other in a single block.

    A block of 4 MB or more is what NumPy asks the kernel to map in huge pages. Reads in random places are a good deal
    faster there, and most arrays of a replay are too small to get them alone. Pages never touched still cost nothing.
    """
    starts, end = [], 0
    for shape, dtype in kinds:
        starts.append(end)
        end += -(-math.prod(shape) * np.dtype(dtype).itemsize // _ALIGNMENT) * _ALIGNMENT
    memory = np.zeros(end, np.uint8)
    return [np.ndarray(*kind, buffer=memory, offset=start) for kind, start in zip(kinds, starts, strict=True)]
