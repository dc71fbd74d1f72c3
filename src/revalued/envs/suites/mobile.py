"""mobile-env's phones and base stations, with episodes that follow from their seed."""

from __future__ import annotations

from typing import Any

import gymnasium


class SeededPhones(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Hands the seed of a reset to the parts that draw: mobile-env's own reset forgets it.

    Without that, all environments made side by side would show the same phones on the same ways.
    """

    _PARTS = ("arrival", "channel", "scheduler", "movement", "utility")
    """In the order in which mobile-env itself gives them seeds, each one more than the last."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        core: Any = env.unwrapped
        core.max_episode_steps = int(core.EP_MAX_TIME)
        self._core = core

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; without a seed, the next of those that the last seed began."""
        if seed is not None:
            self._core.seed, self._core.rng = seed, None
            for number, name in enumerate(self._PARTS, start=1):
                part = getattr(self._core, name)
                part.seed, part.rng = seed + number, None  # made anew from the seed by the part's own reset
        return self.env.reset(seed=seed, options=options)


def with_seeds(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Return an environment of mobile-env whose seeds count; any other stays as it is."""
    return SeededPhones(env) if type(env.unwrapped).__module__.startswith("mobile_env.") else env
