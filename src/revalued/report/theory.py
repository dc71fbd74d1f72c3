"""Whether the theorems and the tabular experiment come out as the paper says."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from revalued.experiments.result_files import Row
from revalued.report.results import ExperimentResults
from revalued.report.verdicts import Finding, Verdict, decide

TOLERANCE = 5.0
"""Standard errors by which a simulation may differ from what it estimates."""
_NORMAL_95 = 1.96
_ROUNDING = 1e-6
"""Relative difference below which two numbers are the same; closed forms are integrated to about ten digits."""


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error, 0 where it was computed in closed form."""

    value: float
    error: float


@dataclass(frozen=True, order=True)
class Cell:
    """One case of the theorems: noise, N dimensions of n choices, K critics."""

    noise: str
    dimensions: int
    choices: int
    critics: int

    def __str__(self) -> str:
        return f"N = {self.dimensions}, n = {self.choices}, K = {self.critics}"


class Cells:
    """The theorems' rows by what they are about."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = {(cell_of(row), row["target"], row["quantity"]): row for row in rows}

    def where(self, noise: str, target: str, quantity: str) -> list[Cell]:
        """Return every case with this noise in which a target's quantity is known."""
        return sorted(key[0] for key in self._rows if key[0].noise == noise and key[1:] == (target, quantity))

    def exact(self, cell: Cell, target: str, quantity: str) -> Estimate | None:
        """Return the closed form, or the simulation where there is none."""
        row = self._rows.get((cell, target, quantity))
        if row is None or row["closed_form"] is None:
            return self.simulated(cell, target, quantity)
        return Estimate(float(row["closed_form"]), 0.0)

    def simulated(self, cell: Cell, target: str, quantity: str) -> Estimate | None:
        """Return the simulation, None where there is none."""
        row = self._rows.get((cell, target, quantity))
        return None if row is None else Estimate(float(row["monte_carlo"]), float(row["standard_error"]))


def cell_of(row: Row) -> Cell:
    """Return the case that a row is about; one dimension and one critic where it does not say."""
    return Cell(row["noise"], int(row["N"] or 1), int(row["n"]), int(row["K"] or 1))


def theorem_findings(experiment: ExperimentResults) -> list[Finding]:
    """Return what the simulations say about each theorem; noise other than the paper's uniform one is a question."""
    table = Cells(experiment.rows)
    findings = [Finding("Closed forms equal the simulation", experiment.scale, _closed_forms(experiment.rows))]
    for noise in sorted({str(row["noise"]) for row in experiment.rows}, reverse=True):
        theorems = {
            "Theorem 1: DecQN's target has at most the bias of DQN's and at least its variance": _ordered(
                table, noise, ("bias", "decqn", "dqn"), ("variance", "dqn", "decqn")
            ),
            "Theorem 2 as proved (mean of the maxima): an ensemble keeps the bias and divides the variance by K": (
                _theorem_2(table, noise, "mean-of-max")
            ),
            "Theorem 2 as stated (equation 5, maximum of the mean): an ensemble keeps the bias and divides the "
            "variance by K": _theorem_2(table, noise, "max-of-mean"),
            "Theorem 3: the sum's target has at least the bias and the variance of DQN's": _ordered(
                table, noise, ("bias", "dqn", "sum"), ("variance", "dqn", "sum")
            ),
        }
        for statement, verdicts in theorems.items():
            if noise != "uniform":
                name, _, rest = statement.partition(": ")
                statement = f"Does {name} hold for {noise.capitalize()} noise as well: {rest}?"
            if verdicts:
                findings.append(Finding(statement, experiment.scale, tuple(verdicts)))
    return findings


def _closed_forms(rows: Sequence[Row]) -> tuple[Verdict, ...]:
    """Return, per theorem, whether every closed form lies within the tolerance of its simulation."""
    verdicts = []
    for theorem in sorted({str(row["theorem"]) for row in rows if row["closed_form"] is not None}):
        distances = [
            _distance(float(row["monte_carlo"]), float(row["closed_form"]), float(row["standard_error"]))
            for row in rows
            if row["theorem"] == theorem and row["closed_form"] is not None
        ]
        inside = sum(distance <= TOLERANCE for distance in distances)
        detail = f"{inside} of {len(distances)} within {TOLERANCE:g} standard errors, "
        detail += f"the farthest {max(distances):.1f} away"
        name = theorem.replace("-", " ").capitalize()
        verdicts.append(Verdict(name, "holds" if inside == len(distances) else "does not hold", detail))
    return tuple(verdicts) or (Verdict("", "not enough data", "no closed forms in the file"),)


