"""`revalued reproduce`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from revalued.cli.experiment_runs import FanOut, check_tasks, train_all
from revalued.cli.parsing import parse
from revalued.errors import UserError
from revalued.experiments.catalogue import METAWORLD, find_experiment
from revalued.experiments.ledger import Ledger
from revalued.experiments.overview import make_overview
from revalued.experiments.plan import ComputedExperiment, plan
from revalued.experiments.result_files import RESULTS
from revalued.experiments.runner import compute_experiment
from revalued.experiments.scales import Scale, find_scale
from revalued.run.signals import raise_again


@dataclass(frozen=True)
class ReproduceArguments:
    """Reproduce a table or figure of the paper. Called again, it goes on where it was stopped."""

    name: str
    """Name of the experiment, see `revalued list experiments`."""
    scale: str = "laptop"
    """`smoke` (a minute or two), `laptop` (two cores, overnight) or `paper` (its whole protocol)."""
    seeds: int | None = None
    """Number of seeds; by default the scale's: 1, 3 or 10."""
    tasks: tuple[str, ...] = ()
    """Tasks instead of the scale's own, such as walker-walk, or cheetah-run@30 for 30 bins only."""
    out: Path = Path("results")
    """Folder for results and runs."""
    runs: FanOut = field(default_factory=FanOut)


def reproduce(arguments: list[str]) -> int:
    """Carry out `revalued reproduce`."""
    given = parse(ReproduceArguments, "reproduce", arguments)
    experiment, scale = find_experiment(given.name), find_scale(given.scale)
    if isinstance(experiment, ComputedExperiment):
        return _compute(experiment, scale, given)
    tasks = [name for text in given.tasks for name in text.split(",") if name]
    planned = plan(experiment, scale, given.seeds, tasks)
    # The catalogue's own tasks are known to exist, but MetaWorld may not be installed.
    check_tasks(planned, tasks or [task for task in METAWORLD[:1] if task in experiment.tasks[scale.name]])
    return train_all(Ledger(experiment, scale, planned, given.out), given.runs, ["reproduce", *arguments])


def _compute(experiment: ComputedExperiment, scale: Scale, given: ReproduceArguments) -> int:
    if given.tasks or given.seeds is not None:
        raise UserError(f"{experiment.name} is computed, not trained: it has neither --tasks nor --seeds")
    if given.runs.dry_run:
        print(f"{experiment.name}: {experiment.title}\n{experiment.source}.\n{experiment.compares}")
        print(f"computed without training, within minutes; results: {given.out / experiment.name}")
        return 0
    raise_again()
    view = make_overview(quiet=given.runs.quiet)
    try:
        compute_experiment(experiment, scale, given.out, view)
    finally:
        view.close()
    if not given.runs.quiet:
        print(f"results in {given.out / experiment.name / RESULTS}")
    return 0
