"""The recipe's confirmation: candidates on tasks that nobody looked at before, at equal interactions and in equal time.

`revalued reproduce confirmation` makes the runs, `python -m benchmarks.recipe` writes the tables.
"""

from __future__ import annotations

import dataclasses
import statistics
from pathlib import Path

from benchmarks.pace import Paces
from benchmarks.recipe_runs import ROOT, Episode, Episodes, score
from revalued.compare.contestants import DEFAULT
from revalued.compare.result_table import PROVENANCE, ComparisonFolder
from revalued.compare.tables import markdown_table, read_comparison
from revalued.experiments.catalogue import CONFIRMING as TASKS
from revalued.experiments.scales import CONFIRMATION_ENV_STEPS as AFTER
from revalued.experiments.scales import CONFIRMATION_SEEDS
from revalued.report.statistics import interquartile_difference
from revalued.report.verdicts import MIN_SEEDS, decide_returns

PATH = ROOT / "results" / "confirmation" / "results.csv"
CANDIDATES = {
    "`lean`": "lean",
    "DecQN, tuned": "decqn-tuned",
    "DecQN, the paper's settings": "decqn-paper",
}
"""By what people call them."""
PROBLEM, CONTESTANTS = "phones-small", ("lean", "decqn", "decqn-paper")
"""The Gymnasium problem among the tasks, and what the candidates are called in its comparison."""
FEWEST_SEEDS = MIN_SEEDS
"""From so many on a task is shown, as in the report, with their number until it has all of them."""

Found = dict[str, dict[str, dict[int, float]]]
"""By task and candidate: a score for each seed."""


def confirmed(of: Episodes, paces: Paces | None = None) -> Found:
    """Return the scores by task, of every candidate that has enough seeds there, with all seeds that it has.

    With paces everyone has as long as the fastest takes to the end, so the others make fewer interactions.
    """
    found: Found = {}
    for task in TASKS:
        all_runs = {name: of.get((task, variant), {}) for name, variant in CANDIDATES.items()}
        runs = {name: each for name, each in all_runs.items() if len(each) >= FEWEST_SEEDS}
        if len(runs) > 1:
            own = {name: 1.0 if paces is None else paces[task, CANDIDATES[name]] for name in runs}
            found[task] = {name: _scores(each, AFTER * own[name] / max(own.values())) for name, each in runs.items()}
    return found


def _scores(runs: dict[int, list[Episode]], reached: float) -> dict[int, float]:
    values = {seed: score(run, reached) for seed, run in sorted(runs.items())}
    return {seed: value for seed, value in values.items() if value is not None}


def confirmation_table(of: Episodes, paces: Paces) -> str:
    """Return Markdown: means over seeds, task by task, and what the tasks say together."""
    found = confirmed(of)
    if not found:
        return f"No task has {FEWEST_SEEDS} seeds of two candidates yet: `revalued reproduce confirmation` makes them."
    parts = _table(f"after {AFTER:,} interactions", found)
    if not paces:
        return "\n\n".join([*parts, "In equal time: not measured yet, `python -m benchmarks pace --save` does it."])
    return "\n\n".join([*parts, *_table("in the time of the fastest", confirmed(of, paces))])


def _table(title: str, found: Found) -> list[str]:
    heads = [f"{task} ({_seeds(by_name)})" for task, by_name in found.items()]
    lines = [f"| {title} | " + " | ".join(heads) + " |", "|---|" + "---|" * len(found)]
    for name in CANDIDATES:
        means = (
            f"{statistics.fmean(by_name[name].values()):.0f}" if name in by_name else "–" for by_name in found.values()
        )
        lines.append(f"| {name} | " + " | ".join(means) + " |")
    return ["\n".join(lines), "\n".join(_against_others(found))]


def problem_table(folder: Path = ROOT / "results" / "recipe" / PROBLEM) -> str:
    """Return Markdown: the candidates on the Gymnasium problem, whoever else took part there left out."""
    if not (folder / PROVENANCE).is_file():
        return "Not run yet."
    found = read_comparison(ComparisonFolder(folder))
    entries = [entry for entry in found.entries if entry.contestant in CONTESTANTS and entry.setting == DEFAULT]
    return markdown_table(dataclasses.replace(found, entries=tuple(entries)))


def _seeds(*tasks: dict[str, dict[int, float]]) -> str:
    counts = sorted({len(of_seeds) for by_name in tasks for of_seeds in by_name.values()})
    return f"{counts[0]} seeds" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"


def confirmation_summary(of: Episodes) -> str:
    """Return what the tasks say together, for pages that have no room for them one by one."""
    found = confirmed(of)
    if not found:
        return "It has not been confirmed on other tasks yet."
    seeds = _seeds(*found.values())
    planned = f" ({CONFIRMATION_SEEDS} are planned)" if seeds != f"{CONFIRMATION_SEEDS} seeds" else ""
    lead = f"On {len(found)} of {len(TASKS)} tasks that the search never looked at, after {AFTER:,} interactions, "
    lead += f"with {seeds} each{planned}:"
    return "\n".join([lead, "", *_against_others(found)])


def _against_others(found: Found) -> list[str]:
    ours, *others = CANDIDATES
    lines = []
    for other in others:
        pairs = _pairs(found, ours, other)
        if not pairs:
            continue
        value, (low, high) = interquartile_difference([pair[0] for pair in pairs], [pair[1] for pair in pairs])
        higher = sum(statistics.fmean(first) > statistics.fmean(second) for first, second in pairs)
        ahead, behind = (sum(decide_returns(*pair) == kind for pair in pairs) for kind in ("holds", "does not hold"))
        lines.append(
            f"- {ours} against {other}: {value:+.0f} [{low:+.0f}, {high:+.0f}] in the interquartile mean over "
            f"{len(pairs)} tasks; its mean is higher on {higher} of {len(pairs)}, "
            f"told apart on {ahead}{f', lower and told apart on {behind}' if behind else ''}."
        )
    return lines


def _pairs(found: Found, ours: str, other: str) -> list[tuple[list[float], list[float]]]:
    """Return the scores of two candidates, task by task, with all seeds that each has, as in the report."""
    both = [by_name for by_name in found.values() if ours in by_name and other in by_name]
    return [(list(by_name[ours].values()), list(by_name[other].values())) for by_name in both]
