"""Any Gymnasium environment as a factored one: choices per dimension in, flat float32 observations out."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from revalued.envs.faults import ENV_ERRORS, EnvFault, reason_of
from revalued.envs.spaces.actions import action_codec
from revalued.envs.spaces.observations import observation_codec, shortened
from revalued.errors import UserError

FactoredEnv: TypeAlias = gymnasium.Env[NDArray[np.float32], NDArray[np.int64]]
"""What every task becomes: flat float32 observations, MultiDiscrete actions."""


class Factored(gymnasium.Wrapper[NDArray[np.float32], NDArray[np.int64], Any, Any]):
    """Translates between the spaces of an environment and flat vectors; everything else passes unchanged."""

    def __init__(self, env: gymnasium.Env[Any, Any], bins: int) -> None:
        super().__init__(env)
        self.action_codec = action_codec(_declared(env, "action_space"), bins)
        self._observations = observation_codec(_declared(env, "observation_space"))
        self.action_space = spaces.MultiDiscrete(np.array(self.action_codec.sizes))
        self.observation_space = spaces.Box(self._observations.low, self._observations.high, dtype=np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode."""
        answer = self.env.reset(seed=seed, options=options)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise EnvFault("reset() must return an observation and an info dictionary")
        return self._observations.flatten(answer[0]), _dictionary(answer[1])

    def step(self, action: NDArray[np.int64]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Take the action of the environment's own space that is behind one choice per dimension."""
        answer: Any = self.env.step(self.action_codec.decode(action))
        if not isinstance(answer, tuple) or len(answer) != 5:
            raise EnvFault("step() must return observation, reward, terminated, truncated and info")
        observation, reward, terminated, truncated, info = answer
        flat = self._observations.flatten(observation)
        reward = _number(self._shared(reward))
        return flat, reward, _flag("terminated", terminated), _flag("truncated", truncated), _dictionary(info)

    def _shared(self, reward: Any) -> Any:
        """Return the mean of a reward per part of a Tuple: several robots in one environment, say."""
        if not isinstance(reward, list | tuple | np.ndarray) or not isinstance(self.env.action_space, spaces.Tuple):
            return reward
        same = np.shape(reward) == (len(self.env.action_space),)
        return np.mean([_number(part) for part in reward]) if same else reward


def _declared(env: gymnasium.Env[Any, Any], name: str) -> spaces.Space[Any]:
    try:
        return getattr(env, name)  # type: ignore[no-any-return]
    except ENV_ERRORS as error:
        raise UserError(f"the environment does not tell its {name}: {reason_of(error)}") from error


def _number(reward: Any) -> float:
    try:
        return float(reward)
    except (TypeError, ValueError, OverflowError):
        raise EnvFault(f"the reward should be a number, it is {shortened(reward)}") from None


def _flag(name: str, value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    with suppress(Exception):  # whatever it is, it may refuse to become an array
        array = np.asarray(value)
        if array.size == 1 and array.dtype.kind in "biuf" and array.item() in (0, 1):
            return bool(array.item())
    raise EnvFault(f"{name} should be True or False, it is {shortened(value)}")


def _dictionary(info: Any) -> dict[str, Any]:
    if not isinstance(info, dict):
        raise EnvFault(f"info should be a dictionary, it is {shortened(info)}")
    return info


def factored_layer(env: FactoredEnv) -> Factored:
    """Return the `Factored` among the wrappers of a task's environment; inside it is the environment as it was."""
    layer: gymnasium.Env[Any, Any] = env
    while not isinstance(layer, Factored):
        assert isinstance(layer, gymnasium.Wrapper), f"{env} is not factored"
        layer = layer.env
    return layer
