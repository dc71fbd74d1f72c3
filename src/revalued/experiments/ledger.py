"""The files of one experiment, rewritten whenever a run finishes, so that an interruption loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from revalued.errors import UserError
from revalued.experiments.plan import Experiment, PlannedRun, Variant, scale_note, variants_at
from revalued.experiments.result_files import (
    CVAR,
    CVAR_COLUMNS,
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
from revalued.experiments.run_folders import cvar_rows, env_steps_so_far, finished_summary, result_rows, run_path
from revalued.experiments.scales import Scale
from revalued.run.folder import RunFolder
from revalued.run.provenance import machine, source_commit, versions


class Ledger:
    """Collects an experiment's finished runs into results.csv (and cvar.csv) and provenance.json.

    Runs of earlier calls, with other tasks or more seeds, stay in. So do rows whose run folder is gone, until that run
    is finished anew.
    """

    def __init__(self, experiment: Experiment, scale: Scale, planned: Sequence[PlannedRun], out: Path) -> None:
        self.experiment, self.scale, self.planned, self.out = experiment, scale, planned, out
        self.folder = out / experiment.name
        self.variants = {variant.id: self._described(variant) for variant in variants_at(experiment, scale)}
        if scale.name != "sweep":
            refuse_other_scale(out, scale.name)
        self._before = read_provenance(self.folder) or {}
        self._refuse_other_variants()
        self._tables: dict[str, tuple[tuple[str, ...], Callable[[str, Key, Path], list[Row]]]] = {
            RESULTS: (RESULT_COLUMNS, result_rows)
        }
        if experiment.measures_stability:
            self._tables[CVAR] = (CVAR_COLUMNS, cvar_rows)
        self._old_rows = {
            name: _by_run(read_table(self.folder / name, columns)) for name, (columns, _) in self._tables.items()
        }
        self._new_rows: dict[str, dict[Key, list[Row]]] = {name: {} for name in self._tables}

    def path_of(self, run: PlannedRun) -> Path:
        """Return the folder of a planned run."""
        return run_path(self.out, run.config)

    def write(self, failed: Collection[Path] = ()) -> None:
        """Write all files anew from what is on disk now."""
        summaries: list[Mapping[str, Any]] = []
        entries: dict[Key, dict[str, Any]] = {}
        for entry in self._entries(failed, summaries):
            entries[key_of(entry)] = entry
        finished = {key for key, entry in entries.items() if entry["status"] == "finished"}
        for name, (columns, _) in self._tables.items():
            rows = {**self._old_rows[name], **self._new_rows[name]}
            write_table(self.folder / name, columns, sorted_rows(row for key in finished for row in rows.get(key, [])))
        write_provenance(self.folder, self._provenance(entries, summaries))

    def _entries(self, failed: Collection[Path], summaries: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
        before = {key_of(entry): entry for entry in self._before.get("runs", [])}
        places = {run.key: self.path_of(run) for run in self.planned}
        entries = []
        for key, entry in before.items():
            if key not in places and entry["status"] == "finished":
                found = self._entry(key, self._folder_in(entry), 0, failed, summaries)
                entries.append(found if found["status"] == "finished" else entry)
        for run in self.planned:
            entry = self._entry(run.key, places[run.key], run.config.schedule.env_steps, failed, summaries)
            old = before.get(run.key, {})
            is_kept = entry["status"] != "finished" and old.get("status") == "finished"
            entries.append(old if is_kept and run.key in self._old_rows[RESULTS] else entry)
        return entries

    def _folder_in(self, entry: Mapping[str, Any]) -> Path:
        """Return where an earlier call had a run; a path that leads out of our folder is not ours."""
        place = Path(str(entry.get("folder", "")))
        if place.is_absolute() or ".." in place.parts:
            raise UserError(
                f"{self.folder / PROVENANCE} cannot be used: the run {str(place)[:200]!r} is somewhere else"
            )
        return self.out / place

    def _entry(
        self, key: Key, path: Path, env_steps: int, failed: Collection[Path], summaries: list[Mapping[str, Any]]
    ) -> dict[str, Any]:
        summary = finished_summary(path, env_steps)
        if summary is not None:
            status = "finished"
            summaries.append(summary)
            self._read_rows(key, path)
        else:
            steps = env_steps_so_far(path)
            status = "failed" if path in failed else "unfinished" if steps else "missing"
        variant, task, seed = key
        return {
            "variant": variant,
            "task": task,
            "seed": seed,
            "status": status,
            "env_steps": steps if summary is None else summary["env_steps"],
            "wall_s": None if summary is None else summary["wall_seconds"],
            "commit": origin_commit(path),
            "threads": _threads(path),
            "folder": path.relative_to(self.out).as_posix(),
        }

    def _read_rows(self, key: Key, path: Path) -> None:
        """Read a finished run's tables, once: they will not change any more."""
        for name, (_, read) in self._tables.items():
            if key not in self._new_rows[name]:
                self._new_rows[name][key] = read(self.experiment.name, key, path)

    def _provenance(
        self, entries: Mapping[Key, Mapping[str, Any]], summaries: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        known: list[Mapping[str, Any]] = list(summaries)
        if len(summaries) < sum(entry["status"] == "finished" for entry in entries.values()):
            known.append(self._before)
        seeds = sorted({seed for _, _, seed in entries})
        tasks = list(dict.fromkeys([*(run.task for run in self.planned), *(task for _, task, _ in entries)]))
        env_steps = [run.config.schedule.env_steps for run in self.planned]
        return {
            "experiment": self.experiment.name,
            "title": self.experiment.title,
            "scale": self.scale.name,
            "scale_note": scale_note(self.experiment, self.scale, self.planned, seeds, tasks),
            "commit": source_commit(),
            "versions": merged(entry["versions"] for entry in known) if known else versions(),
            "machine": merged(entry["machine"] for entry in known) if known else machine(),
            "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "seeds": seeds,
            "tasks": tasks,
            "variants": {**self._before.get("variants", {}), **self.variants},
            "runs": [entries[key] for key in sorted(entries)],
            "planned_env_steps": max([*env_steps, self._before.get("planned_env_steps", 0)]),
        }

    def _described(self, variant: Variant) -> dict[str, Any]:
        critics = {run.config.algorithm.critics for run in self.planned if run.variant == variant.id}
        effective = {"critics": critics.pop()} if len(critics) == 1 else {}
        return {"label": variant.label, "overrides": {**variant.overrides, **effective}}

    def _refuse_other_variants(self) -> None:
        for name, variant in self.variants.items():
            before = self._before.get("variants", {}).get(name)
            if before is not None and before["overrides"] != variant["overrides"]:
                raise UserError(
                    f"{self.folder} holds results of {name} with {_listed(before['overrides'])}, which cannot be mixed "
                    f"with {_listed(variant['overrides'])}: choose another --out"
                )


def _by_run(rows: Sequence[Row]) -> dict[Key, list[Row]]:
    found: dict[Key, list[Row]] = {}
    for row in rows:
        found.setdefault(key_of(row), []).append(row)
    return found


def _listed(overrides: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in overrides.items())


def _threads(path: Path) -> int | None:
    return RunFolder(path).config().execution.threads if (path / "config.json").is_file() else None
