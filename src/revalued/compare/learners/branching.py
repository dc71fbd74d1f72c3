"""Tianshou's BDQN under the judge's eyes: `python -m revalued.compare.learners.branching ORDER`.

In the peers' environment, with its own collector, replay and update; only the loop around them is ours, so that the
judge can be asked.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from revalued.compare.learners.sb3 import Plain
from revalued.compare.meter import Meter, RunOrder


def _make(order: RunOrder) -> gymnasium.Env[Any, Any]:
    return Plain(order.make_env())


def learn(order: RunOrder) -> None:
    """Learn until the judge says that it is over."""
    # imported by name: where the types are checked, there are no peers
    bdqn = importlib.import_module("tianshou.algorithm.modelfree.bdqn")
    optim = importlib.import_module("tianshou.algorithm.optim")
    data = importlib.import_module("tianshou.data")
    vector = importlib.import_module("tianshou.env")
    networks = importlib.import_module("tianshou.utils.net.common")
    warnings.filterwarnings("ignore")
    torch.set_num_threads(order.threads)
    np.random.seed(order.seed)  # noqa: NPY002 - Tianshou explores by the global generator
    torch.manual_seed(order.seed)
    given = order.settings
    single = _make(order)
    assert isinstance(single.action_space, spaces.MultiDiscrete)
    sizes = [int(size) for size in single.action_space.nvec]
    net = networks.BranchingNet(
        state_shape=single.observation_space.shape, num_branches=len(sizes), action_per_branch=sizes[0],
        **{name: given[name] for name in ("common_hidden_sizes", "value_hidden_sizes", "action_hidden_sizes")},
    )  # fmt: skip
    single.close()
    policy = bdqn.BDQNPolicy(model=net, action_space=spaces.Discrete(sizes[0]), eps_training=given["eps_train"])
    algorithm = bdqn.BDQN(
        policy=policy, optim=optim.AdamOptimizerFactory(lr=given["lr"]), gamma=given["gamma"],
        target_update_freq=given["target_update_freq"], is_double=True,
    )  # fmt: skip
    lanes = given["training_num"]
    kind = vector.SubprocVectorEnv if order.workers > 0 else vector.DummyVectorEnv
    envs = kind([partial(_make, order) for _ in range(lanes)])
    envs.seed(order.seed)
    buffer = data.VectorReplayBuffer(given["buffer_size"], lanes)
    collector = data.Collector(policy, envs, buffer, exploration_noise=True)
    collector.reset()
    meter = Meter(order)

    def act(observation: NDArray[np.float32], mask: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        with torch.no_grad():
            values, _ = net(observation[None])
        chosen: NDArray[np.int64] = values.argmax(dim=-1)[0].numpy()
        return chosen

    policy.is_within_training_step = True
    env_steps, warmup = 0, given["batch_size"] * lanes
    goes_on = meter.goes_on(0, act)
    while goes_on:
        policy.set_eps_training(max(given["eps_train"] * (1 - given["eps_decay"]) ** env_steps, given["eps_min"]))
        env_steps += int(collector.collect(n_step=given["step_per_collect"]).n_collected_steps)
        if env_steps >= warmup:
            for _ in range(round(given["update_per_step"] * given["step_per_collect"])):
                algorithm.update(buffer, given["batch_size"])
        goes_on = meter.goes_on(env_steps, act)
    meter.close()
    envs.close()


if __name__ == "__main__":
    learn(RunOrder.read(sys.argv[1]))