def _distance(value: float, expected: float, error: float) -> float:
    """Return how many standard errors a number is from what it should be; equal up to rounding is no distance."""
    if math.isclose(value, expected, rel_tol=_ROUNDING):
        return 0.0
    return abs(value - expected) / error if error > 0 else math.inf


def _ordered(table: Cells, noise: str, *rules: tuple[str, str, str]) -> list[Verdict]:
    """Return, per (quantity, smaller, larger), whether the one target's quantity is nowhere above the other's."""
    verdicts = []
    for quantity, smaller, larger in rules:
        answers = []
        for cell in table.where(noise, larger, quantity):
            low, high = table.exact(cell, smaller, quantity), table.exact(cell, larger, quantity)
            if low is not None and high is not None:
                tolerance = TOLERANCE * math.hypot(low.error, high.error) + _ROUNDING * abs(high.value)
                answers.append(low.value - high.value <= tolerance)
        verdicts += _all_right(quantity, answers, "")
    return verdicts


def _theorem_2(table: Cells, noise: str, target: str) -> list[Verdict]:
    """Return whether simulated ensembles have DecQN's bias, and its variance divided by K."""
    verdicts = []
    for quantity in ("bias", "variance"):
        answers, farthest, example = [], 0.0, ""
        for cell in table.where(noise, target, quantity):
            ours = table.simulated(cell, target, quantity)
            single = table.exact(replace(cell, critics=1), "decqn", quantity)
            if ours is None or single is None or cell.critics == 1:  # with one critic there is nothing to say
                continue
            share = 1 if quantity == "bias" else cell.critics
            said = single.value / share
            answers.append(_distance(ours.value, said, math.hypot(ours.error, single.error / share)) <= TOLERANCE)
            if abs(ours.value - said) > farthest * abs(said) and not answers[-1]:
                farthest = abs(ours.value - said) / abs(said)
                example = f"; farthest: {ours.value:.3g} where the theorem says {said:.3g} ({cell})"
        verdicts += _all_right(quantity, answers, example)
    return verdicts


def _all_right(quantity: str, answers: Sequence[bool], example: str) -> list[Verdict]:
    if not answers:
        return []
    detail = f"in {sum(answers)} of {len(answers)} cases{example}"
    return [Verdict(quantity, "holds" if all(answers) else "does not hold", detail)]


def tabular_findings(experiment: ExperimentResults) -> list[Finding]:
    """Return, per size of the tabular problem, whether REValueD keeps the best sub-action more often than DecQN."""
    pairs = [
        ("revalued", "decqn", "As the tabular problem grows, REValueD takes the best sub-action more often than DecQN")
    ]
    if any(row["variant"] == "revalued-mean" for row in experiment.rows):
        question = "In the tabular problem, is averaging the regulariser better than its sum?"
        pairs.append(("revalued-mean", "revalued", question))
    return [
        Finding(statement, experiment.scale, _tabular(experiment.rows, better, worse))
        for better, worse, statement in pairs
    ]


def mean_frequencies(rows: Iterable[Row], variant: str) -> dict[tuple[int, int], Estimate]:
    """Return how often, in percent, a variant takes the best sub-action over all its updates, by (N, n).

    The same trials stand behind every recorded point, so their errors may all lie to the same side: the mean has at
    most the mean of their standard errors, which is what it gets.
    """
    cells: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        if row["variant"] == variant:
            cells.setdefault((int(row["N"]), int(row["n"])), []).append(row)
    return {
        cell: Estimate(
            sum(float(row["frequency"]) for row in found) / len(found),
            sum(float(row["standard_error"]) for row in found) / len(found),
        )
        for cell, found in cells.items()
    }


def _tabular(rows: Sequence[Row], better: str, worse: str) -> tuple[Verdict, ...]:
    first, second = mean_frequencies(rows, better), mean_frequencies(rows, worse)
    verdicts = []
    for cell in sorted(first.keys() & second.keys()):
        value = first[cell].value - second[cell].value
        margin = _NORMAL_95 * math.hypot(first[cell].error, second[cell].error)
        detail = (
            f"{first[cell].value:.1f}% against {second[cell].value:.1f}%; "
            f"difference {value:+.1f} [{value - margin:+.1f}, {value + margin:+.1f}]"
        )
        verdicts.append(Verdict(f"N = {cell[0]}, n = {cell[1]}", decide((value - margin, value + margin)), detail))
    return tuple(verdicts) or (Verdict("", "not enough data", "no such rows"),)
