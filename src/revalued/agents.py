"""The paper's algorithms by name; each makes an `Agent` with its preset, whose knobs may all be turned."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from revalued.agent import Agent
from revalued.envs import EnvSource
from revalued.settings import Settings


def REValueD(env: str | EnvSource, *, folder: str | Path | None = None, **knobs: Unpack[Settings]) -> Agent:
    """Make an agent with mean decomposition, 10 critics and regularised utilities (Ireland & Montana 2024)."""
    return Agent(env, "revalued", folder=folder, **knobs)


def DecQN(env: str | EnvSource, *, folder: str | Path | None = None, **knobs: Unpack[Settings]) -> Agent:
    """Make an agent with mean decomposition and one critic (Seyde et al. 2022)."""
    return Agent(env, "decqn", folder=folder, **knobs)


def DecQNSum(env: str | EnvSource, *, folder: str | Path | None = None, **knobs: Unpack[Settings]) -> Agent:
    """Make an agent whose Q-value is the sum of the utilities (Tang et al. 2022)."""
    return Agent(env, "decqn-sum", folder=folder, **knobs)


def DecQNC51(env: str | EnvSource, *, folder: str | Path | None = None, **knobs: Unpack[Settings]) -> Agent:
    """Make an agent with categorical distributions, averaged at the logits."""
    return Agent(env, "decqn-c51", folder=folder, **knobs)


def BDQ(env: str | EnvSource, *, folder: str | Path | None = None, **knobs: Unpack[Settings]) -> Agent:
    """Make an agent with dueling branches and double Q (Tavakoli et al. 2018)."""
    return Agent(env, "bdq", folder=folder, **knobs)


def DQN(env: str | EnvSource, *, folder: str | Path | None = None, **knobs: Unpack[Settings]) -> Agent:
    """Make an agent with one head over all combinations, for small action spaces only (Mnih et al. 2015)."""
    return Agent(env, "dqn", folder=folder, **knobs)
