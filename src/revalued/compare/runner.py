"""A comparison from its plan to its files: every run that is not on disk yet, then what became of tuning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from revalued.compare.contestants import CONTESTANTS
from revalued.compare.execution import execute
from revalued.compare.known import known_optimum
from revalued.compare.meter import RunOrder
from revalued.compare.plan import Budget, default_runs, tuned_runs, tuned_settings, tuning_runs
from revalued.compare.result_table import FIXED, PROVENANCE, ComparisonFolder, ComparisonProvenance, RunKey
from revalued.envs import Task
from revalued.errors import UserError
from revalued.run.files import write_json
from revalued.run.provenance import machine, source_commit, versions

_TEST_SEED = 0


@dataclass(frozen=True)
class Terms:
    """What holds for everybody."""

    task: str
    bins: int
    budget: Budget
    episodes: int
    threads: int
    workers: int


class ComparisonView(Protocol):
    """Shows a person how far a comparison has come."""

    def begin(self, total: int, completed: int) -> None:
        """So many runs follow, some of which are on disk already."""

    def started(self, key: RunKey) -> None:
        """A run has begun."""

    def ended(self) -> None:
        """A run has ended, in whatever way."""


@dataclass(frozen=True)
class ComparisonRunner:
    """Carries out the runs of one problem."""

    terms: Terms
    folder: ComparisonFolder
    peers: Path
    jobs: int
    view: ComparisonView
    stop: Callable[[], bool]

    def run(self, names: Sequence[str], seeds: int, provenance: ComparisonProvenance, *, tune: bool) -> list[str]:
        """Make every run that is missing; return what failed."""
        known = self.folder.provenance()
        if known is not None:
            refuse_mixture(known, provenance, self.folder.path)
            provenance["tuned"] = known["tuned"]
            # of those who are not here this time, too
            provenance["settings"] = {**known["settings"], **provenance["settings"]}
            provenance["versions"] = {**known["versions"], **provenance["versions"]}
        write_json(self.folder.path / PROVENANCE, provenance)
        failures = self._carry_out(default_runs(names, seeds))
        if tune:
            failures += self._carry_out(tuning_runs(names))
            tuned = tuned_settings(names, self.folder.finished(), self.terms.budget)
            provenance["tuned"] = {**provenance["tuned"], **tuned}
            write_json(self.folder.path / PROVENANCE, provenance)
            failures += self._carry_out(tuned_runs(tuned, seeds))
        return failures

    def _carry_out(self, runs: Sequence[RunKey]) -> list[str]:
        finished = self.folder.finished()
        missing = [key for key in runs if key not in finished]
        self.view.begin(len(runs), len(runs) - len(missing))
        failures: list[str] = []
        for ended in execute(
            missing, self._order, peers=self.peers, jobs=self.jobs, started=self.view.started, stop=self.stop
        ):
            if ended.failure is None:
                self.folder.add(ended.key, ended.rows)
            else:
                failures.append(f"{ended.key.contestant}, {ended.key.setting}, seed {ended.key.seed} {ended.failure}")
            self.view.ended()
        return failures

    def _order(self, key: RunKey, out: str) -> RunOrder:
        terms, contestant = self.terms, CONTESTANTS[key.contestant]
        return RunOrder(
            task=terms.task,
            bins=terms.bins,
            contestant=key.contestant,
            settings=dict(contestant.settings[key.setting]),
            seed=key.seed,
            budget_seconds=terms.budget.seconds(key.share),
            env_steps=terms.budget.interactions(key.share),
            clock=terms.budget.clock,
            episodes=terms.episodes,
            test_seed=_TEST_SEED,
            threads=terms.threads,
            workers=terms.workers,
            continuous=contestant.is_continuous,
            out=out,
        )


def make_provenance(names: Sequence[str], terms: Terms, task: Task, peers: dict[str, str]) -> ComparisonProvenance:
    """Return how a comparison is made; `peers` are the versions of what the other libraries use."""
    return {
        "task": terms.task,
        "bins": terms.bins,
        "budget_minutes": terms.budget.minutes,
        "env_steps": terms.budget.env_steps,
        "clock": terms.budget.clock,
        "episodes": terms.episodes,
        "threads": terms.threads,
        "workers": terms.workers,
        "optimum": known_optimum(task, terms.task, terms.episodes),
        "tuned": {},
        "settings": {name: {label: dict(own) for label, own in CONTESTANTS[name].settings.items()} for name in names},
        "versions": {**versions(), **{f"peers: {module}": version for module, version in peers.items()}},
        "machine": machine(),
        "commit": source_commit(),
    }


def refuse_mixture(known: ComparisonProvenance, wanted: ComparisonProvenance, path: Path) -> None:
    """Refuse to put runs on other terms, or with other settings, beside those that are on disk."""
    for name in FIXED:
        before, now = (cast(dict[str, object], found)[name] for found in (known, wanted))
        if before != now:
            raise UserError(f"{path} holds runs with {name} = {before}, not {now}: choose another folder (--out)")
    processors = [found["machine"].get("processor") for found in (known, wanted)]
    if known["budget_minutes"] is not None and processors[0] != processors[1]:
        raise UserError(
            f"{path} holds runs whose minutes are those of another processor ({processors[0]}, here {processors[1]}): "
            "choose another folder (--out)"
        )
    for name, settings in known["settings"].items():
        if name in wanted["settings"] and settings != wanted["settings"][name]:
            raise UserError(f"{path} holds runs with other settings of {name}: choose another folder (--out)")
