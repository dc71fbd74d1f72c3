"""Whether claims about training runs hold: bootstrap intervals of differences over seeds decide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from revalued.experiments.naming import task_in_words
from revalued.experiments.recorded import NOTHING_LEARNT
from revalued.report import statistics
from revalued.report.claims import WALL_TIME_RATIO, Claim, claims_of
from revalued.report.results import ExperimentResults
from revalued.report.statistics import Groups, Interval

Decision = Literal["holds", "does not hold", "undecided", "perhaps", "perhaps not", "not enough data"]
HINTS: tuple[Decision, ...] = ("perhaps", "perhaps not")
"""What a single seed says, which decides nothing."""
MIN_SEEDS = 2
"""A verdict on a task needs so many finished seeds on either side."""
MIN_TASKS = 6
"""A verdict on tasks of which some have a single seed needs so many: fewer do not say how much tasks differ."""


@dataclass(frozen=True)
class Verdict:
    """What the files say at one place: a task, a cell of a grid, all tasks together."""

    where: str
    decision: Decision
    detail: str


@dataclass(frozen=True)
class Finding:
    """One claim, or open question, with its verdicts and the scale at which they were found."""

    statement: str
    scale: str
    verdicts: tuple[Verdict, ...]
    overall: Verdict | None = None

    @property
    def is_question(self) -> bool:
        """Return whether the paper leaves it open; the answer is then yes or no."""
        return self.statement.endswith("?")


@dataclass(frozen=True)
class Together:
    """What several tasks say together."""

    decision: Decision
    in_words: str


Pairs = Sequence[tuple[Sequence[float], Sequence[float]]]
"""For each task the numbers of the two that are compared, one per seed."""


def training_findings(experiment: ExperimentResults) -> list[Finding]:
    """Return what an experiment's runs say about each of its claims that can be tested."""
    found = (_finding(claim, experiment) for claim in claims_of(experiment.name))
    return [finding for finding in found if finding is not None]


def untested(experiment: str, findings: Iterable[Finding]) -> list[str]:
    """Return the claims without a finding: a variant of theirs, or all their tasks, was not planned."""
    found = {finding.statement for finding in findings}
    return [claim.statement for claim in claims_of(experiment) if claim.statement not in found]


def decide(interval: Interval) -> Decision:
    """Return the verdict for a difference that a claim says is positive."""
    low, high = interval
    return "holds" if low > 0 else "does not hold" if high < 0 else "undecided"


def decide_returns(better: Sequence[float], worse: Sequence[float]) -> Decision:
    """Return the verdict for returns of which a claim says which are the higher ones.

    Where half the seeds of either side have learnt nothing, chance decides who has.
    """
    if max(np.median(better), np.median(worse)) < NOTHING_LEARNT:
        return "undecided"
    return _decide_difference(better, worse)


def _decide_difference(upper: Sequence[float], lower: Sequence[float]) -> Decision:
    value, interval = statistics.difference(upper, lower)
    return decide(interval) if _enough(upper, lower) else _hint(value > 0)


def _hint(speaks_for_it: bool) -> Decision:
    return "perhaps" if speaks_for_it else "perhaps not"


def decide_within(interval: Interval, allowed: Interval) -> Decision:
    """Return the verdict for a number that a claim says lies in a range."""
    low, high = interval
    if allowed[0] <= low and high <= allowed[1]:
        return "holds"
    return "does not hold" if high < allowed[0] or low > allowed[1] else "undecided"


def together(pairs: Pairs) -> Together | None:
    """Return the difference over all tasks of which either side has finished runs; None where they are too few.

    Seeds are resampled within each task where all tasks have several; else tasks are, if there are enough of them.
    """
    several = [pair for pair in pairs if _enough(*pair)]
    if len(pairs) >= MIN_TASKS and len(several) < len(pairs):
        value, interval = statistics.difference_over_tasks(*_sides(pairs))
        found = f"mean difference {value:+.1f} {_range(interval, '+.1f')} over {len(pairs)} tasks"
        single = len(pairs) - len(several)
        return Together(decide(interval), f"{found}, {single} of them with a single seed (tasks resampled)")
    if len(several) < 2:
        return None
    value, interval = statistics.interquartile_difference(*_sides(several))
    found = f"difference of interquartile means {value:+.1f} {_range(interval, '+.1f')} over {len(several)} tasks"
    return Together(decide(interval), found)


