"""Spaces: from what an environment offers to flat observations and factorised actions, and back."""

from typing import Any

from gymnasium import spaces


def parts_of(space: spaces.Space[Any]) -> list[tuple[Any, spaces.Space[Any]]] | None:
    """Return the keys and spaces of a Dict or Tuple; None for any other space."""
    if isinstance(space, spaces.Dict):
        return list(space.spaces.items())
    return list(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else None


def put_together(space: spaces.Space[Any], parts: dict[Any, Any]) -> Any:
    """Return what belongs to a Dict or Tuple from its parts by key, in the space's own order."""
    return parts if isinstance(space, spaces.Dict) else tuple(parts.values())
