"""`revalued compare`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from revalued.cli.parsing import parse
from revalued.compare.contestants import CONTESTANTS, OURS, unfit
from revalued.compare.plan import Budget, default_runs, tuned_runs, tuned_settings, tuning_runs
from revalued.compare.result_table import RunKey
from revalued.errors import UserError, unknown_name

if TYPE_CHECKING:
    from revalued.compare.result_table import ComparisonFolder, ComparisonProvenance
    from revalued.envs import Task


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
    """Who plays for us: decqn-ensemble, decqn, dqn."""
    seeds: int = 3
    """Number of seeds of everybody."""
    budget_minutes: float | None = None
    """Time of a run, test episodes not counted; 8 where no --env-steps are given."""
    env_steps: int | None = None
    """Interactions of a run; with both, whichever comes first."""
    clock: Literal["wall", "cpu"] = "wall"
    """Whether minutes are of the clock, or of one core's work: on a busy machine only the latter are fair."""
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
    from revalued.compare.result_table import ComparisonFolder, folder_name
    from revalued.envs import TaskSpec, find_task, module_of, search_working_folder

    if module_of(given.problem):
        search_working_folder()
    task = find_task(TaskSpec(given.problem, given.bins))
    has_bins = _has_bins(task)
    for name in names:
        reason = unfit(name, task.info.sizes, masked=task.info.masked, has_bins=has_bins)
        if reason is not None:
            raise UserError(f"{given.problem}: {reason}")
    folder = ComparisonFolder(given.out / folder_name(given.problem))
    budget = Budget(given.budget_minutes, given.env_steps, given.clock)
    if given.dry_run:
        _print_plan(names, given, budget)
        return 0
    peers = require_peers(names, given.peers, given.problem)
    with folder.locked():
        return _run_all(names, given, budget, folder, _provenance(names, given, task, peers))


def _run_all(
    names: Sequence[str],
    given: CompareArguments,
    budget: Budget,
    folder: ComparisonFolder,
    provenance: ComparisonProvenance,
) -> int:
    from revalued.compare.tables import markdown_table, read_comparison
    from revalued.run.files import write_json
    from revalued.run.signals import noted_signals

    known = folder.provenance()
    if known is not None:
        _refuse_mixture(known, provenance, folder)
        provenance["tuned"] = known["tuned"]
        # of those who are not here this time, too
        provenance["settings"] = {**known["settings"], **provenance["settings"]}
        provenance["versions"] = {**known["versions"], **provenance["versions"]}
    write_json(folder.path / "provenance.json", provenance)
    with noted_signals(signal.SIGINT, signal.SIGTERM, say=False, second_one_kills=True) as received:
        stop = lambda: bool(received)  # noqa: E731
        failures = _carry_out(default_runs(names, given.seeds), given, budget, folder, stop)
        if given.tune:
            failures += _carry_out(tuning_runs(names), given, budget, folder, stop)
            tuned = tuned_settings(names, folder.finished(), budget)
            provenance["tuned"] = {**provenance["tuned"], **tuned}
            write_json(folder.path / "provenance.json", provenance)
            failures += _carry_out(tuned_runs(tuned, given.seeds), given, budget, folder, stop)
    if received:
        print("stopped; the same command goes on with what is missing", file=sys.stderr)
        return 128 + received[0]
    if not given.quiet:
        print(markdown_table(read_comparison(folder)))
        print(f"results in {folder.path}")
    for failure in failures:
        print(f"revalued: {failure}", file=sys.stderr)
    return 1 if failures else 0


def _carry_out(
    runs: Sequence[RunKey],
    given: CompareArguments,
    budget: Budget,
    folder: ComparisonFolder,
    stop: Callable[[], bool],
) -> list[str]:
    """Carry out the runs that are not on disk yet; return what failed."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from revalued.compare.execution import execute
    from revalued.compare.meter import RunOrder

    finished = folder.finished()
    missing = [key for key in runs if key not in finished]
    failures: list[str] = []

    def order(key: RunKey, out: str) -> RunOrder:
        contestant = CONTESTANTS[key.contestant]
        return RunOrder(
            given.problem, given.bins, key.contestant, dict(contestant.settings[key.setting]), key.seed,
            budget.seconds(key.share), budget.interactions(key.share), given.clock, given.episodes, 0,
            given.threads, given.workers, contestant.is_continuous, out,
        )  # fmt: skip

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True, quiet=given.quiet)
    with Progress(*columns, console=console, disable=given.quiet) as bar:
        shown = bar.add_task(given.problem, total=len(runs), completed=len(runs) - len(missing))
        begin = lambda key: bar.update(shown, description=f"{key.contestant}, {key.setting}, seed {key.seed}")  # noqa: E731
        for ended in execute(missing, order, peers=given.peers, jobs=given.jobs, started=begin, stop=stop):
            if ended.failure is None:
                folder.add(ended.key, ended.rows)
            else:
                failures.append(f"{ended.key.contestant}, {ended.key.setting}, seed {ended.key.seed} {ended.failure}")
            bar.advance(shown)
    return failures


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
    if given.workers > 0 and given.clock == "cpu":
        raise UserError("the work of --workers is not on this core's clock: with them take --clock wall")


def _has_bins(task: Task) -> bool:
    from gymnasium import spaces

    return task.info.spaces is not None and isinstance(task.info.spaces.own_action, spaces.Box)


def _provenance(
    names: Sequence[str], given: CompareArguments, task: Task, peers: dict[str, str]
) -> ComparisonProvenance:
    from revalued.compare.known import known_optimum
    from revalued.run.provenance import machine, source_commit, versions

    return {
        "task": given.problem,
        "bins": given.bins,
        "budget_minutes": given.budget_minutes,
        "env_steps": given.env_steps,
        "clock": given.clock,
        "episodes": given.episodes,
        "threads": given.threads,
        "workers": given.workers,
        "optimum": known_optimum(task, given.problem, given.episodes),
        "tuned": {},
        "settings": {name: {label: dict(own) for label, own in CONTESTANTS[name].settings.items()} for name in names},
        "versions": {**versions(), **{f"peers: {module}": version for module, version in peers.items()}},
        "machine": machine(),
        "commit": source_commit(),
    }


def _refuse_mixture(known: ComparisonProvenance, wanted: ComparisonProvenance, folder: ComparisonFolder) -> None:
    from revalued.compare.result_table import FIXED

    for name in FIXED:
        before, now = (cast(dict[str, object], found)[name] for found in (known, wanted))
        if before != now:
            raise UserError(
                f"{folder.path} holds runs with {name} = {before}, not {now}: choose another folder (--out)"
            )
    for name, settings in known["settings"].items():
        if name in wanted["settings"] and settings != wanted["settings"][name]:
            raise UserError(f"{folder.path} holds runs with other settings of {name}: choose another folder (--out)")


def _print_plan(names: Sequence[str], given: CompareArguments, budget: Budget) -> None:
    runs = default_runs(names, given.seeds)
    tuning = tuning_runs(names) if given.tune else []
    for key in (*runs, *tuning):
        print(f"{key.contestant}, {key.setting}, seed {key.seed}, {key.share:g} of the budget")
    if budget.minutes is not None:
        learning = [key for key in (*runs, *tuning) if key.contestant != "random"]
        print(f"{sum(key.share for key in learning) * budget.minutes:.0f} minutes, test episodes not counted")
