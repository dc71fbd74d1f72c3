"""MetaWorld's robot-arm tasks, with goals that depend on nothing but the episode's seed."""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from revalued.envs.suites.rendering import MuJoCoEnv
from revalued.errors import UserError, unknown_name

PREFIX = "metaworld:"


class MetaWorldEnv(MuJoCoEnv):
    """One v3 task, with the goal in the observation, as in MetaWorld's single-task benchmark.

    An episode is a pure function of the seed given to `reset` and of the actions; it is truncated after 500 steps.
    `info["success"]` tells after each step whether the task is solved at that moment.
    """

    metadata: dict[str, Any] = {**MuJoCoEnv.metadata, "render_fps": 80}  # noqa: RUF012

    def __init__(self, task: str, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        name = task.removeprefix(PREFIX)
        classes = _classes()
        if name not in classes:
            raise unknown_name("MetaWorld task", name, classes)
        simulation = classes[name]()
        # What MetaWorld's own wrappers do, without their fixed list of 50 goals: show the goal, and draw it at each
        # reset from the simulation's generator.
        simulation._partially_observable = False
        simulation._freeze_rand_vec = False
        simulation.seeded_rand_vec = True
        simulation._set_task_called = True
        self._simulation = simulation
        self.action_space = simulation.action_space
        # The bounds of the goal are known to the simulation only from here on, and it computes them only once.
        simulation.__dict__.pop("sawyer_observation_space", None)
        limit = float(np.finfo(np.float32).max)
        self.observation_space = spaces.Box(-limit, limit, simulation.sawyer_observation_space.shape, np.float64)
        self.max_episode_steps: int | None = int(simulation.max_path_length)
        self.reward_range: tuple[float, float] | None = (0.0, 10.0)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Begin the episode that belongs to `seed`; without one, the next of the sequence the last seed began."""
        # `reset(seed=)` of the simulation does not seed the goals, this does; it is cheap enough for every episode.
        self._simulation.seed(self._episode_seed(seed))
        observation, _ = self._simulation.reset()
        return observation, {}

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Move the arm; nothing terminates an episode, not even success."""
        if self._simulation.curr_path_length >= self._simulation.max_path_length:
            raise gymnasium.error.ResetNeeded("step() after the end of the episode: call reset() first")
        observation, reward, _, truncated, info = self._simulation.step(action)
        # MetaWorld forgets the time limit in the one case where the simulation has become unstable.
        truncated = bool(truncated) or self._simulation.curr_path_length >= self._simulation.max_path_length
        return observation, float(reward), False, truncated, {**info, "success": bool(info["success"])}

    def render(self) -> NDArray[np.uint8]:
        """Return a picture of the arm, [height, width, 3]."""
        # This camera, the one that sees most, hangs upside down.
        return self._picture(self._simulation.model, self._simulation.data, "corner2")[::-1, ::-1]


def _classes() -> dict[str, Any]:
    try:
        module = importlib.import_module("metaworld.env_dict")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "metaworld":
            raise
        raise UserError("MetaWorld is not installed: pip install 'revalued[metaworld]'") from error
    return dict(module.ALL_V3_ENVIRONMENTS)
