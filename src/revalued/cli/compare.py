"""`revalued compare`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from revalued.cli.parsing import parse
from revalued.compare.contestants import CONTESTANTS, OURS, unfit
from revalued.errors import UserError, unknown_name

if TYPE_CHECKING:
    from rich.progress import TaskID

    from revalued.compare.plan import Budget
    from revalued.compare.result_table import RunKey
    from revalued.envs import Task


_DAY_SECONDS = 86_400.0
"""Time from which the bar estimates: a run takes minutes, not the half minute that bars are made for."""


@dataclass(frozen=True)
class CompareArguments:
    """Compare us with what people would use instead: the same problem, the same budget, the same test episodes.

    Called again, it goes on where it was stopped: a finished run is never repeated.
    """

    problem: str
    """Any task's name, such as problem:sepsis or walker-walk."""
    against: tuple[str, ...] = ("sb3-ppo", "tianshou-bdq", "random")
    """With whom: sb3-ppo, sb3-dqn, sb3-sac, tianshou-bdq, random."""
    ours: tuple[str, ...] = OURS
    """Who plays for us: lean, lean-at-once, decqn, decqn-paper, dqn."""
    seeds: int = 3
    """Number of seeds of everybody."""
    budget_minutes: float | None = None
    """Time of a run, test episodes not counted; 8 where no --env-steps are given."""
    env_steps: int | None = None
    """Interactions of a run; with both, whichever comes first."""
    clock: Literal["wall", "cpu"] = "wall"
    """Whether minutes are of the clock, or of a core's work, that of simulators and workers included: fair on a busy
    machine."""
    tune: bool = False
    """Also try six settings of everybody, for a quarter of the budget each, and let the best take part."""
    episodes: int = 10
    """Test episodes in a round, the same ones for everybody."""
    bins: int = 3
    """Sub-actions per dimension that continuous actions are cut into."""
    threads: int = 1
    """Threads of every run."""
    workers: int = 0
    """Processes that step the environments of a run: ours so many, the peers' one for each of their environments."""
    jobs: int = 1
    """Runs at the same time."""
    peers: Path = Path(".venv-peers")
    """Environment of the other libraries; `make bench-peers` makes it."""
    out: Path = Path("results/problems")
    """Folder for results: one folder per problem in it."""
    dry_run: bool = False
    """Only say which runs there would be."""
    quiet: bool = False
    """Print nothing but failures."""


def compare(arguments: list[str]) -> int:
    """Carry out `revalued compare`."""
    given = parse(CompareArguments, "compare", arguments)
    if given.budget_minutes is None and given.env_steps is None:
        given = replace(given, budget_minutes=8.0)
    _check(given)
    names = list(dict.fromkeys((*given.ours, *given.against)))
    from revalued.compare.execution import require_peers
    from revalued.compare.plan import Budget
    from revalued.compare.result_table import ComparisonFolder, folder_name
    from revalued.compare.runner import ComparisonRunner, Terms, make_provenance
    from revalued.compare.tables import markdown_table, read_comparison
    from revalued.envs import TaskSpec, find_task, module_of, search_working_folder
    from revalued.run.signals import noted_signals

    if module_of(given.problem):  # named by whoever works in this folder
        search_working_folder()
    task = find_task(TaskSpec(given.problem, given.bins))
    _refuse_unfit(names, given.problem, task)
    budget = Budget(given.budget_minutes, given.env_steps, given.clock)
    if given.dry_run:
        _print_plan(names, given, budget)
        return 0
    peers = require_peers(names, given.peers, given.problem)
    terms = Terms(given.problem, given.bins, budget, given.episodes, given.threads, given.workers)
    folder = ComparisonFolder(given.out / folder_name(given.problem))
    with (
        folder.locked(),
        _View(given.problem, quiet=given.quiet) as view,
        noted_signals(signal.SIGINT, signal.SIGTERM, say=False, second_one_kills=True) as received,
    ):
        runner = ComparisonRunner(terms, folder, given.peers, given.jobs, view, lambda: bool(received))
        failures = runner.run(names, given.seeds, make_provenance(names, terms, task, peers), tune=given.tune)
    if received:
        print("stopped; the same command goes on with what is missing", file=sys.stderr)
        return 128 + received[0]
    if not given.quiet:
        print(markdown_table(read_comparison(folder)))
        print(f"results in {folder.path}")
    for failure in failures:
        print(f"revalued: {failure}", file=sys.stderr)
    return 1 if failures else 0


class _View:
    """A bar over the runs of a comparison."""

    def __init__(self, title: str, *, quiet: bool) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        times = (TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn())
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *times)
        console = Console(stderr=True, quiet=quiet)
        self._bar = Progress(*columns, console=console, disable=quiet, speed_estimate_period=_DAY_SECONDS)
        self._title = title
        self._shown: TaskID | None = None

    def __enter__(self) -> _View:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def begin(self, total: int, completed: int) -> None:
        """Show how many runs follow."""
        self._shown = self._bar.add_task(self._title, total=total, completed=completed)

    def started(self, key: RunKey) -> None:
        """Show who runs."""
        assert self._shown is not None
        self._bar.update(self._shown, description=f"{key.contestant}, {key.setting}, seed {key.seed}")

    def ended(self) -> None:
        """Show that one more is done."""
        assert self._shown is not None
        self._bar.advance(self._shown)


def _check(given: CompareArguments) -> None:
    for name in (*given.ours, *given.against):
        if name not in CONTESTANTS:
            raise unknown_name("contestant", name, CONTESTANTS)
    for option in ("seeds", "episodes", "threads", "jobs", "env_steps"):
        value = getattr(given, option)
        if value is not None and value < 1:
            raise UserError(f"{option.replace('_', '-')} = {value} is not possible: it must be at least 1")
    if given.budget_minutes is not None and not given.budget_minutes > 0:
        raise UserError(f"budget-minutes = {given.budget_minutes:g} is not possible: it must be above 0")
    if given.workers < 0:
        raise UserError(f"workers = {given.workers} is not possible: it must be at least 0")


def _refuse_unfit(names: Sequence[str], problem: str, task: Task) -> None:
    from gymnasium import spaces

    has_bins = task.info.spaces is not None and isinstance(task.info.spaces.own_action, spaces.Box)
    for name in names:
        reason = unfit(name, task.info.sizes, masked=task.info.masked, has_bins=has_bins)
        if reason is not None:
            raise UserError(f"{problem}: {reason}")


def _print_plan(names: Sequence[str], given: CompareArguments, budget: Budget) -> None:
    from revalued.compare.plan import RANDOM, default_runs, tuning_runs

    runs = default_runs(names, given.seeds)
    tuning = tuning_runs(names) if given.tune else []
    for key in (*runs, *tuning):
        print(f"{key.contestant}, {key.setting}, seed {key.seed}, {key.share:g} of the budget")
    if budget.minutes is not None:
        learning = [key for key in (*runs, *tuning) if key.contestant != RANDOM]
        print(f"{sum(key.share for key in learning) * budget.minutes:.0f} minutes, test episodes not counted")
