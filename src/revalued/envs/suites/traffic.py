"""Traffic lights of SUMO, by `sumo-rl`: all crossings as one agent that chooses a phase for each."""

from __future__ import annotations

import importlib
import importlib.util
import os
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
    PettingZoo; this one joins all crossings itself. A process can hold one of it: see `own_process`.
    """

    def __init__(self) -> None:
        simulation = _import_simulation()
        nets = Path(str(simulation.__file__)).parents[1] / "nets" / "2x2grid"
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
        observations = self._env.reset(seed=int(self.np_random.integers(2**31)))  # SUMO takes seeds of 31 bits
        return self._all(observations), {}

    def step(self, action: dict[str, Any]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Set all lights and simulate until they may change again."""
        observations, rewards, ended, _ = self._env.step({light: int(action[light]) for light in self._lights})
        reward = float(np.mean([rewards[light] for light in self._lights]))
        return self._all(observations), reward, False, bool(ended["__all__"]), {}

    def close(self) -> None:
        """End the simulation."""
        self._env.close()

    def _all(self, observations: dict[str, Any]) -> dict[str, Any]:
        return {light: observations[light] for light in self._lights}


def _import_simulation() -> Any:
    """Import sumo-rl, which wants to be told where SUMO is, and to use it as a library where there is one.

    As a library it makes a step take a sixth of the time: otherwise it is asked some 400 things over a socket.
    """
    if "SUMO_HOME" not in os.environ:
        found = importlib.util.find_spec("sumo")  # of the wheel eclipse-sumo
        if found is not None and found.origin is not None:
            os.environ["SUMO_HOME"] = str(Path(found.origin).parent)
    if importlib.util.find_spec("libsumo") is not None:
        os.environ["LIBSUMO_AS_TRACI"] = "1"
    return importlib.import_module("sumo_rl.environment.env")
