"""Carries out experiments: finished runs are never repeated, interrupted ones go on, a failure stops nothing else."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from revalued.errors import UserError
from revalued.experiments.executor import Executor, Stop
from revalued.experiments.ledger import Ledger
from revalued.experiments.overview import Overview, WorkStatus
from revalued.experiments.plan import ComputedExperiment
from revalued.experiments.result_files import RESULTS, read_provenance, write_origin, write_provenance, write_table
from revalued.experiments.run_folders import finished_summary
from revalued.experiments.scales import Scale
from revalued.experiments.workload import Workload
from revalued.run.folder import RunFolder


def carry_out(
    ledger: Ledger, work: Workload, executor: Executor, view: Overview, stop: Callable[[], Stop] = lambda: Stop.NO
) -> dict[Path, str]:
    """Train what is not trained yet, with the experiment's files up to date all the while; return why runs failed."""
    ledger.write()
    failures: dict[Path, str] = {}
    view.update(work.status())
    for event in executor.execute(_folders(work), stop):
        path, run = event.path, work.runs[event.path]
        if event.kind == "started":
            work.begun(path)
        elif event.kind == "progress":
            work.reached(path, event.env_steps)
        elif event.kind == "interrupted":
            work.ended(path)
        else:
            summary = finished_summary(path, run.config.schedule.env_steps)
            work.ended(path, summary)
            if summary is None:
                failures[path] = event.message or "ended before it had all its interactions"
                view.say(f"failed: {run.title}: {failures[path]}")
            else:
                view.say(f"finished: {run.title}, return {summary['final_return']:.1f}")
            ledger.write(failures)
        view.update(work.status())
    ledger.write(failures)
    return failures


def _folders(work: Workload) -> Iterator[Path]:
    """Make each folder when its turn has come; what another process has finished meanwhile is passed over."""
    for path in work.to_do:
        run = work.runs[path]
        summary = finished_summary(path, run.config.schedule.env_steps)
        if summary is not None:
            work.note_finished(path, summary)
            continue
        if not (path / "config.json").is_file():
            RunFolder.create(path, run.config)
            write_origin(path)
        yield path


def compute_experiment(experiment: ComputedExperiment, scale: Scale, out: Path, view: Overview) -> None:
    """Compute an experiment that needs no training; results that are there already, at this scale, are left alone."""
    folder = out / experiment.name
    before = read_provenance(folder)
    if before is not None and (other := before.get("scale")) != scale.name:
        raise UserError(f"{folder} holds results at {other} scale, not {scale.name}: choose another --out")
    if before is not None and (folder / RESULTS).is_file():
        view.say(f"{folder / RESULTS} is there already, at {scale.name} scale: remove it to compute it anew")
        return
    folder.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()  # where nothing can be written, nothing need be computed
    module, function = experiment.function.split(":")

    def report(fraction: float) -> None:
        view.update(WorkStatus(0, 1, fraction, running=((experiment.name, fraction),)))

    rows = getattr(importlib.import_module(module), function)(scale.name, report)
    write_table(folder / RESULTS, list(rows[0]), rows)
    write_provenance(folder, title=experiment.title, scale=scale.name, scale_note=_COMPUTED_NOTES[scale.name])


_COMPUTED_NOTES = {
    "paper": "Paper scale: as many samples as the paper used, or more where it does not say.",
    "laptop": "Laptop scale: the same computation as at paper scale.",
    "smoke": "Smoke scale: so few samples that it only shows that the computation runs.",
}
