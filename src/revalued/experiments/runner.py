"""Carries out experiments: finished runs are never repeated, interrupted ones go on, a failure stops nothing else."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from revalued.errors import UserError
from revalued.experiments.executor import Executor, Stop
from revalued.experiments.ledger import Ledger
from revalued.experiments.overview import Overview, WorkStatus
from revalued.experiments.plan import ComputedExperiment
from revalued.experiments.pruning import needs_pruning, prune
from revalued.experiments.result_files import RESULTS, read_provenance, write_origin, write_provenance, write_table
from revalued.experiments.run_folders import finished_summary
from revalued.experiments.scales import Scale
from revalued.experiments.workload import Workload
from revalued.run.folder import RunFolder


def carry_out(
    ledgers: Sequence[Ledger],
    work: Workload,
    executor: Executor,
    view: Overview,
    stop: Callable[[], Stop] = lambda: Stop.NO,
    *,
    keep_checkpoints: bool = True,
) -> dict[Path, str]:
    """Train what is not trained yet, with the experiments' files up to date all the while; return why runs failed.

    Unless asked to keep their checkpoints, finished runs are left with their policy alone.
    """
    failures: dict[Path, str] = {}

    def finish(path: Path) -> None:
        if not keep_checkpoints:
            _prune(path, view)

    for ledger in ledgers:
        ledger.write()
    for path in sorted(work.finished):
        finish(path)
    view.update(work.status())
    for event in executor.execute(_folders(work, finish), stop):
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
            for ledger in ledgers:
                if path in ledger.paths:
                    ledger.write(failures)
            if summary is not None:
                finish(path)
        view.update(work.status())
    for ledger in ledgers:
        ledger.write(failures)
    return failures


def _folders(work: Workload, finish: Callable[[Path], None]) -> Iterator[Path]:
    """Make each folder when its turn has come.

    What another process has finished meanwhile is passed over. What another process is training comes last: by then
    it is finished, or left by a process that was ended.
    """
    elsewhere: list[Path] = []
    for path in work.to_do:
        if _has_just_ended(work, path, finish):
            continue
        if not (path / "config.json").is_file():
            RunFolder.create(path, work.runs[path].config)
            write_origin(path)
        elif RunFolder(path).is_in_use():
            elsewhere.append(path)
            continue
        yield path
    for path in elsewhere:
        if not _has_just_ended(work, path, finish) and not RunFolder(path).is_in_use():
            yield path


def _has_just_ended(work: Workload, path: Path, finish: Callable[[Path], None]) -> bool:
    summary = finished_summary(path, work.runs[path].config.schedule.env_steps)
    if summary is not None:
        work.note_finished(path, summary)
        finish(path)
    return summary is not None


def _prune(path: Path, view: Overview) -> None:
    try:
        if needs_pruning(path):
            prune(path)
    except (UserError, OSError) as error:  # nothing is lost but room
        view.say(f"the checkpoints of {path} are kept: {error}")


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
