"""Made-up results in the form that experiments leave on disk, for tests of the report."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from revalued.experiments.result_files import CVAR_COLUMNS, RESULT_COLUMNS, TABULAR_COLUMNS, THEOREM_COLUMNS
from revalued.report.results import RunResults
from revalued.report.verdicts import Finding

Levels = Mapping[tuple[str, str], float]
"""Final return by variant and task."""


def make_run(
    returns: Sequence[float], variant: str = "decqn", task: str = "walker-walk", seed: int = 0, finished: bool = True
) -> RunResults:
    """Return a run with one evaluation after every 5,000 interactions and 10 seconds."""
    steps = np.linspace(5_000, 5_000 * len(returns), len(returns), dtype=np.float64)
    return RunResults(variant, task, seed, steps, np.array(returns, dtype=np.float64), steps / 500, finished)


def outcomes(finding: Finding) -> dict[str, str]:
    """Return a finding's decision at each place."""
    return {verdict.where: verdict.decision for verdict in finding.verdicts}


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a table of results."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_training(
    out: Path,
    name: str,
    levels: Levels,
    seeds: int = 2,
    env_steps: int = 120_000,
    spread: float = 10.0,
    minutes: Mapping[str, float] | None = None,
    unfinished: Mapping[tuple[str, str, int], str] | None = None,
) -> Path:
    """Write an experiment whose curves rise to a level; seeds differ by `spread`, half of it to either side."""
    unfinished = unfinished or {}
    rows: list[dict[str, Any]] = []
    runs: list[dict[str, Any]] = []
    for (variant, task), level in levels.items():
        for seed in range(seeds):
            status = unfinished.get((variant, task, seed), "finished")
            reached = {"finished": env_steps, "missing": 0}.get(status, env_steps // 2)
            rng = np.random.default_rng([seed, len(rows)])
            offset = spread * (seed - (seeds - 1) / 2) / max(seeds - 1, 1)
            for steps in range(5_000, reached + 1, 5_000):
                fraction = min(1.0, 1.25 * steps / env_steps)
                noise = 40.0 * rng.normal() if fraction < 1 else 0.0
                rows.append(
                    {
                        "experiment": name,
                        "variant": variant,
                        "task": task,
                        "seed": seed,
                        "updates": steps // 5 - 1_000,
                        "env_steps": steps,
                        "return": max(0.0, level * fraction**2 + offset + noise),
                        "wall_s": steps * 60 * (minutes or {}).get(variant, 10.0) / 500_000 + 20 + seed,
                    }
                )
            run = {"variant": variant, "task": task, "seed": seed, "status": status, "env_steps": reached}
            runs.append({**run, "wall_s": 300.0, "commit": "0123456789abcdef", "threads": 1})
    write_csv(out / name / "results.csv", RESULT_COLUMNS, rows)
    variants = {variant: {"label": _label(variant), "overrides": _overrides(variant)} for variant, _ in levels}
    write_provenance(
        out / name, name, list(dict.fromkeys(task for _, task in levels)), variants, runs, seeds, env_steps
    )
    return out / name


def write_provenance(
    folder: Path,
    name: str,
    tasks: Sequence[str] = (),
    variants: Mapping[str, Any] | None = None,
    runs: Sequence[Any] = (),
    seeds: int = 2,
    env_steps: int = 120_000,
) -> None:
    """Write how an experiment was run."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = {
        "experiment": name,
        "title": f"Title of {name}",
        "scale": "laptop",
        "scale_note": f"Laptop scale: {env_steps:,} interactions per run (paper: 500,000); {seeds} seeds (paper: 10).",
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "versions": {"revalued": "0.1.0", "torch": "2.13.0", "mujoco": "3.3.0"},
        "machine": {"system": "Linux", "processor": "x86_64", "cores": 2},
        "written_at": "2024-05-06T07:08:09+00:00",
        "seeds": list(range(seeds)),
        "tasks": list(tasks),
        "variants": dict(variants or {}),
        "runs": list(runs),
        "planned_env_steps": env_steps,
    }
    (folder / "provenance.json").write_text(json.dumps(facts), encoding="utf-8")


def _overrides(variant: str) -> dict[str, Any]:
    size = re.fullmatch(r"revalued-k(\d+)", variant)
    return {"algo": "revalued", "critics": int(size[1]) if size else 3 if "revalued" in variant else 1}


def _label(variant: str) -> str:
    names = {"revalued": "REValueD", "decqn": "DecQN", "bdq": "BDQ"}
    return names.get(variant, variant)


def write_cvar(out: Path, values: Mapping[tuple[str, str], Sequence[float]]) -> None:
    """Write the stability experiment's second table: one CVaR per seed."""
    rows = [
        {"experiment": "stability", "variant": variant, "task": task, "seed": seed, "updates": 1_000, "cvar95": value}
        for (variant, task), found in values.items()
        for seed, value in enumerate(found)
    ]
    write_csv(out / "stability" / "cvar.csv", CVAR_COLUMNS, rows)


def theorem_row(target: str, quantity: str, monte_carlo: float, **other: Any) -> dict[str, Any]:
    """Return one row of the theorems' table; by default uniform noise, N = 2, n = 3, K = 1 and no closed form."""
    row = {"experiment": "theorems", "theorem": "theorem-1", "noise": "uniform", "N": 2, "n": 3, "K": 1}
    row |= {"target": target, "quantity": quantity, "closed_form": "", "monte_carlo": monte_carlo}
    return row | {"standard_error": 0.001, "samples": 1_000} | other


def write_theorems(out: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the theorems' table."""
    write_csv(out / "theorems" / "results.csv", THEOREM_COLUMNS, rows)
    write_provenance(out / "theorems", "theorems")


def write_tabular(out: Path, frequencies: Mapping[tuple[str, int, int], float], standard_error: float = 1.0) -> None:
    """Write the tabular experiment: 50% after the first update, then what is given."""
    rows = [
        {
            "experiment": "tabular",
            "variant": variant,
            "N": dimensions,
            "n": choices,
            "updates": updates,
            "frequency": frequency if updates == 100 else 50.0,
            "standard_error": standard_error,
            "trials": 1_000,
        }
        for (variant, dimensions, choices), frequency in frequencies.items()
        for updates in (20, 100)
    ]
    write_csv(out / "tabular" / "results.csv", TABULAR_COLUMNS, rows)
    write_provenance(out / "tabular", "tabular")
