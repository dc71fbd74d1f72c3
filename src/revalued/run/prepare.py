"""Before a run: everything is checked, and what `auto` stands for on this machine is settled."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import torch

from revalued.algorithms.decompositions import check_decomposition
from revalued.config import TrainConfig
from revalued.envs import EnvSource, Task, task_of
from revalued.errors import UserError
from revalued.native.choice import resolve_engine
from revalued.training.build import AgentShape, agent_shape
from revalued.training.memory import refuse_too_large
from revalued.validation import validate


@dataclass(frozen=True)
class PreparedRun:
    """A run that can begin."""

    config: TrainConfig
    """With threads, device and engine settled."""
    task: Task
    shape: AgentShape


def prepare(config: TrainConfig, env: EnvSource | None = None, *, task: Task | None = None) -> PreparedRun:
    """Check everything that can be checked before a run; a `task` that is known already is not built again."""
    validate(config)
    task = task or task_of(config, env)
    shape = agent_shape(config, task.info)
    check_decomposition(config.algorithm.decomposition, shape.network.actions.num_dimensions)
    execution, device = config.execution, resolve_device(config.execution.device)
    execution = replace(
        execution,
        threads=resolve_threads(execution.threads),
        device=str(device),
        engine=resolve_engine(execution.engine, device, compiled=execution.compile, torso=config.learner.torso),
    )
    config = replace(config, execution=execution)
    refuse_too_large(config, shape, task)
    return PreparedRun(config, task, shape)


def resolve_device(name: str) -> torch.device:
    """Return the device of that name; `auto` is CUDA where it is available."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"unknown device {name!r}: use auto, cpu, cuda or cuda:0") from error
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"device {name!r} is not supported: use auto, cpu, cuda or cuda:0")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"device {name!r} is not available here: this PyTorch sees no CUDA device, use cpu")
    return device


def resolve_threads(threads: int | None) -> int:
    """Return the number of threads to compute with; by default one per core this process may use."""
    return len(os.sched_getaffinity(0)) if threads is None else threads
