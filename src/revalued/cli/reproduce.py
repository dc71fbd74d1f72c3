"""`revalued reproduce`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from revalued.cli.experiment_runs import FanOut, check_tasks, train_all
from revalued.cli.parsing import parse
from revalued.errors import UserError
from revalued.experiments.catalogue import EXPERIMENTS, METAWORLD, find_experiment
from revalued.experiments.ledger import Ledger
from revalued.experiments.overview import make_overview
from revalued.experiments.plan import ComputedExperiment, Experiment, plan
from revalued.experiments.result_files import RESULTS
from revalued.experiments.runner import compute_experiment
from revalued.experiments.scales import Scale, find_scale
from revalued.experiments.whole_plan import share_runs
from revalued.run.signals import raise_again

ALL = "all"


@dataclass(frozen=True)
class ReproduceArguments:
    """Reproduce a table or figure of the paper, or all of them. Called again, it goes on where it was stopped."""

    name: str
    """Name of the experiment, see `revalued list experiments`; or `all`."""
    scale: str = "laptop"
    """`smoke` (a minute or two), `laptop` (two cores, overnight) or `paper` (its whole protocol)."""
    seeds: int | None = None
    """Number of seeds; by default the scale's: 1, 2 (more on some tasks of `main` and in `confirmation`) or 10."""
    tasks: tuple[str, ...] = ()
    """Tasks instead of the scale's own, such as walker-walk, or cheetah-run@30 for 30 bins only."""
    variants: tuple[str, ...] = ()
    """Only some of what the experiment compares, such as revalued decqn; the others can follow later."""
    out: Path = Path("results")
    """Folder for results and runs."""
    keep_checkpoints: bool = False
    """Keep whole checkpoints of finished runs, not only their policy: they can then go on learning."""
    runs: FanOut = field(default_factory=FanOut)


def reproduce(arguments: list[str]) -> int:
    """Carry out `revalued reproduce`."""
    given = parse(ReproduceArguments, "reproduce", arguments)
    scale = find_scale(given.scale)
    if given.name == ALL and (given.tasks or given.variants):
        flag, what = ("--tasks", "tasks") if given.tasks else ("--variants", "variants")
        raise UserError(f"all experiments have {what} of their own: {flag} goes with the name of one of them")
    chosen = list(EXPERIMENTS.values()) if given.name == ALL else [find_experiment(given.name)]
    trained = [experiment for experiment in chosen if isinstance(experiment, Experiment)]
    ledgers = [_ledger(experiment, scale, given) for experiment in trained]
    share_runs(ledgers)
    computed = [experiment for experiment in chosen if isinstance(experiment, ComputedExperiment)]
    for experiment in computed:
        _compute(experiment, scale, given)
    if not ledgers:
        return 0
    return train_all(ledgers, given.runs, ["reproduce", *arguments], keep_checkpoints=given.keep_checkpoints)


def _ledger(experiment: Experiment, scale: Scale, given: ReproduceArguments) -> Ledger:
    tasks, variants = _names(given.tasks), _names(given.variants)
    planned = plan(experiment, scale, given.seeds, tasks, variants)
    # The catalogue's own tasks are known to exist, but MetaWorld may not be installed.
    check_tasks(planned, tasks or [task for task in METAWORLD[:1] if task in experiment.tasks[scale.name]])
    return Ledger(experiment, scale, planned, given.out)


def _names(given: tuple[str, ...]) -> list[str]:
    return [name for text in given for name in text.split(",") if name]


def _compute(experiment: ComputedExperiment, scale: Scale, given: ReproduceArguments) -> None:
    if given.tasks or given.variants or (given.seeds is not None and given.name != ALL):
        raise UserError(f"{experiment.name} is computed, not trained: it has no --tasks, --variants or --seeds")
    if given.runs.dry_run:
        print(f"{experiment.name}: {experiment.title}\n{experiment.source}.\n{experiment.compares}")
        print(f"computed without training, within minutes; results: {given.out / experiment.name}\n")
        return
    raise_again()
    view = make_overview(quiet=given.runs.quiet)
    try:
        compute_experiment(experiment, scale, given.out, view)
    finally:
        view.close()
    if not given.runs.quiet:
        print(f"results in {given.out / experiment.name / RESULTS}")
