"""Stable-Baselines3 under the judge's eyes: `python -m revalued.compare.learners.sb3 ORDER`, in the peers' environment.

PPO takes the factorised action as it is, DQN a list of all joint actions, SAC the continuous one.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from revalued.compare.meter import Meter, RunOrder


class Joint(gymnasium.ActionWrapper[Any, Any, Any]):
    """One number for each combination of choices, the last dimension fastest."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        assert isinstance(env.action_space, spaces.MultiDiscrete)
        self.sizes = tuple(int(size) for size in env.action_space.nvec)
        self.action_space = spaces.Discrete(int(np.prod(self.sizes)))

    def action(self, action: Any) -> NDArray[np.int64]:
        """Return the choices behind a number."""
        return np.array(np.unravel_index(int(action), self.sizes), np.int64)


class Plain(gymnasium.Env[Any, Any]):
    """An environment without wrappers: the library looks behind them, at `unwrapped`, for spaces."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self._env = env
        self.observation_space = env.observation_space
        self.action_space = env.action_space
        if isinstance(env.action_space, spaces.Box):  # SAC computes in float32
            low, high = (bound.astype(np.float32) for bound in (env.action_space.low, env.action_space.high))
            self.action_space = spaces.Box(low, high, dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        observation, _ = self._env.reset(seed=seed)
        return observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step; what is in `info` would only be copied about."""
        observation, reward, terminated, truncated, _ = self._env.step(action)
        return observation, float(reward), terminated, truncated, {}

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


def learn(order: RunOrder) -> None:
    """Learn until the judge says that it is over."""
    torch.set_num_threads(order.threads)
    baselines = importlib.import_module("stable_baselines3")
    vector = importlib.import_module("stable_baselines3.common.vec_env")
    callbacks = importlib.import_module("stable_baselines3.common.callbacks")
    algorithm = order.contestant.removeprefix("sb3-").upper()
    settings = dict(order.settings)
    num_envs, normalise = int(settings.pop("num_envs", 1)), bool(settings.pop("normalise", False))

    def make() -> gymnasium.Env[Any, Any]:
        env = order.make_env()
        return Plain(Joint(env) if algorithm == "DQN" else env)

    makers = [make] * num_envs
    envs = vector.SubprocVecEnv(makers) if order.workers > 0 else vector.DummyVecEnv(makers)
    if normalise:
        envs = vector.VecNormalize(envs, norm_obs=True, norm_reward=False)
    model = getattr(baselines, algorithm)("MlpPolicy", envs, seed=order.seed, device="cpu", verbose=0, **settings)
    joint = Joint(order.make_env()) if algorithm == "DQN" else None  # never stepped, only asked what a number means
    meter = Meter(order)

    def act(observation: NDArray[np.float32], mask: NDArray[np.bool_] | None) -> Any:
        seen = envs.normalize_obs(observation) if normalise else observation
        action, _ = model.predict(seen, deterministic=True)
        return action if joint is None else joint.action(action)

    class Judge(callbacks.BaseCallback):  # type: ignore[misc, name-defined]
        def _on_step(self) -> bool:
            return meter.goes_on(self.num_timesteps, act)

    meter.goes_on(0, act)
    # DQN's exploration falls over a share of what it is told here, so an unlimited run is told a likely length
    likely = order.env_steps if order.env_steps is not None else 100_000
    while model.num_timesteps < order.most_env_steps:
        before = model.num_timesteps
        length = likely if order.env_steps is not None or algorithm != "PPO" else order.most_env_steps
        model.learn(length, callback=Judge(), reset_num_timesteps=before == 0, progress_bar=False)
        if not meter.goes_on(model.num_timesteps, act):
            break
    meter.close()
    envs.close()


if __name__ == "__main__":
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    learn(RunOrder.read(sys.argv[1]))