def _sides(pairs: Pairs) -> tuple[Groups, Groups]:
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _finding(claim: Claim, experiment: ExperimentResults) -> Finding | None:
    better, worse = experiment.with_setting(claim.better), experiment.with_setting(claim.worse)
    tasks = [task for task in experiment.tasks if claim.covers(task)]
    if better is None or worse is None or not tasks:
        return None
    pairs = [(_values(claim, experiment, better, task), _values(claim, experiment, worse, task)) for task in tasks]
    verdicts = (_compare(claim, task_in_words(task), *pair) for task, pair in zip(tasks, pairs, strict=True))
    overall = _overall(claim, [pair for pair in pairs if all(pair)])
    return Finding(claim.statement, experiment.scale, tuple(verdicts), overall)


def _values(claim: Claim, experiment: ExperimentResults, variant: str, task: str) -> list[float]:
    """Return one number per finished seed."""
    if claim.measure == "cvar":
        return cvar_values(experiment, variant, task)
    if claim.measure == "minutes":
        return [minutes for minutes, _ in minutes_of(experiment, variant, task)]
    measure = statistics.final_performance if claim.measure == "final" else statistics.mean_over_run
    return [measure(run) for run in experiment.of(variant, task)]


def cvar_values(experiment: ExperimentResults, variant: str, task: str) -> list[float]:
    """Return the CVaR of each seed after its last update."""
    rows = [row for row in experiment.rows if row["variant"] == variant and row["task"] == task]
    last = {row["seed"]: float(row["cvar95"]) for row in sorted(rows, key=lambda row: float(row["updates"]))}
    return [last[seed] for seed in sorted(last)]


def minutes_of(experiment: ExperimentResults, variant: str, task: str) -> list[tuple[float, bool]]:
    """Return the minutes of each seed to the paper's length, and whether they are projected; unfinished runs count."""
    found = (statistics.projected_minutes(run) for run in experiment.of(variant, task, finished_only=False))
    return [minutes for minutes in found if minutes is not None]


def _enough(better: Sequence[float], worse: Sequence[float]) -> bool:
    return min(len(better), len(worse)) >= MIN_SEEDS


def _compare(claim: Claim, where: str, better: list[float], worse: list[float]) -> Verdict:
    style = ".3g" if claim.measure == "cvar" else ".1f"
    means = " against ".join(f"{sum(found) / len(found):{style}}" for found in (better, worse) if found)
    few = f"finished seeds: {len(better)} and {len(worse)}; {MIN_SEEDS} of each are needed"
    if not (better and worse):
        return Verdict(where, "not enough data", few)
    several = _enough(better, worse)
    seeds = f"{len(better)} and {len(worse)} seeds" if several else few
    if claim.measure == "minutes":
        value, interval = statistics.ratio(better, worse)
        in_range = WALL_TIME_RATIO[0] <= value <= WALL_TIME_RATIO[1]
        found, said = f" minutes; ratio {value:.2f}", _range(interval, ".2f")
        decision = decide_within(interval, WALL_TIME_RATIO) if several else _hint(in_range)
    elif claim.measure == "cvar":  # the lower is the better one
        value, interval = statistics.difference(worse, better)
        found, said = f"; lower by {value:.3g}", _range(interval, ".3g")
        decision = _decide_difference(worse, better)
    else:
        value, interval = statistics.difference(better, worse)
        found, said = f"; difference {value:+.1f}", _range(interval, "+.1f")
        decision = decide_returns(better, worse)
    interval_said = f" {said}" if several else ""
    return Verdict(where, decision, f"{means}{found}{interval_said}; {seeds}")


def _overall(claim: Claim, pairs: Pairs) -> Verdict | None:
    """Return the verdict on all tasks together, where their returns may be put together at all."""
    if claim.measure not in ("final", "area"):
        return None
    found = together(pairs)
    return None if found is None else Verdict("all tasks together", found.decision, found.in_words)


def _range(interval: Interval, style: str) -> str:
    return f"[{interval[0]:{style}}, {interval[1]:{style}}]"
