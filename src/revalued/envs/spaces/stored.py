"""Spaces as plain JSON, so that a checkpoint can say what its agent sees and does without building the environment."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from revalued.envs.spaces import parts_of

LARGEST_SPACE = 10**8
"""Numbers in one array of a space, at most: a file cannot ask for all memory there is."""
_DEEPEST = 20


def space_to_json(space: spaces.Space[Any]) -> dict[str, Any]:
    """Return a space as plain values; one of a kind that no agent can have is a ValueError."""
    parts = parts_of(space)
    if parts is not None:
        if not all(isinstance(key, str | int) and not isinstance(key, bool) for key, _ in parts):
            raise ValueError(f"{space} has keys that are neither text nor numbers")
        kind = "Dict" if isinstance(space, spaces.Dict) else "Tuple"
        return {"kind": kind, "parts": [[key, space_to_json(part)] for key, part in parts]}
    if isinstance(space, spaces.Box):
        bounds = {"low": _numbers(space.low), "high": _numbers(space.high)}
        return {"kind": "Box", "shape": list(space.shape), "dtype": np.dtype(space.dtype).name, **bounds}
    if isinstance(space, spaces.Discrete):
        numbers = {"n": int(space.n), "start": int(space.start)}
        return {"kind": "Discrete", "dtype": np.dtype(space.dtype).name, **numbers}
    if isinstance(space, spaces.MultiDiscrete):
        lists = {"nvec": space.nvec.ravel().tolist(), "start": np.ravel(space.start).tolist()}
        shape, dtype = list(space.nvec.shape), np.dtype(space.dtype).name
        return {"kind": "MultiDiscrete", "shape": shape, "dtype": dtype, **lists}
    if isinstance(space, spaces.MultiBinary):
        return {"kind": "MultiBinary", "n": space.n if isinstance(space.n, int) else list(map(int, space.shape))}
    raise ValueError(f"{space} cannot be written down")


def space_from_json(data: Any, depth: int = 0) -> spaces.Space[Any]:
    """Undo `space_to_json`; whatever is no space is a ValueError."""
    try:
        return _space(data, depth)
    except ValueError:
        raise
    except Exception as error:  # whatever Gymnasium and NumPy make of crafted values
        raise ValueError(f"no space can be made of it: {type(error).__name__}") from error


def _space(data: Any, depth: int) -> spaces.Space[Any]:
    if depth > _DEEPEST:
        raise ValueError("the space is nested too deeply")
    kind = data["kind"]
    if kind in ("Dict", "Tuple"):
        parts = [(key, space_from_json(part, depth + 1)) for key, part in data["parts"]]
        return spaces.Dict(parts) if kind == "Dict" else spaces.Tuple([part for _, part in parts])
    if kind == "Box":
        shape, dtype = _shape(data["shape"]), _dtype(data["dtype"], "biuf")
        return spaces.Box(_array(data["low"], shape, dtype), _array(data["high"], shape, dtype), shape, dtype.type)
    if kind == "Discrete":
        kind_of_number: Any = _dtype(data["dtype"], "iu").type
        return spaces.Discrete(_whole(data["n"]), start=_whole(data["start"]), dtype=kind_of_number)
    if kind == "MultiDiscrete":
        shape, dtype = _shape(data["shape"]), _dtype(data["dtype"], "iu")
        number: Any = dtype.type
        return spaces.MultiDiscrete(
            _array(data["nvec"], shape, dtype), number, start=_array(data["start"], shape, dtype)
        )
    if kind == "MultiBinary":
        n = data["n"]
        return spaces.MultiBinary(list(_shape(n)) if isinstance(n, list) else _shape([n])[0])
    raise ValueError("there is no such kind of space")


def _numbers(array: NDArray[Any]) -> Any:
    """Return the numbers of an array, only one of them where all are equal; infinite ones as text."""
    flat = array.ravel()
    few = flat[:1] if len(flat) and (flat == flat[0]).all() else flat
    plain = [value if math.isfinite(value) else str(value) for value in few.tolist()]
    return plain[0] if len(flat) and len(few) == 1 else plain


def _array(numbers: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    flat = [_number(value) for value in (numbers if isinstance(numbers, list) else [numbers])]
    array = np.array(flat, dtype)
    return np.full(shape, array[0]) if not isinstance(numbers, list) else array.reshape(shape)


def _number(value: Any) -> Any:
    if value in ("inf", "-inf"):
        return float(value)
    if isinstance(value, bool | int | float):
        return value
    raise ValueError("a bound of the space is no number")


def _whole(value: Any) -> int:
    if not isinstance(value, int) or abs(value) > LARGEST_SPACE:
        raise ValueError("a number of the space is out of bounds")
    return value


def _shape(value: Any) -> tuple[int, ...]:
    shape = tuple(_whole(size) for size in value)
    if any(size < 0 for size in shape) or math.prod(shape) > LARGEST_SPACE:
        raise ValueError("the shape of a space is out of bounds")
    return shape


def _dtype(name: Any, kinds: str) -> np.dtype[Any]:
    dtype = np.dtype(str(name))
    if dtype.kind not in kinds:
        raise ValueError("a space of such numbers is not known")
    return dtype
