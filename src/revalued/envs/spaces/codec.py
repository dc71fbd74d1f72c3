"""Between the spaces that a user sees and the flat vectors and choices that an agent works with, in batches too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from revalued.envs.faults import EnvFault, read_mask, store_observation
from revalued.envs.spaces import parts_of, put_together
from revalued.envs.spaces.actions import ActionCodec, action_codec
from revalued.envs.spaces.observations import ObservationCodec, observation_codec
from revalued.errors import UserError


@dataclass(frozen=True)
class SpaceCodec:
    """Translates between the spaces of an environment and flat vectors, for one observation or a batch of them."""

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    observations: ObservationCodec
    actions: ActionCodec

    @classmethod
    def of(cls, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], bins: int) -> SpaceCodec:
        """Return the codec of two spaces."""
        observations, actions = observation_codec(observation_space), action_codec(action_space, bins)
        return cls(observation_space, action_space, observations, actions)

    def read(self, observation: Any) -> tuple[NDArray[np.float32], bool]:
        """Return observations [B, D] and whether they were a batch; what is not of the space is refused."""
        space, which = self.observation_space, ""
        try:
            number = _batch_size(space, observation)
            flat = np.zeros((1 if number is None else number, len(self.observations.low)), np.float32)
            for index, row in enumerate(flat):
                which = "" if number is None else f" number {index}"
                one = observation if number is None else _entry(space, observation, index)
                store_observation(row, self.observations.flatten(one))
        except EnvFault as fault:
            reason = str(fault).replace("the observation", f"the observation{which}", 1)
            raise UserError(f"{reason}; the observation space is {space}") from fault
        return flat, number is not None

    def read_masks(self, masks: Any, count: int, *, is_batch: bool) -> NDArray[np.bool_]:
        """Return action masks [B, Σ sizes], each a flat vector or one vector per dimension."""
        try:
            offered = list(masks) if is_batch else [masks]
        except TypeError:
            raise UserError(f"action_masks must be one mask for each of {count} observations, got {masks!r}") from None
        if len(offered) != count:
            raise UserError(f"there are {len(offered)} action masks for {count} observations")
        try:
            return np.stack([read_mask({"action_mask": mask}, self.actions.sizes) for mask in offered])
        except EnvFault as fault:
            raise UserError(str(fault)) from fault

    def write(self, choices: NDArray[np.int64], *, is_batch: bool) -> Any:
        """Return the actions behind choices [B, N]: one, an array of them, or a list if they are no arrays."""
        actions = [self.actions.decode(row) for row in choices]
        if not is_batch:
            return actions[0]
        return actions if isinstance(self.action_space, spaces.Dict | spaces.Tuple) else np.stack(actions)


def _batch_size(space: spaces.Space[Any], observation: Any, where: str = "") -> int | None:
    """Return how many observations these are, None for a single one that is no batch."""
    parts = parts_of(space)
    if parts is not None:
        keys, found = [key for key, _ in parts], None
        if isinstance(space, spaces.Dict) and isinstance(observation, dict):
            found = set(observation)
        elif isinstance(space, spaces.Tuple) and isinstance(observation, tuple | list):
            found = set(range(len(observation)))
        if found != set(keys):
            kind = "dictionary" if isinstance(space, spaces.Dict) else "tuple"
            raise EnvFault(f"the observation{where} must be a {kind} with the entries {keys}")
        counts = {_batch_size(part, observation[key], f"{where}[{key!r}]") for key, part in parts}
        if len(counts) > 1:
            raise EnvFault(f"the parts of the observation{where} belong to batches of different sizes")
        return counts.pop()
    shape = space.nvec.shape if isinstance(space, spaces.MultiDiscrete) else tuple(space.shape or ())
    try:
        array = np.asarray(observation)
    except ValueError:  # rows of unequal length
        raise EnvFault(f"the observation{where} is no array of shape {shape}") from None
    if array.dtype.kind not in "biuf":
        raise EnvFault(f"the observation{where} holds {array.dtype} instead of numbers")
    if array.shape == shape:
        return None
    if array.shape[1:] != shape or len(array) == 0:
        batch = ", ".join(["B", *map(str, shape)])
        raise EnvFault(f"the observation{where} has shape {array.shape} instead of {shape}, or ({batch}) for a batch")
    return len(array)


def _entry(space: spaces.Space[Any], observations: Any, index: int) -> Any:
    parts = parts_of(space)
    if parts is None:
        return np.asarray(observations)[index]
    return put_together(space, {key: _entry(part, observations[key], index) for key, part in parts})
