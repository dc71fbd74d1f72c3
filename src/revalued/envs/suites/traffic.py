"""Traffic lights of SUMO, by `sumo-rl`: all crossings as one agent that chooses a phase for each."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

SECONDS = 1000
"""Of simulated time in an episode."""
DELTA_SECONDS = 5
"""Between two choices."""


class TrafficEnv(gymnasium.Env[dict[str, Any], dict[str, Any]]):
    """A grid of two by two crossings; the reward is the crossings' mean change of the waiting time.

    sumo-rl's own class for one agent sees one crossing, and its PettingZoo class does not work with the present
    PettingZoo; this one joins all crossings itself.
    """

    def __init__(self) -> None:
        simulation = _import_simulation()
        nets = Path(str(simulation.__file__)).parents[1] / "nets" / "2x2grid"
        with _silence():
            self._env: Any = simulation.SumoEnvironment(
                net_file=str(nets / "2x2.net.xml"), route_file=str(nets / "2x2.rou.xml"),
                num_seconds=SECONDS, delta_time=DELTA_SECONDS, sumo_warnings=False,
                add_system_info=False, add_per_agent_info=False, additional_sumo_cmd="--no-step-log true",
            )  # fmt: skip
        self._lights: list[str] = list(self._env.ts_ids)
        self.action_names = tuple(f"crossing {light}" for light in self._lights)
        self.observation_space = spaces.Dict([(light, self._env.observation_spaces(light)) for light in self._lights])
        self.action_space = spaces.Dict([(light, self._env.action_spaces(light)) for light in self._lights])
        self.max_episode_steps = SECONDS // DELTA_SECONDS

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start the simulation anew."""
        super().reset(seed=seed)
        with _silence():
            # SUMO takes seeds of 31 bits
            observations = self._env.reset(seed=int(self.np_random.integers(2**31)))
        return self._all(observations), {}

    def step(self, action: dict[str, Any]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Set all lights and simulate until they may change again."""
        observations, rewards, ended, _ = self._env.step({light: int(action[light]) for light in self._lights})
        reward = float(np.mean([rewards[light] for light in self._lights]))
        return self._all(observations), reward, False, bool(ended["__all__"]), {}

    def close(self) -> None:
        """End the simulation."""
        with _silence():
            self._env.close()

    def _all(self, observations: dict[str, Any]) -> dict[str, Any]:
        return {light: observations[light] for light in self._lights}


def _import_simulation() -> Any:
    """Import sumo-rl, which wants to be told where SUMO is."""
    if "SUMO_HOME" not in os.environ:
        found = importlib.util.find_spec("sumo")  # of the wheel eclipse-sumo
        if found is not None and found.origin is not None:
            os.environ["SUMO_HOME"] = str(Path(found.origin).parent)
    return importlib.import_module("sumo_rl.environment.env")


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep what SUMO, a process of its own, and the attempts to connect to it print from our output."""
    sys.stdout.flush()
    kept, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nothing)
