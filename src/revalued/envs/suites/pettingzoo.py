"""PettingZoo's parallel environments as one agent with many choices: `pettingzoo:MODULE`, or an object handed over.

Each agent's action is one part of the action, observations are joined in the order of `possible_agents`, and the reward
is the agents' mean. That is central control of all agents by one learner, not multi-agent learning.
"""

from __future__ import annotations

from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces

from revalued.envs.faults import EnvFault
from revalued.envs.modules import import_for
from revalued.errors import UserError

_MASK, _OBSERVATION = "action_mask", "observation"


def make_pettingzoo_env(task: str, render_mode: str | None) -> gymnasium.Env[Any, Any]:
    """Build the environment behind a `pettingzoo:` task: what `MODULE.parallel_env()` makes."""
    found = import_for(task)
    make = getattr(found, "parallel_env", None)
    if make is None:
        what = "only the turn-by-turn (AEC) way" if hasattr(found, "env") else "no environment"
        raise UserError(
            f"{task}: module {found.__name__!r} offers {what}, and all agents must act at once: parallel_env()"
        )
    try:
        return OneAgent(make() if render_mode is None else make(render_mode=render_mode))
    except UserError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"{task} cannot be built: {type(error).__name__}: {reason}") from error


class OneAgent(gymnasium.Env[dict[str, Any], dict[str, Any]]):
    """All agents of a parallel environment as one.

    `reward` is the agents' mean, their sum, or the name of the agent whose reward counts. An agent that has left is
    shown as zeros and has no choice left but its first. The episode is over when all have left; it counts as
    terminated unless time ran out for somebody.
    """

    def __init__(self, env: Any, reward: Literal["mean", "sum"] | str = "mean") -> None:
        self._env, self._reward = env, reward
        self._agents: list[str] = list(getattr(env, "possible_agents", ()))
        if not self._agents:
            raise UserError(f"{env} does not name its possible_agents, so their number is not known beforehand")
        if reward not in ("mean", "sum", *self._agents):
            raise UserError(f"reward={reward!r} is none of mean, sum, {', '.join(self._agents)}")
        self.render_mode = getattr(env, "render_mode", None)
        self.metadata = getattr(env, "metadata", {})
        actions = {agent: env.action_space(agent) for agent in self._agents}
        for agent, space in actions.items():
            if not isinstance(space, spaces.Discrete):
                kind = type(space).__name__
                raise UserError(f"agent {agent!r} has a {kind} action; every agent needs one Discrete choice")
        observed = {agent: env.observation_space(agent) for agent in self._agents}
        self._has_masks = all(isinstance(space, spaces.Dict) and _MASK in space.spaces for space in observed.values())
        if self._has_masks:
            observed = {agent: space[_OBSERVATION] for agent, space in observed.items()}
        self._sizes = {agent: int(space.n) for agent, space in actions.items()}
        # as pairs: a dictionary's keys would be sorted, and masks would go to others' choices
        self.action_space = spaces.Dict(list(actions.items()))
        self.observation_space = spaces.Dict(list(observed.items()))
        self._zeros = {agent: _zero(space) for agent, space in observed.items()}
        self._present: set[str] = set()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin an episode with all agents."""
        super().reset(seed=seed)
        observations, infos = self._env.reset(seed=seed, options=options)
        self._present = set(observations)
        return self._look(observations, infos, self._present)

    def step(self, action: dict[str, Any]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Let every agent that is present act."""
        wanted = {agent: int(action[agent]) for agent in self._agents if agent in self._present}
        observations, rewards, terminations, truncations, infos = self._env.step(wanted)
        # for whom time ran out: they could have gone on, so their last observation still has choices
        cut_short = {agent for agent in self._present if truncations.get(agent) and not terminations.get(agent)}
        self._present &= set(self._env.agents)
        ended = not self._present
        observation, info = self._look(observations, infos, cut_short if ended else self._present)
        return observation, self._told(rewards), ended and not cut_short, ended and bool(cut_short), info

    def render(self) -> Any:
        """Return the environment's own picture."""
        return self._env.render()

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def _told(self, rewards: dict[str, float]) -> float:
        if self._reward not in ("mean", "sum"):
            return float(rewards.get(self._reward, 0.0))
        # those who have left count with 0: otherwise it would pay to lose agents who earn little
        total = float(sum(rewards.values()))
        return total / len(self._agents) if self._reward == "mean" else total

    def _look(
        self, observations: dict[str, Any], infos: dict[str, Any], choosing: set[str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        shown = dict(self._zeros)
        for agent, observation in observations.items():
            if agent not in shown:
                raise EnvFault(f"there is an observation of {agent!r}, who is none of the possible agents")
            shown[agent] = observation[_OBSERVATION] if self._has_masks else observation
        # always, for anybody may leave at any time, and masks are there from the first step on or never
        masks = {agent: np.arange(size) == 0 for agent, size in self._sizes.items()}
        for agent in choosing:
            offered = observations[agent][_MASK] if self._has_masks else infos.get(agent, {}).get(_MASK)
            masks[agent] = np.ones(self._sizes[agent], np.bool_) if offered is None else np.asarray(offered, np.bool_)
        return shown, {_MASK: list(masks.values())}


def as_one_agent(env: Any) -> Any:
    """Return a parallel environment as one agent; whatever else it is stays as it is."""
    return OneAgent(env) if hasattr(env, "possible_agents") and not isinstance(env, gymnasium.Env) else env


def _zero(space: spaces.Space[Any]) -> Any:
    """Return what an agent that has left is shown as."""
    if isinstance(space, spaces.Dict):
        return {name: _zero(part) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_zero(part) for part in space.spaces)
    if isinstance(space, spaces.Discrete):
        return space.start
    assert space.shape is not None
    return np.zeros(space.shape, space.dtype)
