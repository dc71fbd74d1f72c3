"""The DeepMind control suite as Gymnasium environments, with episodes that depend on nothing but their seed."""

from __future__ import annotations

import importlib
import math
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from revalued.envs.suites.rendering import MuJoCoEnv
from revalued.errors import unknown_name

BENCHMARK_TASKS: Final[tuple[str, ...]] = (
    "cartpole-swingup_sparse", "reacher-hard", "ball_in_cup-catch", "finger-spin", "fish-swim", "cheetah-run",
    "walker-walk", "walker-run", "quadruped-walk", "quadruped-run",
    "humanoid-stand", "humanoid-walk", "humanoid-run", "dog-walk", "dog-trot", "dog-run",
)  # fmt: skip
"""The tasks of the paper's tables, from few action dimensions to many."""

# Written out, not asked of dm_control, so that a listing or a misspelt name costs no import of the simulator. A test
# compares it with dm_control's own list.
_OTHER_TASKS: Final[dict[str, tuple[str, ...]]] = {
    "acrobot": ("swingup", "swingup_sparse"),
    "cartpole": ("balance", "balance_sparse", "swingup", "two_poles", "three_poles"),
    "dog": ("stand", "fetch"),
    "finger": ("turn_easy", "turn_hard"),
    "fish": ("upright",),
    "hopper": ("stand", "hop"),
    "humanoid": ("run_pure_state",),
    "humanoid_CMU": ("stand", "walk", "run"),
    "lqr": ("lqr_2_1", "lqr_6_2"),
    "manipulator": ("bring_ball", "bring_peg", "insert_ball", "insert_peg"),
    "pendulum": ("swingup",),
    "point_mass": ("easy", "hard"),
    "quadruped": ("escape", "fetch"),
    "reacher": ("easy",),
    "stacker": ("stack_2", "stack_4"),
    "swimmer": ("swimmer6", "swimmer15"),
    "walker": ("stand",),
}

# MuJoCo's largest number (mjMAXVAL): dm_control reports it as the bound of an actuator that has none.
_NO_BOUND: Final = 1e10


ALL_TASKS: Final[tuple[str, ...]] = (
    *BENCHMARK_TASKS,
    *(f"{domain}-{task}" for domain, tasks in _OTHER_TASKS.items() for task in tasks),
)
"""Every task of the suite as `domain-task`, the benchmark tasks first."""

UNBOUNDED_TASKS: Final[tuple[str, ...]] = ("lqr-lqr_2_1", "lqr-lqr_6_2")
"""Tasks whose actions have no bounds and so cannot be discretised."""


class ControlSuiteEnv(MuJoCoEnv):
    """One task of the control suite.

    The observation is the suite's dictionary of observations laid end to end in the dictionary's own order, each entry
    flattened row by row (walker: 14 orientations, 1 height, 9 velocities), as float32. The action is the suite's, with
    its own bounds per dimension. An episode is a pure function of the seed given to `reset` and of the actions,
    whatever happened in this environment before.
    """

    def __init__(self, task: str, render_mode: str | None = None) -> None:
        if task not in ALL_TASKS:
            raise unknown_name("control-suite task", task, ALL_TASKS)
        super().__init__(render_mode)
        self._simulation = _load(task)
        self.metadata = {**self.metadata, "render_fps": round(1 / self._simulation.control_timestep())}
        specification = self._simulation.action_spec()
        low = np.where(specification.minimum <= -_NO_BOUND, -np.inf, specification.minimum)
        high = np.where(specification.maximum >= _NO_BOUND, np.inf, specification.maximum)
        # float64, because 1.1 (quadruped) has no float32 twin and the bounds are to be the suite's own.
        self.action_space = spaces.Box(low, high, dtype=np.float64)

        self._layout: list[tuple[str, slice | int, bool]] = []
        size = 0
        for name, entry in self._simulation.observation_spec().items():
            width = math.prod(entry.shape)
            where = slice(size, size + width) if entry.shape else size
            self._layout.append((name, where, len(entry.shape) > 1))
            size += width
        self._observation_size = size
        # Every finite float32: the suite promises no tighter bounds.
        limit = np.finfo(np.float32).max
        self.observation_space = spaces.Box(-limit, limit, (size,), np.float32)

        step_limit = self._simulation._step_limit  # dm_control has no public name for it
        self.max_episode_steps: int | None = math.ceil(step_limit) if math.isfinite(step_limit) else None
        # Rewards of the suite lie in the unit interval, except the quadratic costs of lqr.
        self.reward_range: tuple[float, float] | None = None if task in UNBOUNDED_TASKS else (0.0, 1.0)
        self._is_running = False

    @property
    def action_names(self) -> tuple[str, ...]:
        """Return the names of the actuators, one per action dimension."""
        model = self._simulation.physics.model
        return tuple(str(model.id2name(number, "actuator")) for number in range(model.nu))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin the episode that belongs to `seed`; without one, the next of the sequence the last seed began."""
        self._simulation.task.random.seed(self._episode_seed(seed) % 2**32)
        time_step = self._simulation.reset()
        self._is_running = True
        self._free_camera()  # an episode may change what the camera keeps copies of, such as the terrain
        return self._flatten(time_step.observation), {}

    def step(self, action: NDArray[np.float64]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Take one control step; only a discount of 0 terminates, the time limit truncates."""
        if not self._is_running:
            # dm_control would begin a new episode instead, and the caller would not notice.
            raise gymnasium.error.ResetNeeded("step() after the end of the episode: call reset() first")
        step_type, reward, discount, observation = self._simulation.step(action)
        is_last = step_type.last()
        self._is_running = not is_last
        terminated = is_last and discount == 0.0
        return self._flatten(observation), float(reward), terminated, is_last and not terminated, {}

    def render(self) -> NDArray[np.uint8]:
        """Return a picture of the simulation, [height, width, 3]."""
        physics = self._simulation.physics
        return self._picture(physics.model.ptr, physics.data.ptr, 0 if physics.model.ncam else -1)

    def _flatten(self, observation: dict[str, Any]) -> NDArray[np.float32]:
        # A fresh array each time, so that callers may keep it; entries are cast on assignment, without temporaries.
        flat = np.empty(self._observation_size, np.float32)
        for name, where, has_rows in self._layout:
            entry = observation[name]
            flat[where] = entry.ravel() if has_rows else entry
        return flat


def _load(task: str) -> Any:
    """Load one task, importing the simulator only now."""
    suite = importlib.import_module("dm_control.suite")
    render = importlib.import_module("dm_control._render")
    domain, _, name = task.partition("-")
    # The seed fixes what a domain draws while it builds its model (lqr); episodes get their own seeds in reset().
    simulation = suite.load(domain, name, task_kwargs={"random": 0})
    if task == "quadruped-escape" and render.Renderer.__name__ == "no_renderer":
        # Each reset uploads the new terrain to the renderer, and asking whether there is one tries to build it.
        simulation.physics._make_rendering_contexts = lambda: None
    return simulation
