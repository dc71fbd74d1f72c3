"""Section `pace`: how fast the candidates of the recipe's confirmation train, one at a time with all cores.

What is compared in equal time needs paces of one machine and one hour: runs of an experiment come from several.
"""

from __future__ import annotations

from functools import partial

from benchmarks.measures import summarise
from benchmarks.quiet import ROUNDS
from benchmarks.report import RESULTS, Figure, Report, load
from benchmarks.timed_runs import TimedRun
from revalued.experiments.catalogue import CONFIRMING, find_experiment
from revalued.experiments.plan import Experiment, Variant

OVER_OURS = "over lean's"
COLUMNS = ["task", "candidate", "interactions/s", "lowest", "highest", OVER_OURS]
NUM_ROUNDS = 2
OURS = "lean"

Paces = dict[tuple[str, str], float]
"""Interactions by task and candidate in the time in which lean makes one."""


def flags_of(variant: Variant) -> list[str]:
    """Return a variant as flags of `revalued train`."""
    flags: list[str] = []
    for name, value in variant.overrides.items():
        flag = name.replace("_", "-")
        flags += [f"--{'' if value else 'no-'}{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
    return flags


def measure(*, quick: bool) -> Report:
    """Alternate short runs of all candidates, task by task."""
    report = Report("pace", "Whole runs of the confirmation's candidates, two threads", COLUMNS)
    experiment = find_experiment("confirmation")
    assert isinstance(experiment, Experiment)
    candidates = {variant.id: flags_of(variant) for variant in experiment.variants_at("laptop")}
    for task in CONFIRMING[: 1 if quick else None]:
        one_round = partial(_one_round, task, candidates, quick)
        found = ROUNDS.repeat(1 if quick else NUM_ROUNDS, one_round, check=not quick)
        for name in candidates:
            rates = [each[name] for each in found]
            over_ours = summarise([each[name] / each[OURS] for each in found]).median
            row = {"interactions/s": summarise(rates).median, "lowest": min(rates), "highest": max(rates)}
            report.rows.append({"task": task, "candidate": name, **row, OVER_OURS: over_ours, "all": rates})
            if name != OURS:
                report.figures.append(Figure(f"{task}: {name} over lean", row["interactions/s"], "/s", None, over_ours))
    report.notes = [
        "interactions while training, with ε at its minimum and a test episode in every thousandth update; rounds",
        "alternate between the candidates, every second one backwards; medians",
    ]
    return report


def _one_round(task: str, candidates: dict[str, list[str]], quick: bool, number: int) -> dict[str, float]:
    log_every, spanned = (20, 100) if quick else (100, 1000)
    rates = {}
    for name in list(candidates)[:: 1 if number % 2 == 0 else -1]:
        with TimedRun(candidates[name], log_every, spanned, task) as run:
            rates[name] = run.interactions_per_second()
    return rates


def measured_paces() -> Paces:
    """Return what was measured and saved last; empty before that."""
    rows = load("pace", RESULTS)["rows"] if (RESULTS / "pace.json").is_file() else []
    return {(row["task"], row["candidate"]): row[OVER_OURS] for row in rows}
