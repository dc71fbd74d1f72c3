"""All experiments as one piece of work: runs that they share are trained once, in an order that serves all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from revalued.experiments.ledger import Ledger
from revalued.experiments.plan import PlannedRun
from revalued.experiments.run_folders import run_hash


def share_runs(ledgers: Sequence[Ledger]) -> None:
    """Give runs that are equal one folder, also where experiments know them under different presets' names."""
    known: dict[tuple[Path, str], Path] = {}
    for ledger in ledgers:
        for number, (path, run) in enumerate(zip(ledger.paths, ledger.planned, strict=True)):
            ledger.paths[number] = known.setdefault((path.parent, run_hash(run.config)), path)


def recorded_in_all(ledgers: Sequence[Ledger]) -> dict[Path, Mapping[str, Any]]:
    """Return the runs that need not be made: every experiment that wants one has it in its table."""
    found = [ledger.recorded() for ledger in ledgers]
    missing = {path for ledger, own in zip(ledgers, found, strict=True) for path in ledger.paths if path not in own}
    return {path: facts for own in found for path, facts in own.items() if path not in missing}


def work_order(ledgers: Sequence[Ledger]) -> tuple[list[PlannedRun], list[Path]]:
    """Return every run once, with its folder.

    First seeds come before second ones. Within a seed, experiments take turns, one task each with all its variants, so
    that none waits until a large one is done; a task with more seeds than the others comes first in its experiment.
    More seeds where the first has shown that nobody learns anything come last of all.
    """
    turns: list[tuple[tuple[bool, int, int, int], PlannedRun, Path]] = []
    for place, ledger in enumerate(ledgers):
        unlearnt = ledger.unlearnt()
        seeds: dict[str, int] = {}
        for run in ledger.planned:
            seeds[run.task] = max(seeds.get(run.task, 0), run.seed + 1)
        rank = {task: number for number, task in enumerate(sorted(seeds, key=lambda task: -seeds[task]))}
        turns += [
            ((run.seed > 0 and run.task in unlearnt, run.seed, rank[run.task], place), run, path)
            for run, path in zip(ledger.planned, ledger.paths, strict=True)
        ]
    found: dict[Path, PlannedRun] = {}
    for _, run, path in sorted(turns, key=lambda turn: turn[0]):
        found.setdefault(path, run)
    return list(found.values()), list(found)
