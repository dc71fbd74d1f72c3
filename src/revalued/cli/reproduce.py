"""`revalued reproduce`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from revalued.cli.parsing import parse
from revalued.cli.where import Where
from revalued.errors import UserError
from revalued.experiments.catalogue import METAWORLD, find_experiment
from revalued.experiments.plan import ComputedExperiment, Experiment, plan
from revalued.experiments.result_files import RESULTS
from revalued.experiments.scales import Scale, find_scale
from revalued.interrupts import raise_again


@dataclass(frozen=True)
class ReproduceArguments:
    """Reproduce a table or figure of the paper. Called again, it goes on where it was stopped."""

    name: str
    """Name of the experiment, see `revalued list experiments`."""
    scale: str = "laptop"
    """`smoke` (a minute or two), `laptop` (two cores, overnight) or `paper` (its whole protocol)."""
    seeds: int | None = None
    """Number of seeds; by default the scale's: 1, 3 or 10."""
    jobs: int | None = None
    """Runs side by side, one thread each; by default 2, on a cluster as many as fit. Results do not depend on it."""
    tasks: tuple[str, ...] = ()
    """Tasks instead of the scale's own, such as walker-walk, or cheetah-run@30 for 30 bins only."""
    out: Path = Path("results")
    """Folder for results and runs."""
    dry_run: bool = False
    """Only show what would be done, and how long it takes where that has been measured."""
    quiet: bool = False
    """Print nothing but failures."""
    where: Where = field(default_factory=Where)


def reproduce(arguments: list[str]) -> int:
    """Carry out `revalued reproduce`."""
    given = parse(ReproduceArguments, "reproduce", arguments)
    experiment, scale = find_experiment(given.name), find_scale(given.scale)
    if isinstance(experiment, ComputedExperiment):
        return _compute(experiment, scale, given)
    return _train(experiment, scale, given, arguments)


def _train(experiment: Experiment, scale: Scale, given: ReproduceArguments, arguments: list[str]) -> int:
    tasks = [name for text in given.tasks for name in text.split(",") if name]
    planned = plan(experiment, scale, given.seeds, tasks)
    from revalued.cli.experiment_runs import check_tasks, settle_jobs, show_plan, train_all

    jobs = settle_jobs(given.jobs, planned, experiment, on_cluster=given.where.cluster is not None)
    if given.jobs not in (None, jobs):
        print(
            f"{experiment.name} is timed: one run at a time with all cores, --jobs {given.jobs} is not used",
            file=sys.stderr,
        )
    # The catalogue's own tasks are known to exist, but MetaWorld may not be installed.
    check_tasks(planned, tasks or [task for task in METAWORLD[:1] if task in experiment.tasks[scale.name]])
    if given.dry_run:
        return show_plan(experiment, scale, planned, given.out, jobs)
    command = ["reproduce", *arguments]
    return train_all(experiment, scale, planned, given.out, jobs, quiet=given.quiet, command=command, where=given.where)


def _compute(experiment: ComputedExperiment, scale: Scale, given: ReproduceArguments) -> int:
    if given.tasks or given.seeds is not None:
        raise UserError(f"{experiment.name} is computed, not trained: it has neither --tasks nor --seeds")
    if given.dry_run:
        print(f"{experiment.name}: {experiment.title}\n{experiment.source}.\n{experiment.compares}")
        print(f"computed without training, within minutes; results: {given.out / experiment.name}")
        return 0
    from revalued.experiments.overview import make_overview
    from revalued.experiments.runner import compute_experiment

    raise_again()
    view = make_overview(quiet=given.quiet)
    try:
        outcome = compute_experiment(experiment, scale, given.out, view)
    finally:
        view.close()
    if not given.quiet:
        print(f"results in {outcome.folder / RESULTS}")
    return 0
