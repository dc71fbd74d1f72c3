"""Tasks in Gymnasium's registry, for other libraries: `gymnasium.make("revalued/walker-walk-v0", bins=3)`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from revalued.envs.kinds import make_env, task_names
from revalued.envs.spaces.factored import FactoredEnv
from revalued.envs.task import TaskSpec

NAMESPACE = "revalued"


class RegisteredTask(gymnasium.Env[NDArray[np.float32], NDArray[np.int64]]):
    """A task with flat float32 observations and MultiDiscrete actions, as one environment without wrappers.

    Other libraries look behind wrappers, at `unwrapped`; there they would find the continuous actions again.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012 - as in the base class

    def __init__(
        self,
        task: str,
        bins: int = 3,
        reward_noise: float = 0.0,
        state_noise: float = 0.0,
        render_mode: str | None = None,
        action_repeat: int = 1,
    ) -> None:
        self._env: FactoredEnv = make_env(TaskSpec(task, bins, reward_noise, state_noise, action_repeat), render_mode)
        self.action_space = self._env.action_space
        self.observation_space = self._env.observation_space
        self.metadata = self._env.metadata
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        return self._env.reset(seed=seed, options=options)

    def step(self, action: NDArray[np.int64]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Take one choice per dimension."""
        observation, reward, terminated, truncated, info = self._env.step(action)
        return observation, float(reward), terminated, truncated, info

    def render(self) -> Any:
        """Return a picture, [height, width, 3]."""
        return self._env.render()

    def close(self) -> None:
        """Free the simulator."""
        self._env.close()


def register_tasks() -> None:
    """Enter every named task as `revalued/TASK-v0`, and `revalued/task-v0`, which takes any task's name as `task`."""
    entry_point = f"{__name__}:{RegisteredTask.__name__}"
    gymnasium.register(f"{NAMESPACE}/task-v0", entry_point)
    for name in task_names():
        # Episodes end by themselves; a time limit of Gymnasium's would only repeat it.
        gymnasium.register(f"{NAMESPACE}/{name}-v0", entry_point, kwargs={"task": name})
