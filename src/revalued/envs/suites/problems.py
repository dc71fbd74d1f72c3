"""Problems whose actions are made of many choices by nature, by one name each: `problem:sepsis`."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import gymnasium

from revalued.envs.modules import HOW_TO_INSTALL
from revalued.envs.suites import sepsis, sigmoid, traffic
from revalued.envs.suites.gym_ids import make_gym_env
from revalued.envs.suites.own_process import OwnProcess
from revalued.envs.suites.pettingzoo import make_pettingzoo_env
from revalued.errors import UserError, unknown_name

PREFIX = "problem:"


@dataclass(frozen=True)
class Problem:
    """A problem by name."""

    title: str
    make: Callable[[Path, str | None], gymnasium.Env[Any, Any]]
    """Makes the environment, given the folder of its package and a render mode."""
    package: str
    """The module that has to be there."""
    has_pictures: bool = False
    optimum: float | None = None
    """The expected return of the best policy, or what no policy can exceed."""


def _gym(name: str, package: Path, render_mode: str | None) -> gymnasium.Env[Any, Any]:
    return make_gym_env(name, render_mode)


class _NobodyLeaves(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Agents that all stay to the end and may do anything, so that masks, which others cannot take, say nothing."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        info.pop("action_mask")
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Let all agents act."""
        *outcome, info = self.env.step(action)
        info.pop("action_mask")
        return (*outcome, info)


def _staying_agents(name: str, package: Path, render_mode: str | None) -> gymnasium.Env[Any, Any]:
    return _NobodyLeaves(make_pettingzoo_env(name, render_mode))


class _LimitTruncates(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Robots whose package reports the end of its time limit as a termination: here it is a truncation."""

    def __init__(self, env: gymnasium.Env[Any, Any], has_work: Callable[[Any], bool]) -> None:
        super().__init__(env)
        self._has_work = has_work

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step; where there is still something to do at the end, time was up."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        out_of_time = terminated and self._has_work(self.env.unwrapped)
        return observation, reward, terminated and not out_of_time, truncated or out_of_time, info


def _robots(name: str, has_work: Callable[[Any], bool], package: Path, render_mode: str | None) -> _LimitTruncates:
    return _LimitTruncates(make_gym_env(name, render_mode), has_work)


def _phones(size: str) -> Problem:
    make = partial(_gym, f"gym:mobile_env:mobile-{size}-central-v0")
    return Problem(f"phones and base stations, {size}", make, "mobile_env", has_pictures=True)


def _sigmoid(coupling: sigmoid.Coupling) -> Problem:
    title = f"configuration of an algorithm at run time, the {coupling} of 5 dimensions"
    return Problem(
        title,
        lambda package, _: sigmoid.SigmoidEnv(sigmoid.read_instances(package), coupling),
        "dacbench",
    )


PROBLEMS: Final[dict[str, Problem]] = {
    "phones-small": _phones("small"),
    "phones-medium": _phones("medium"),
    "phones-large": _phones("large"),
    "sepsis": Problem(
        "sepsis treatment",
        lambda package, _: sepsis.SepsisEnv(sepsis.read_tables(package)),
        "icu_sepsis",
        optimum=0.8751,  # by value iteration, see `sepsis.known_values`
    ),
    "foraging": Problem(
        "foraging robots",
        partial(_robots, "gym:lbforaging:Foraging-8x8-3p-3f-v3", lambda field: bool(field.field.any())),
        "lbforaging",
        optimum=1 / 3,  # all food, worth 1 together, shared by three
    ),
    "warehouse": Problem(
        "warehouse robots", partial(_robots, "gym:rware:rware-tiny-4ag-easy-v2", lambda _: True), "rware"
    ),
    "spread": Problem(
        "robots that spread out",
        partial(_staying_agents, "pettingzoo:mpe2.simple_spread_v3"),
        "mpe2",
        has_pictures=True,
    ),
    "traffic": Problem("traffic lights", lambda _, __: OwnProcess(f"{traffic.__name__}:TrafficEnv"), "sumo_rl"),
    "sigmoid": _sigmoid("product"),
    "sigmoid-mean": _sigmoid("mean"),
}


def make_problem(task: str, render_mode: str | None) -> gymnasium.Env[Any, Any]:
    """Build the environment of a `problem:` task; say what to install where it is missing."""
    name = task.removeprefix(PREFIX)
    if name not in PROBLEMS:
        raise unknown_name("problem", name, PROBLEMS)
    problem = PROBLEMS[name]
    found = importlib.util.find_spec(problem.package)
    if found is None or found.origin is None:
        raise UserError(f"{task} needs the package {problem.package!r}: {HOW_TO_INSTALL[problem.package]}")
    if render_mode is not None and not problem.has_pictures:
        raise UserError(f"{task} has no pictures")
    try:
        return problem.make(Path(found.origin).parent, render_mode)
    except UserError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"{task} cannot be built: {type(error).__name__}: {reason}") from error
