"""`revalued check`."""

from __future__ import annotations

import json
import math
import statistics
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from revalued.cli.parsing import parse
from revalued.config import ExplorationConfig
from revalued.errors import UserError

if TYPE_CHECKING:
    from revalued.envs.examine import Findings

_SLOW_STEPS_PER_SECOND = 1_000
"""Below, stepping takes longer than learning, and workers pay."""
_UNEVEN_SCALES = 30
"""Observations whose deviations lie further apart than this are better normalised."""
_FEW_COMBINATIONS = 200
"""Up to here plain DQN is a fair competitor."""
_FIT_VALUES = 0.3, 100.0
"""Values of random play that are left as they are; chosen by judgement, around those that settings were tuned on."""
_AT_ONCE = 0.25
"""From this share of variance paid at once on, looking far ahead hurts; it separates the problems that were tried."""
_WORKERS = 2
_FIRST_RUN_SECONDS = 1_800
"""What a first run may take, if stepping is all that takes time."""
_FIRST_RUN_ENV_STEPS = 120_000
"""Where so many interactions fit into it, the usual exploration does; otherwise it has to end earlier."""
_EXPLORING_SHARE, _WARMUP_SHARE = 0.4, 0.05


@dataclass(frozen=True)
class CheckArguments:
    """Tell what we see in an environment, from a few random episodes."""

    task: str
    """Task name, see `revalued list tasks`; or `gym:ID`, `gym:module:ID`, `pettingzoo:MODULE`, `metaworld:NAME`."""
    bins: int = 3
    """Sub-actions per dimension that continuous actions are cut into."""
    episodes: int = 5
    """Random episodes to play, at most."""
    seconds: float = 10.0
    """Time for them, at most."""
    seed: int = 0
    """Seed of the episodes."""
    json: bool = False
    """Print one JSON object instead of a table."""


def check(arguments: list[str]) -> int:
    """Carry out `revalued check`."""
    given = parse(CheckArguments, "check", arguments)
    for name, value, least in (("episodes", given.episodes, 1), ("seed", given.seed, 0), ("bins", given.bins, 2)):
        if value < least:
            raise UserError(f"{name} = {value} is not possible: it must be at least {least}")
    if not given.seconds > 0:
        raise UserError(f"seconds = {given.seconds} is not possible: it must be above 0")
    from revalued.envs import LaneError, TaskSpec, find_task, module_of, search_working_folder
    from revalued.envs.examine import examine

    if module_of(given.task):  # named by whoever works in this folder
        search_working_folder()
    task = find_task(TaskSpec(given.task, given.bins))
    try:
        found = examine(task, episodes=given.episodes, seconds=given.seconds, seed=given.seed)
    except LaneError as error:
        print(f"revalued: {error}", file=sys.stderr)
        return 1
    command = " ".join(["revalued train", given.task, *suggested_flags(found)])
    if given.json:
        plain = {name: np.asarray(value).tolist() for name, value in asdict(found).items()}
        print(json.dumps({"task": given.task, **plain, "command": command}))
    else:
        _print_table(given.task, found, command)
    return 0


def suggested_flags(found: Findings) -> list[str]:
    """Return the flags that we would start with."""
    flags = ["--algo", "lean"]
    if len(found.sizes) == 1:  # nothing to factorise
        flags = ["--algo", "dqn", "--learning-rate", "3e-4"]
        if found.scale_ratio > _UNEVEN_SCALES:
            flags.append("--normalise-observations")
    if _pays_at_once(found):
        flags += ["--n-step", "1", "--discount", "0.9"]
    if _are_rewards_unfit(found):
        flags += ["--reward-scale", f"{10.0 ** -math.floor(math.log10(found.value_size)):g}"]
    if found.steps_per_second < _SLOW_STEPS_PER_SECOND:
        flags += ["--workers", str(_WORKERS), *_short_run_flags(_WORKERS * found.steps_per_second)]
    return flags


def _pays_at_once(found: Findings) -> bool:
    """Tell whether what a choice brings mostly comes at once, so that what follows is noise to its value."""
    return found.paid_at_once is not None and found.paid_at_once >= _AT_ONCE


