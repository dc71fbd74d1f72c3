"""The files of one experiment, rewritten whenever a run finishes, so that an interruption loses nothing."""

from __future__ import annotations

import fcntl
import os
import statistics
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from revalued.errors import UserError
from revalued.experiments.catalogue import dimensions_of
from revalued.experiments.plan import Experiment, PlannedRun, Variant, scale_note
from revalued.experiments.recorded import (
    FINAL_EVALUATIONS,
    NOTHING_LEARNT,
    RecordedRun,
    finished_entries,
    identity,
    recorded_runs,
)
from revalued.experiments.result_files import (
    CVAR,
    CVAR_COLUMNS,
    KEY_COLUMNS,
    PROVENANCE,
    RESULT_COLUMNS,
    RESULTS,
    Key,
    Row,
    key_of,
    merged,
    origin_commit,
    read_provenance,
    read_table,
    refuse_other_scale,
    sorted_rows,
    write_provenance,
    write_table,
)
from revalued.experiments.run_folders import (
    check_same_run,
    cvar_rows,
    env_steps_so_far,
    finished_summary,
    result_rows,
    run_path,
)
from revalued.experiments.scales import Scale
from revalued.run.folder import RunFolder

_CRITICS = {
    "critics": "algorithm",
    "hidden_size": "learner",
    "learning_rate": "learner",
    "normalise_observations": "learner",
}
"""Settings that a scale may decide, with the part of the configuration where they are."""


