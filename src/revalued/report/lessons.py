"""What a practitioner can take home: sentences that stand on finished runs, and say so where there are none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from revalued.experiments.catalogue import dimensions_of
from revalued.experiments.naming import task_in_words
from revalued.experiments.recorded import NOTHING_LEARNT
from revalued.report import statistics
from revalued.report.results import ExperimentResults
from revalued.report.statistics import final_performance, final_success
from revalued.report.verdicts import (
    Decision,
    decide_returns,
    minutes_of,
    together,
    training_findings,
)

_FEW = 3
"""So many tasks are named in a sentence; more are counted, and named in its detail."""
_RISING = 1.1
"""A curve still rises where its end lies so far above its middle."""
_OUTCOMES: Mapping[Decision, str] = {
    "holds": "ahead",
    "does not hold": "behind",
    "undecided": "not told apart",
    "perhaps": "higher with one seed",
    "perhaps not": "lower with one seed",
}


@dataclass(frozen=True)
class Answer:
    """A sentence, and the tasks and numbers that it sums up."""

    text: str
    detail: str = ""


@dataclass(frozen=True)
class Lesson:
    """A question, the experiment that answers it, and the answers; none where no run is finished."""

    question: str
    experiment: str
    answers: tuple[Answer, ...]


def lessons(results: Mapping[str, ExperimentResults]) -> list[Lesson]:
    """Return every question with what the runs say."""
    found = []
    for question, name, answer in _QUESTIONS:
        experiment = results.get(name)
        answers = [] if experiment is None or not experiment.seed_counts() else answer(experiment)
        found.append(Lesson(question, name, tuple(answers)))
    return found


def compared(experiment: ExperimentResults, first: str, second: str) -> Answer | None:
    """Return on which tasks one variant is ahead of another; None where they have no finished task in common."""
    finals = {task: _finals(experiment, first, second, task) for task in experiment.tasks}
    common = {task: pair for task, pair in finals.items() if all(pair)}
    if not common:
        return None
    outcome: dict[str, list[str]] = {word: [] for word in _OUTCOMES.values()}
    for task, (ours, theirs) in common.items():
        means = f"{task_in_words(task)} {np.mean(ours):.0f} and {np.mean(theirs):.0f}"
        outcome[_OUTCOMES[decide_returns(ours, theirs)]].append(means)
    names = f"{experiment.label(first)} against {experiment.label(second)}"
    seeds = _counted(sorted({len(values) for pair in common.values() for values in pair}), "seed")
    together = _together(experiment, first, second, list(common))
    told = "; ".join(f"{kind}: {', '.join(where)}" for kind, where in outcome.items() if where)
    if len(common) <= _FEW:
        return Answer(f"{names}, {seeds}, {told}. {together}".rstrip())
    parts = [f"{kind} on {len(where)}" for kind, where in outcome.items() if where]
    text = f"{names}, {_counted([len(common)], 'task')}, {seeds}: {', '.join(parts)}."
    return Answer(f"{text} {together}".rstrip(), f"{told[0].upper()}{told[1:]}.")


def _finals(experiment: ExperimentResults, first: str, second: str, task: str) -> tuple[list[float], list[float]]:
    ours, theirs = ([final_performance(run) for run in experiment.of(variant, task)] for variant in (first, second))
    return ours, theirs


def _counted(counts: Sequence[int], noun: str) -> str:
    number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{number} {noun}{'s' if counts[-1] != 1 else ''}"


def _together(experiment: ExperimentResults, first: str, second: str, tasks: Sequence[str]) -> str:
    """Return what tasks that both have finished say together."""
    pairs = [_finals(experiment, first, second, task) for task in tasks]
    found = together([pair for pair in pairs if all(pair)])
    return "" if found is None else f"Together: {found.in_words}."


def _which_algorithm(experiment: ExperimentResults) -> list[Answer]:
    sizes: list[tuple[str, Callable[[int], bool]]] = [
        ("Up to 2 dimensions", lambda n: n <= 2),
        ("5 or 6 dimensions", lambda n: 2 < n < 12),
        ("12 dimensions and more", lambda n: n >= 12),
    ]
    found = _pairs(*_USUAL)(experiment)
    for title, fits in sizes:
        tasks = [task for task in experiment.tasks if (n := dimensions_of(task)) is not None and fits(n)]
        text = _together(experiment, "revalued", "decqn", tasks)
        if text:
            names = f"{experiment.label('revalued')} minus {experiment.label('decqn')}"
            found.append(Answer(f"{title}, {names}: {text}"))
    return found


def _pairs(*pairs: tuple[str, str]) -> Callable[[ExperimentResults], list[Answer]]:
    """Return what says of each pair of variants on which tasks one is ahead, and by how much on all together."""

    def answer(experiment: ExperimentResults) -> list[Answer]:
        found = (compared(experiment, *pair) for pair in pairs)
        return [text for text in found if text is not None]

    return answer


def _best_setting(symbol: str) -> Callable[[ExperimentResults], list[Answer]]:
    """Return what lists, per task, the final return by K or β, and which is the best."""

    def answer(experiment: ExperimentResults) -> list[Answer]:
        found = []
        for task in experiment.tasks:
            summaries = {
                value: summary
                for variant in experiment.variants
                if (value := experiment.setting(variant)) is not None
                and (summary := statistics.final_summary(experiment, variant, task)) is not None
            }
            if len(summaries) < 2:
                continue
            best = max(summaries, key=lambda value: summaries[value].mean)
            listed = ", ".join(f"{value:g}: {summaries[value].mean:.0f}" for value in sorted(summaries))
            level = [
                f"{value:g}"
                for value, summary in sorted(summaries.items())
                if value != best and summary.mean + (summary.standard_error or 0.0) >= summaries[best].mean
            ]
            also = f"; within a standard error of it: {', '.join(level)}" if level else ""
            seeds = _counted(sorted({summary.seeds for summary in summaries.values()}), "seed")
            found.append(Answer(f"{task_in_words(task)}, {seeds}: highest at {symbol} = {best:g}{also} ({listed})."))
        return found

    return answer


def _how_long(experiment: ExperimentResults) -> list[Answer]:
    found = []
    for variant in experiment.variants_with_runs:
        rising: list[str] = []
        level: list[str] = []
        for task in experiment.tasks:
            runs = experiment.of(variant, task)
            if not runs or len((curve := statistics.curve(runs)).xs) < 4:
                continue
            middle = float(np.interp(curve.xs[-1] / 2, curve.xs, curve.mean))
            end = float(np.mean([final_performance(run) for run in runs]))
            if max(middle, end) < NOTHING_LEARNT:
                continue
            (rising if end > _RISING * middle else level).append(f"{task_in_words(task)} {middle:.0f} → {end:.0f}")
        total = len(rising) + len(level)
        if 0 < total <= _FEW:
            found.append(
                Answer(f"{experiment.label(variant)}, from the middle to the end: {', '.join(rising + level)}.")
            )
        elif total:
            text = f"{experiment.label(variant)}: the end lies more than 10% above the middle of the run on "
            text += f"{len(rising)} of {_counted([total], 'task')}."
            parts = [f"still rising: {', '.join(rising)}"] * bool(rising) + [f"level: {', '.join(level)}"] * bool(level)
            found.append(Answer(text, f"From the middle to the end, {'; '.join(parts)}."))
    return found


def _minutes(experiment: ExperimentResults) -> list[Answer]:
    found = []
    for task in experiment.tasks:
        times = {
            variant: float(np.mean([minutes for minutes, _ in known]))
            for variant in experiment.variants
            if (known := minutes_of(experiment, variant, task))
        }
        if times:
            listed = ", ".join(f"{experiment.label(variant)} {minutes:.0f}" for variant, minutes in times.items())
            found.append(Answer(f"Minutes for 500,000 interactions on {task_in_words(task)}: {listed}."))
    return found


def _success(experiment: ExperimentResults) -> list[Answer]:
    found = _pairs(("revalued", "decqn"))(experiment)
    for task in experiment.tasks:
        rates = {
            variant: [rate for run in experiment.of(variant, task) if (rate := final_success(run)) is not None]
            for variant in experiment.variants
        }
        listed = [
            f"{experiment.label(variant)} {np.mean(values):.0%} ({_counted([len(values)], 'seed')})"
            for variant, values in rates.items()
            if values
        ]
        if listed:
            text = f"Goals reached in the last test episodes of {task_in_words(task)}: {', '.join(listed)}."
            found.append(Answer(text))
    return found


def _verdicts(experiment: ExperimentResults) -> list[Answer]:
    return [
        Answer(f"{finding.statement}, on {verdict.where}: {verdict.decision}.", f"{verdict.detail}.")
        for finding in training_findings(experiment)
        for verdict in finding.verdicts
    ]


def _long(experiment: ExperimentResults) -> list[Answer]:
    return _pairs(*_ENSEMBLE)(experiment) + _how_long(experiment)


_ENSEMBLE = (("decqn-ensemble", "decqn"), ("revalued", "decqn-ensemble"))
_USUAL = (("revalued", "decqn"), ("decqn", "bdq"))
_WEIGHTS = (("revalued", "revalued-quadratic"), *((f"revalued-c{c}", "revalued") for c in ("0.5", "2", "5")))
_RIVALS = (("revalued", "bdq-ensemble"), ("revalued", "decqn-sum-ensemble"))
_QUESTIONS: tuple[tuple[str, str, Callable[[ExperimentResults], list[Answer]]], ...] = (
    ("Which algorithm, with the same critic?", "main", _which_algorithm),
    (
        "One wide critic, or ten lean ones at its price?",
        "main",
        _pairs(("lean", "decqn-wide"), ("revalued", "decqn-wide"), ("decqn-wide", "decqn")),
    ),
    ("Is what we recommend better than what it is made of?", "main", _pairs(("lean", "revalued"), ("lean", "decqn"))),
    (
        "Does what we recommend hold on other tasks?",
        "confirmation",
        _pairs(("lean", "decqn-tuned"), ("lean", "decqn-paper")),
    ),
    ("What do an ensemble and the regulariser add?", "regulariser", _pairs(*_ENSEMBLE)),
    ("How many critics?", "ensemble-size", _best_setting("K")),
    ("How strong a regulariser?", "beta", _best_setting("β")),
    ("Summed or averaged over dimensions?", "regulariser-reduction", _pairs(("revalued-mean", "revalued"))),
    ("Which weights in the regulariser?", "weight-function", _pairs(*_WEIGHTS)),
    ("Which target for an ensemble?", "ensemble-target", _pairs(("revalued-mean-of-max", "revalued"))),
    ("Mean or sum of utilities?", "sum", _pairs(("decqn", "decqn-sum"), ("revalued", "decqn-sum"))),
    ("What if there are many choices per dimension?", "bins", _pairs(*_USUAL)),
    ("Do rivals profit from ensembles?", "ensembled-baselines", _pairs(*_RIVALS)),
    ("A distributional critic instead?", "distributional", _pairs(("revalued", "decqn-c51"))),
    ("What if rewards are noisy?", "stochastic-reward", _pairs(*_USUAL)),
    ("What if observations are noisy?", "stochastic-state", _pairs(*_USUAL)),
    ("Which trains more smoothly?", "stability", _verdicts),
    ("What about robot arms?", "metaworld", _success),
    ("How long to train?", "main", _how_long),
    ("And after a million interactions?", "long-run", _long),
    ("How long does one wait?", "wall-time", _minutes),
)
"""What practitioners ask, the experiment that answers it, and how."""
