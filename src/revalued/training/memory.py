"""How much memory a run will need, told from its sizes before anything is made, and how much there is."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from revalued.config import TrainConfig
from revalued.envs import Task
from revalued.envs.vector.lane_buffers import LaneBuffers
from revalued.errors import UserError
from revalued.training.build import AgentShape

_FLOAT = 4
_MANY_ENVS, _ENVS_MEASURED = 1_000, 16
"""From how many environments on it is measured what one takes, and with how many: 10 kB or 10 MB, nobody can tell."""
_LEAST_ENV_BYTES = 10_000
"""What even a toy takes, though it may find room that was reserved before."""
_WORKER_BYTES = 50_000_000
"""A Python process with NumPy and Gymnasium."""


@dataclass(frozen=True)
class Part:
    """One thing that takes memory."""

    name: str
    num_bytes: int
    flags: str
    """What makes it smaller."""
    on_device: bool = False
    """Whether it lies where the critics are updated, not necessarily in main memory."""


def memory_parts(config: TrainConfig, shape: AgentShape, task: Task) -> list[Part]:
    """Return what a run keeps in memory, all settings settled; what is small beside it is left out."""
    return [_critics(config, shape), _workspace(config, shape), _replay(config, shape), _environments(config, task)]


def _critics(config: TrainConfig, shape: AgentShape) -> Part:
    """Return the online and target critics, both moments of the optimiser, and gradients."""
    network = shape.network
    of_one = sum(math.prod(size) for size in network.sizes().values())
    is_native = config.execution.engine == "native"
    gradients = min(network.critics, config.execution.threads or 1) if is_native else network.critics
    flags = "--critics, --hidden-size" + (", --atoms" if network.head == "categorical" else "") + ", --bins"
    return Part("the critics", _FLOAT * of_one * (4 * network.critics + gradients), flags, on_device=True)


def _workspace(config: TrainConfig, shape: AgentShape) -> Part:
    """Return what an update keeps of the batch: hidden layers and outputs, of every critic or of every thread."""
    network, rows, threads = shape.network, config.learner.batch_size, config.execution.threads or 1
    passes = 2 if config.algorithm.is_regularised else 1
    in_turn = network.head == "utilities" and config.algorithm.decomposition in ("mean", "sum", "atomic")
    if config.execution.engine == "native":
        kept = threads if in_turn else network.critics  # critics at a time whose layers are kept for their gradients
        numbers = rows * (
            network.hidden_size * (4 * kept + 2 * threads)
            + network.head_size * (network.critics * passes + 2 * kept + 2 * threads)
        )
    else:
        numbers = (
            rows * network.critics * ((1 + 4 * network.blocks) * network.hidden_size + (3 + passes) * network.head_size)
        )
    observations = 4 * rows * (network.observation_size + 1)
    return Part("an update", _FLOAT * (numbers + observations), "--batch-size, --hidden-size, --bins", on_device=True)


def _replay(config: TrainConfig, shape: AgentShape) -> Part:
    """Return the replay as far as it will be written: what is never touched costs nothing."""
    schedule, space = config.schedule, shape.network.actions
    lanes = schedule.num_envs * max(1, config.execution.actors)
    steps = -(-schedule.env_steps // config.action_repeat)
    rows = min(config.replay.replay_capacity, 2 * (steps + lanes))  # a truncated step takes two
    return Part("the replay", rows * _replay_row(shape, space.max_choices), "--replay-capacity")


def _replay_row(shape: AgentShape, max_choices: int) -> int:
    """Return the bytes of one transition, those of its place in the sum tree included."""
    network = shape.network
    action = 1 if max_choices <= 2**8 else 2 if max_choices <= 2**16 else 4
    numbers = _FLOAT * (network.observation_size + 3) + action * network.actions.num_dimensions
    return numbers + -(-shape.mask_size // 8) + 9


def _environments(config: TrainConfig, task: Task) -> Part:
    """Return environments of this process and its workers; actors have theirs elsewhere."""
    if config.execution.actors > 0:
        return Part("the environments", 0, "--num-envs")
    num_envs = config.schedule.num_envs
    num_bytes = LaneBuffers.num_bytes(num_envs, task.info) + config.execution.workers * _WORKER_BYTES
    if num_envs >= _MANY_ENVS:
        num_bytes += num_envs * _env_bytes(task)
    return Part("the environments", num_bytes, "--num-envs, --workers")


def _env_bytes(task: Task) -> int:
    """Make a few environments to see how much memory each of them takes."""
    before, envs = _resident_bytes(), []
    try:
        for _ in range(_ENVS_MEASURED):
            envs.append(task.make())
            envs[-1].reset(seed=0)
        return max(_LEAST_ENV_BYTES, (_resident_bytes() - before) // _ENVS_MEASURED)
    finally:
        for env in envs:
            env.close()


def _resident_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def refuse_too_large(config: TrainConfig, shape: AgentShape, task: Task) -> None:
    """Refuse a run that cannot fit into memory, with its largest parts; `config` has device and engine settled."""
    parts = memory_parts(config, shape, task)
    device = torch.device(config.execution.device)
    if device.type == "cuda":
        _refuse([part for part in parts if part.on_device], torch.cuda.mem_get_info(device)[0], f"on {device}")
        parts = [part for part in parts if not part.on_device]
    _refuse(parts, available_bytes(), "available")
    whole = config.replay.replay_capacity * _replay_row(shape, shape.network.actions.max_choices)
    _refuse([Part("the replay", whole, "--replay-capacity")], total_bytes(), "in this machine")


@contextmanager
def shortage_refused(config: TrainConfig, shape: AgentShape, task: Task) -> Iterator[None]:
    """Say in one line that memory ran out after all while a run was put together, with its largest parts."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):  # as PyTorch says it
            raise
        raise UserError(_shortage(memory_parts(config, shape, task), "this machine refuses it")) from error


