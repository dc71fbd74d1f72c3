"""One registry, from a task's name to its environment.

A kind of environment is an entry of `KINDS`: the names that belong to it, and a function that makes the Gymnasium
environment of such a name. To add one, write that function in a module of `suites` and the entry here; spaces, noise,
masks, lanes, workers, listings and the Python API need nothing more. An episode must be a function of its seed and its
actions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import gymnasium

from revalued.config import TrainConfig
from revalued.envs.modules import GYM, PETTINGZOO, refuse_untrusted
from revalued.envs.noise import Noisy
from revalued.envs.repeat import Repeated
from revalued.envs.spaces.factored import Factored, FactoredEnv, factored_layer
from revalued.envs.suites import custom, gym_ids, metaworld, pettingzoo, problems, toys
from revalued.envs.suites.control_suite import ALL_TASKS, UNBOUNDED_TASKS, ControlSuiteEnv
from revalued.envs.task import Task, TaskInfo, TaskSpec, inspect_env
from revalued.errors import UserError, unknown_name


@dataclass(frozen=True)
class Kind:
    """A kind of environment: either a list of names, or every name with a certain beginning."""

    make: Callable[[str, str | None], gymnasium.Env[Any, Any]]
    """Makes the environment of a task's name, given a render mode or None."""
    names: tuple[str, ...] = ()
    prefix: str | None = None
    """How its names begin, such as `gym:`, if there are too many to list."""
    listing: str = ""
    """The line of `revalued list tasks` that tells how to form names with this prefix."""
    unlisted: tuple[str, ...] = ()
    """Those of the names that cannot be learnt; making one says why."""
    keeps_spaces: bool = False
    """Whether an agent's `predict` speaks the environment's own spaces, not flat vectors and choices."""

    def owns(self, task: str) -> bool:
        """Tell whether a name belongs to this kind."""
        return task in self.names if self.prefix is None else task.startswith(self.prefix)


KINDS: list[Kind] = [
    Kind(ControlSuiteEnv, names=ALL_TASKS, unlisted=UNBOUNDED_TASKS),
    Kind(toys.make_toy, names=tuple(toys.TOYS)),
    Kind(
        gym_ids.make_gym_env,
        prefix=GYM,
        listing="gym:ID             any environment in Gymnasium's registry, such as gym:CartPole-v1",
        keeps_spaces=True,
    ),
    Kind(
        metaworld.MetaWorldEnv,
        prefix=metaworld.PREFIX,
        listing="metaworld:NAME     MetaWorld's tasks, such as metaworld:drawer-open-v3",
    ),
    Kind(
        pettingzoo.make_pettingzoo_env,
        prefix=PETTINGZOO,
        listing="pettingzoo:MODULE  many agents as one, such as pettingzoo:mpe2.simple_spread_v3",
        keeps_spaces=True,
    ),
    Kind(
        problems.make_problem,
        prefix=problems.PREFIX,
        listing=f"problem:NAME       with an action of many choices by nature: {', '.join(problems.PROBLEMS)}",
    ),
    Kind(custom.refuse_name, prefix=custom.PREFIX, keeps_spaces=True),
]
"""In the order in which tasks are listed."""


def task_names() -> list[str]:
    """Return every task with a fixed name that can be learnt, the paper's benchmark first."""
    return [name for kind in KINDS for name in kind.names if name not in kind.unlisted]


def task_listing() -> list[str]:
    """Return the lines of `revalued list tasks`: every fixed name, then how other names are formed."""
    return [*task_names(), *(kind.listing for kind in KINDS if kind.listing)]


def kind_of(task: str) -> Kind:
    """Return the kind that a task's name belongs to."""
    for kind in KINDS:
        if kind.owns(task):
            return kind
    raise unknown_name("task", task[:200], task_names())


def make_env(spec: TaskSpec, render_mode: str | None = None, make_own: custom.EnvMaker | None = None) -> FactoredEnv:
    """Build the environment of a task: one-dimensional float32 observations, MultiDiscrete actions.

    `make_own` makes the environment of a task that was handed over from Python.
    """
    own = kind_of(spec.task).make(spec.task, render_mode) if make_own is None else make_own(render_mode)
    env: FactoredEnv = Factored(own, spec.bins)
    if spec.reward_noise > 0 or spec.state_noise > 0:
        env = Noisy(env, spec.reward_noise, spec.state_noise)
    return Repeated(env, spec.action_repeat) if spec.action_repeat > 1 else env


@lru_cache(maxsize=64)
def task_info(spec: TaskSpec) -> TaskInfo:
    """Return the sizes of a task, found by building its environment once."""
    return _inspect(partial(make_env, spec))


def find_task(spec: TaskSpec, env: custom.EnvSource | None = None) -> Task:
    """Return the task of that name, or the one behind an environment handed over as object or function."""
    if env is None:
        return Task(task_info(spec), partial(make_env, spec), kind_of(spec.task).keeps_spaces)
    make = partial(make_env, spec, make_own=custom.env_maker(spec.task, env))
    return Task(_inspect(make), make, keeps_spaces=True)


def stored_task(spec: TaskSpec, info: TaskInfo, *, keeps_spaces: bool, trusted: Collection[str]) -> Task:
    """Return a task whose sizes are known from a file; its environment is built only when it is asked for.

    `trusted` names the modules that may be imported then.
    """
    return Task(info, partial(_make_stored, spec, (info.observation_size, info.sizes), tuple(trusted)), keeps_spaces)


def _make_stored(
    spec: TaskSpec,
    expected: tuple[int, tuple[int, ...]],
    trusted: tuple[str, ...],
    render_mode: str | None = None,
) -> FactoredEnv:
    refuse_untrusted(spec.task, trusted)
    env = make_env(spec, render_mode)
    (observation_size,) = env.observation_space.shape or (0,)
    sizes = tuple(factored_layer(env).action_codec.sizes)
    if (observation_size, sizes) != expected:
        env.close()
        here, there = (
            f"{size} numbers and actions of sizes {list(of)}" for size, of in ((observation_size, sizes), expected)
        )
        raise UserError(f"the environment has observations of {here}, but the run was trained with {there}")
    return env


def task_of_file(config: TrainConfig, env: custom.EnvSource | None, trusted: Collection[str]) -> Task:
    """Return a run's task, whose name was read from a file: the modules it imports must be trusted."""
    if env is None:
        refuse_untrusted(config.task, trusted)
    return task_of(config, env)


def task_of(config: TrainConfig, env: custom.EnvSource | None = None) -> Task:
    """Return a run's task: the one its configuration names, or the environment handed over."""
    return find_task(spec_of(config), env)


def spec_of(config: TrainConfig) -> TaskSpec:
    """Return what a run's environments are built from."""
    return TaskSpec(config.task, config.bins, config.reward_noise, config.state_noise, config.action_repeat)


def _inspect(make: Callable[[], FactoredEnv]) -> TaskInfo:
    env = make()
    try:
        return inspect_env(env)
    finally:
        env.close()
