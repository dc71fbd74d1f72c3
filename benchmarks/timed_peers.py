"""The process in which other libraries' updates are timed; runs in `.venv-peers`, see `peers` and `processes`.

Both get a replay of made-up transitions, batches of 256, all cores, Adam, and hidden layers of 512.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from benchmarks.processes import serve

BATCH, HIDDEN, LEARNING_RATE = 256, 512, 1e-4


class Nothing(gymnasium.Env[Any, Any]):
    """An environment that is never stepped; it only has spaces."""

    def __init__(self, observation_size: int, actions: int) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (observation_size,), np.float32)
        self.action_space = spaces.Discrete(actions)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Return zeros."""
        return np.zeros(self.observation_space.shape or (), np.float32), {}


def _tianshou(observation_size: int, num_dimensions: int, bins: int, capacity: int) -> Callable[[], object]:
    # imported by name: where the types are checked, there are no peers
    bdqn = importlib.import_module("tianshou.algorithm.modelfree.bdqn")
    optim = importlib.import_module("tianshou.algorithm.optim")
    data = importlib.import_module("tianshou.data")
    networks = importlib.import_module("tianshou.utils.net.common")

    # three hidden layers as in our network; branches are single layers, as our head is
    net = networks.BranchingNet(
        state_shape=observation_size, num_branches=num_dimensions, action_per_branch=bins,
        common_hidden_sizes=[HIDDEN] * 3,
    )  # fmt: skip
    policy = bdqn.BDQNPolicy(model=net, action_space=spaces.Discrete(bins))
    optimiser = optim.AdamOptimizerFactory(lr=LEARNING_RATE)
    algorithm = bdqn.BDQN(policy=policy, optim=optimiser, target_update_freq=500, is_double=True)
    buffer = data.PrioritizedReplayBuffer(capacity, alpha=0.6, beta=0.2)
    rng = np.random.default_rng(0)
    for step in range(capacity):
        buffer.add(
            data.Batch(
                obs=rng.standard_normal(observation_size, np.float32),
                act=rng.integers(bins, size=num_dimensions),
                rew=rng.random(),
                terminated=False,
                truncated=step % 1000 == 999,
                obs_next=rng.standard_normal(observation_size, np.float32),
                info={},
            )
        )
    policy.is_within_training_step = True
    return lambda: algorithm.update(buffer, BATCH)


def _stable_baselines(observation_size: int, num_dimensions: int, bins: int, capacity: int) -> Callable[[], object]:
    baselines = importlib.import_module("stable_baselines3")
    logger = importlib.import_module("stable_baselines3.common.logger")

    actions = bins**num_dimensions
    model = baselines.DQN(
        "MlpPolicy", Nothing(observation_size, actions), learning_rate=LEARNING_RATE, buffer_size=capacity,
        batch_size=BATCH, policy_kwargs={"net_arch": [HIDDEN] * 3}, n_steps=3, device="cpu",
    )  # fmt: skip
    model.set_logger(logger.Logger(None, []))
    rng = np.random.default_rng(0)
    replay = model.replay_buffer
    assert replay is not None
    for step in range(capacity):
        replay.add(
            rng.standard_normal((1, observation_size), np.float32),
            rng.standard_normal((1, observation_size), np.float32),
            rng.integers(actions, size=(1, 1)),
            rng.random(1),
            np.array([step % 1000 == 999]),
            [{}],
        )
    return lambda: model.train(1, BATCH)


def prepare(what: dict[str, Any]) -> Callable[[], object]:
    """Return one update of the library asked for, with the replay's part in it."""
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    maker = {"tianshou": _tianshou, "stable-baselines3": _stable_baselines}[what["library"]]
    return maker(what["observation_size"], what["num_dimensions"], what["bins"], what["capacity"])


if __name__ == "__main__":
    serve(prepare)
