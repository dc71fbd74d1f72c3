"""The recipe's confirmation: candidates on tasks that nobody looked at before, at equal interactions and in equal time.

`revalued reproduce confirmation` makes the runs, `python -m benchmarks.recipe` writes the tables.
"""

from __future__ import annotations

import statistics
from itertools import pairwise

from benchmarks.recipe_runs import ROOT, Episode, Episodes, score
from revalued.experiments.catalogue import CONFIRMING as TASKS
from revalued.experiments.scales import CONFIRMATION_ENV_STEPS as AFTER
from revalued.experiments.scales import CONFIRMATION_SEEDS
from revalued.report.statistics import interquartile_difference
from revalued.report.verdicts import MIN_SEEDS

PATH = ROOT / "results" / "confirmation" / "results.csv"
CANDIDATES = {
    "`lean`": "lean",
    "DecQN, tuned": "decqn-tuned",
    "DecQN, the paper's settings": "decqn-paper",
}
"""By what people call them."""
FEWEST_SEEDS = MIN_SEEDS
"""From so many on a task is shown, as in the report, with their number until it has all of them."""

Found = dict[str, dict[str, list[float]]]
"""By task and candidate: a score for each seed."""


def pace(runs: dict[int, list[Episode]]) -> float:
    """Return a candidate's seconds per interaction: medians, so that pauses of a run do not count."""
    found = []
    for run in runs.values():
        first_at = {episode.env_steps: episode.seconds for episode in reversed(run)}
        times = sorted(first_at.items())
        found.append(statistics.median((late[1] - early[1]) / (late[0] - early[0]) for early, late in pairwise(times)))
    return statistics.median(found)


def confirmed(of: Episodes, *, equal_time: bool) -> Found:
    """Return the scores by task: of every candidate that has enough seeds there, with those that all of them have.

    In equal time everyone has as long as the fastest takes to the end, so the others make fewer interactions.
    """
    found: Found = {}
    for task in TASKS:
        all_runs = {name: of.get((task, variant), {}) for name, variant in CANDIDATES.items()}
        runs = {name: each for name, each in all_runs.items() if len(each) >= FEWEST_SEEDS}
        seeds = sorted(set.intersection(*(set(each) for each in runs.values()))) if len(runs) > 1 else []
        if len(seeds) < FEWEST_SEEDS:
            continue
        paces = {name: pace(each) for name, each in runs.items()}
        reached = {name: AFTER * min(paces.values()) / own if equal_time else AFTER for name, own in paces.items()}
        values = {name: [score(each[seed], reached[name]) for seed in seeds] for name, each in runs.items()}
        found[task] = {name: [one for one in of_seeds if one is not None] for name, of_seeds in values.items()}
    return found


def confirmation_table(of: Episodes) -> str:
    """Return Markdown: means over seeds, task by task, and what the tasks say together."""
    parts = []
    for equal_time, title in ((False, f"after {AFTER:,} interactions"), (True, "in the time of the fastest")):
        found = confirmed(of, equal_time=equal_time)
        if not found:
            return (
                f"No task has {FEWEST_SEEDS} seeds of two candidates yet: `revalued reproduce confirmation` makes them."
            )
        lines = [f"| {title} | " + " | ".join(_heads(found)) + " |", "|---|" + "---|" * len(found)]
        for name in CANDIDATES:
            means = (f"{statistics.fmean(by_name[name]):.0f}" if name in by_name else "–" for by_name in found.values())
            lines.append(f"| {name} | " + " | ".join(means) + " |")
        parts += ["\n".join(lines), "\n".join(_against_others(found))]
    return "\n\n".join(parts)


def confirmation_summary(of: Episodes) -> str:
    """Return what the tasks say together, for pages that have no room for them one by one."""
    found = confirmed(of, equal_time=False)
    if not found:
        return "It has not been confirmed on other tasks yet."
    counts = sorted({len(values) for by_name in found.values() for values in by_name.values()})
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    lead = f"On {len(found)} of {len(TASKS)} tasks that the search never looked at, after {AFTER:,} interactions, "
    lead += f"with {seeds} of {CONFIRMATION_SEEDS} seeds each:"
    return "\n".join([lead, "", *_against_others(found)])


def _heads(found: Found) -> list[str]:
    counts = {task: len(next(iter(by_name.values()))) for task, by_name in found.items()}
    return [task if count >= CONFIRMATION_SEEDS else f"{task} ({count} seeds)" for task, count in counts.items()]


def _against_others(found: Found) -> list[str]:
    ours, *others = CANDIDATES
    lines = []
    for other in others:
        pairs = [(by_name[ours], by_name[other]) for by_name in found.values() if ours in by_name and other in by_name]
        if not pairs:
            continue
        value, (low, high) = interquartile_difference([pair[0] for pair in pairs], [pair[1] for pair in pairs])
        ahead = sum(statistics.fmean(first) > statistics.fmean(second) for first, second in pairs)
        lines.append(
            f"- {ours} against {other}: {value:+.0f} [{low:+.0f}, {high:+.0f}] in the interquartile mean over "
            f"{len(pairs)} tasks, ahead on {ahead} of {len(pairs)}."
        )
    return lines