def _refuse(parts: list[Part], there_is: int, where: str) -> None:
    needed = sum(part.num_bytes for part in parts)
    if needed > there_is:
        raise UserError(_shortage(parts, f"there are {_written(there_is)} {where}"))


def _shortage(parts: list[Part], reason: str) -> str:
    largest, *others = sorted(parts, key=lambda part: -part.num_bytes)
    large = [part for part in others if part.num_bytes > largest.num_bytes / 20]
    also = "".join(f", {part.name} {_written(part.num_bytes)}" for part in large)
    size = _written(largest.num_bytes)
    return f"too little memory: {largest.name} would take {size}{also}, and {reason}; smaller with {largest.flags}"


def _written(num_bytes: int) -> str:
    """Return a size in the unit that fits it."""
    size, units = float(num_bytes), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:,.3g} {units[0]}" if size < 1000 else f"{size:.2g} {units[0]}"


def available_bytes() -> int:
    """Return the memory that can be had without pushing others out, within the limits of this process's group."""
    entries = _meminfo()
    there_is = entries.get("MemAvailable", 0) + entries.get("SwapFree", 0)
    return min([there_is or 2**63, *(max(0, limit - used) for limit, used in _group_limits())])


def total_bytes() -> int:
    """Return all the memory of the machine, or that of this process's group."""
    entries = _meminfo()
    there_is = entries.get("MemTotal", 0) + entries.get("SwapTotal", 0)
    return min([there_is or 2**63, *(limit for limit, _ in _group_limits())])


def _meminfo() -> dict[str, int]:
    """Return the entries of /proc/meminfo in bytes; empty where there is no such file."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return {name: int(value.split()[0]) * 1024 for name, _, value in (line.partition(":") for line in lines)}
    except (OSError, ValueError, IndexError):
        return {}


def _group_limits(
    proc: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> Iterator[tuple[int, int]]:
    """Yield limit and use of every control group around this process that has one, as containers and schedulers set."""
    try:
        lines = proc.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds == "":
            base, names = root, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in kinds.split(","):
            base, names = root / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = base / path.lstrip("/")
        # inside a container the path may be that of the host, and the container's own group is the root
        for folder in {base, group, *(parent for parent in group.parents if parent.is_relative_to(base))}:
            yield from _limit_of(folder, *names)


def _limit_of(folder: Path, limit: str, used: str, reclaimable: str) -> Iterator[tuple[int, int]]:
    try:
        most = int((folder / limit).read_text())
        now = int((folder / used).read_text())
        entries = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no limit is written as a word, or there is no such file
        return
    if most < 2**60:  # the old way to write that there is no limit
        yield most, max(0, now - int(entries.get(reclaimable, 0)))
