"""Arrays that come from outside are taken only in exactly the shape that is needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def checked(name: str, values: npt.ArrayLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return values as an array of exactly this shape; numpy would broadcast a smaller one without a word."""
    array = np.asarray(values)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    return array


def check_fit(name: str, array: npt.NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse an array of a stored state that has another shape or type."""
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(f"{name} in the replay state is {array.dtype} {array.shape}, needed is {dtype} {shape}")