class Ledger:
    """Collects an experiment's finished runs into results.csv (and cvar.csv) and provenance.json.

    Runs of earlier calls, with other tasks or more seeds, stay in. So do rows whose run folder is gone, or was on
    another machine; what other experiments have recorded of the same runs is taken over. What cannot be mixed is
    refused, and so are folders that hold another run than planned.
    """

    def __init__(self, experiment: Experiment, scale: Scale, planned: Sequence[PlannedRun], out: Path) -> None:
        self.experiment, self.scale, self.planned, self.out = experiment, scale, planned, out
        self.folder = out / experiment.name
        self.paths = [run_path(out, run.config) for run in planned]
        if scale.name != "sweep":
            refuse_other_scale(out, scale.name)
        self._tables: dict[str, tuple[Sequence[str], Callable[[Path], list[Row]]]]
        self._tables = {RESULTS: (RESULT_COLUMNS, result_rows)}
        if experiment.measures_stability:
            self._tables[CVAR] = (CVAR_COLUMNS, cvar_rows)
        self._rows: dict[str, dict[Key, list[Row]]] = {name: {} for name in self._tables}
        self._summaries: dict[Key, Mapping[str, Any]] = {}
        self._adopted: dict[Key, RecordedRun] = {}
        self._read()
        taking_part = {run.variant for run in planned}
        compared = [variant for variant in experiment.variants_at(scale.name) if variant.id in taking_part]
        self._variants = {variant.id: self._described(variant) for variant in compared}
        self._refuse_other_variants()
        for path, run in zip(self.paths, planned, strict=True):
            check_same_run(path, run.config)
        if not experiment.measures_stability:  # which needs more of a run than others record
            self._adopt()

    def recorded(self) -> dict[Path, Mapping[str, Any]]:
        """Return the planned runs that need not be made, because the tables hold them, and what is known about each."""
        entries = self._entries_before()
        return {
            path: {"machine": self._machine_of(entries[run.key]), "wall_seconds": entries[run.key].get("wall_s")}
            for path, run in zip(self.paths, self.planned, strict=True)
            if self._has_rows(entries.get(run.key), run.config.schedule.env_steps)
            and identity(PurePosixPath(entries[run.key].get("folder", ""))) == identity(path)
        }

    def _machine_of(self, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return where a recorded run was made; where it was not noted, all are taken to be of one kind of machine."""
        processor = entry.get("processor")
        return (self._before.get("machine") or {}) | ({} if processor is None else {"processor": processor})

    def unlearnt(self) -> set[str]:
        """Return the control suite's tasks on which no recorded run has learnt anything: more seeds decide little."""
        best: dict[str, float] = {}
        for (_, task, _), rows in self._rows[RESULTS].items():
            if dimensions_of(task) is not None:
                final = statistics.mean(float(row["return"]) for row in rows[-FINAL_EVALUATIONS:])
                best[task] = max(final, best.get(task, final))
        return {task for task, final in best.items() if final < NOTHING_LEARNT}

    def write(self, failed: Collection[Path] = ()) -> None:
        """Write all files anew from what is on disk now; other processes may be at work on the same experiment."""
        with _alone_in(self.folder):
            self._read()
            self._write(failed)

    def _read(self) -> None:
        """Take over what earlier calls, and other processes, have written."""
        self._before = read_provenance(self.folder) or {}
        for name, (columns, _) in self._tables.items():
            found: dict[Key, list[Row]] = {}
            for row in read_table(self.folder / name, columns):
                found.setdefault(key_of(row), []).append(row)
            own = {
                key: rows for key, rows in self._rows[name].items() if key in self._summaries or key in self._adopted
            }
            self._rows[name] = found | own

    def _adopt(self) -> None:
        """Take over the rows of runs that another experiment has recorded and this one has not."""
        here = self._entries_before()
        missing = {
            run: identity(path)
            for path, run in zip(self.paths, self.planned, strict=True)
            if not self._has_rows(here.get(run.key), run.config.schedule.env_steps)
        }
        elsewhere = recorded_runs(self.out, self.scale.name, set(missing.values()))
        for run, wanted in missing.items():
            if found := elsewhere.get(wanted):
                names = self._names(run.key)
                self._adopted[run.key] = found._replace(facts={**found.facts, **names})
                identified = {"experiment": self.experiment.name, **names}
                self._rows[RESULTS][run.key] = [{**row, **identified} for row in found.rows]

    def _entries_before(self) -> dict[Key, Mapping[str, Any]]:
        """Return what has been written down about finished runs, by this experiment or by others."""
        before = {key_of(entry): entry for entry in finished_entries(self._before)}
        return {key: run.facts for key, run in self._adopted.items()} | before

    def _names(self, key: Key) -> dict[str, Any]:
        return dict(zip(KEY_COLUMNS, key, strict=True))

    def _write(self, failed: Collection[Path]) -> None:
        entries = self._entries(failed)
        finished = [key for key, entry in entries.items() if entry["status"] == "finished"]
        for name, (columns, _) in self._tables.items():
            rows = (row for key in finished for row in self._rows[name].get(key, []))
            write_table(self.folder / name, columns, sorted_rows(rows))
        known = list(self._summaries.values())
        if len(known) < len(finished):
            known += [self._before, *(run.origin for run in self._adopted.values())]
        facts = (
            {name: merged(entry.get(name, {}) for entry in known) for name in ("versions", "machine")} if known else {}
        )
        seeds = sorted({seed for _, _, seed in entries})
        variants = {variant for variant, _, _ in entries}
        tasks = list(dict.fromkeys([*(run.task for run in self.planned), *(task for _, task, _ in entries)]))
        env_steps = [run.config.schedule.env_steps for run in self.planned]
        write_provenance(
            self.folder,
            title=self.experiment.title,
            scale=self.scale.name,
            scale_note=scale_note(self.experiment, self.scale, self.planned, seeds, tasks, variants),
            seeds=seeds,
            tasks=tasks,
            variants={**self._before.get("variants", {}), **self._variants},
            runs=[entries[key] for key in sorted(entries)],
            planned_env_steps=max([*env_steps, self._before.get("planned_env_steps", 0)]),
            **facts,
        )

    def _entries(self, failed: Collection[Path]) -> dict[Key, Mapping[str, Any]]:
        """Return what is known about each run: those planned, and those that earlier calls finished."""
        before = self._entries_before()
        planned = {
            run.key: (path, run.config.schedule.env_steps) for path, run in zip(self.paths, self.planned, strict=True)
        }
        others = {key: (self._folder_in(entry), 0) for key, entry in before.items() if key not in planned}
        entries: dict[Key, Mapping[str, Any]] = {}
        for key, (path, env_steps) in {**others, **planned}.items():
            entry = self._entry(key, path, env_steps, failed)
            is_kept = entry["status"] != "finished" and self._has_rows(before.get(key), env_steps)
            entries[key] = before[key] if is_kept else entry
        return entries

    def _has_rows(self, before: Mapping[str, Any] | None, env_steps: int) -> bool:
        """Tell whether the table holds a finished run, as long as the one that is planned."""
        return before is not None and key_of(before) in self._rows[RESULTS] and before.get("env_steps", 0) >= env_steps

    def _folder_in(self, entry: Mapping[str, Any]) -> Path:
        """Return where an earlier call had a run; a path that leads out of our folder is not ours."""
        place = Path(str(entry.get("folder", "")))
        if place.is_absolute() or ".." in place.parts:
            reason = f"the run {str(place)[:200]!r} is somewhere else"
            raise UserError(f"{self.folder / PROVENANCE} cannot be used: {reason}")
        return self.out / place

    def _entry(self, key: Key, path: Path, env_steps: int, failed: Collection[Path]) -> dict[str, Any]:
        summary = finished_summary(path, env_steps)
        if summary is None:
            steps = env_steps_so_far(path)
            status = "failed" if path in failed else "unfinished" if steps else "missing"
        else:
            steps, status = summary["env_steps"], "finished"
            self._note_finished(key, path, summary)
        return {
            **self._names(key),
            "status": status,
            "env_steps": steps,
            "wall_s": None if summary is None else summary["wall_seconds"],
            "commit": origin_commit(path),
            "processor": None if summary is None else summary.get("machine", {}).get("processor"),
            "threads": RunFolder(path).config().execution.threads if (path / "config.json").is_file() else None,
            "folder": path.relative_to(self.out).as_posix(),
        }

    def _note_finished(self, key: Key, path: Path, summary: Mapping[str, Any]) -> None:
        """Read a finished run's tables, once: they will not change any more."""
        if key not in self._summaries:
            self._summaries[key] = summary
            identity = {"experiment": self.experiment.name, **self._names(key)}
            for name, (_, read) in self._tables.items():
                self._rows[name][key] = [{**identity, **row} for row in read(path)]

    def _described(self, variant: Variant) -> dict[str, Any]:
        """Return what a variant is: what it was given, and what its critics are like, whoever decided it."""
        configs = [run.config for run in self.planned if run.variant == variant.id]
        effective = {}
        for name, part in _CRITICS.items():
            values = {getattr(getattr(config, part), name) for config in configs}
            if len(values) == 1:
                effective[name] = values.pop()
        return {"label": variant.label, "overrides": {**variant.overrides, **effective}}

    def _refuse_other_variants(self) -> None:
        for name, variant in self._variants.items():
            given = self._before.get("variants", {}).get(name, {}).get("overrides")
            if given is None:
                continue
            unknown = {field for field in _CRITICS if field not in given}  # an older version did not write it down
            now = {field: value for field, value in variant["overrides"].items() if field not in unknown}
            if given != now:
                raise UserError(
                    f"{self.folder} holds results of {name} with {_listed(given)}, which cannot be mixed with "
                    f"{_listed(variant['overrides'])}: choose another --out"
                )


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process writes to an experiment's folder; the lock ends with its owner, even by kill -9."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _listed(overrides: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in overrides.items())