def _are_rewards_unfit(found: Findings) -> bool:
    """Tell whether rewards had better be scaled; where their range is declared, random play says little about them."""
    low, high = _FIT_VALUES
    return found.reward_range is None and found.value_size > 0 and not low <= found.value_size <= high


def _short_run_flags(steps_per_second: float) -> list[str]:
    """Return flags of a run that ends in time, and explores for part of it only; none where that is no question."""
    affordable = steps_per_second * _FIRST_RUN_SECONDS
    if affordable >= _FIRST_RUN_ENV_STEPS:
        return []
    step = 10 ** max(int(math.log10(max(affordable, 1.0))), 3)  # 41,700 becomes 40,000
    env_steps = max(int(affordable / step), 1) * step
    warmup, exploring = int(_WARMUP_SHARE * env_steps), _EXPLORING_SHARE * env_steps
    decay = ExplorationConfig().epsilon_min ** (1 / exploring)
    flags = {
        "env-steps": env_steps,
        "epsilon-decay": f"{decay:.6f}",
        "warmup-env-steps": warmup,
    }
    return [text for name, value in flags.items() for text in (f"--{name}", str(value))]


def _print_table(task: str, found: Findings, command: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, title=task)
    for row in _lines(found):
        table.add_row(*row)
    console = Console(markup=False)
    console.print(table)
    console.print(f"start with: {command}", soft_wrap=True)


def _lines(found: Findings) -> list[tuple[str, str]]:
    from revalued.run.progress import format_duration

    sizes, waiting = found.sizes, format_duration(100_000 / found.steps_per_second)
    each = f"{sizes[0]} choices each" if len(set(sizes)) == 1 else f"of sizes {', '.join(map(str, sizes))}"
    actions = f"{len(sizes)} dimension{'s' if len(sizes) > 1 else ''}, {each}: {found.combinations:,.4g} combinations"
    if 1 < found.combinations <= _FEW_COMBINATIONS:
        actions += " (few enough for --algo dqn)"
    ranges = f"from {found.lowest.min():.3g} to {found.highest.max():.3g}"
    scales = f"deviations {found.deviations.min():.2g} to {found.deviations.max():.2g}"
    declared = "no limit declared" if found.max_episode_steps is None else f"at most {found.max_episode_steps:,} steps"
    if found.lengths:
        played = f"{len(found.lengths)} played: {min(found.lengths):,} to {max(found.lengths):,} steps"
        ends = f"{found.terminated} terminated, {len(found.lengths) - found.terminated} truncated"
        mean = f"{statistics.fmean(found.returns):.4g} on average, {min(found.returns):.4g} to {max(found.returns):.4g}"
    else:
        played, mean = f"none ended within the {found.steps:,} steps that there was time for", "unknown"
        ends = "it may never end" if found.max_episode_steps is None else "--seconds 60 gives it more"
    if found.has_suspicious_ends:
        ends += f" (a time limit of {found.lengths[0]}? that should be truncation: the future is cut off otherwise)"
    repeats = "yes, to the bit" if found.repeats else "NO: a resumed run will begin new episodes"
    masks = "none" if found.legal_share is None else f"{found.legal_share:.0%} of the choices are legal on average"
    rewards = f"{found.rewards[0]:.4g} to {found.rewards[1]:.4g}"
    if _are_rewards_unfit(found):
        size = "large" if found.value_size > 1 else "small"
        rewards += f", {found.mean_reward_size:.2g} in size on average: {size} for our settings, so scale them"
    if found.paid_at_once is None:
        pays = "unknown: rewards are too rare, or too few moments could be repeated"
    else:
        pays = f"{found.paid_at_once:.0%} of how rewards vary is the choice just made"
        pays += ": look one step ahead and not far" if _pays_at_once(found) else ", the rest came before"
    return [
        ("action", actions),
        ("observation", f"{found.observation_size} numbers {ranges}, {scales}"),
        ("masks", masks),
        ("episodes", f"{played}, {ends}; {declared}"),
        ("return at random", mean),
        ("reward of a step", rewards),
        ("paid at once", pays),
        ("speed", f"{found.steps_per_second:,.0f} steps/s in one process: {waiting} for 100,000"),
        ("repeats from its seed", repeats),
    ]
