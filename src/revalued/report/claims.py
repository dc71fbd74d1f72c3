"""What the paper claims, and what it leaves open, as data: each a comparison that the files can decide."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from revalued.report.published import BETA, ENSEMBLE_SIZE, Published

Measure = Literal["final", "area", "cvar", "minutes"]

CLEAR = 2.0
"""A difference in the paper's tables counts as a claim where it is larger than so many of its standard errors."""
WALL_TIME_RATIO = (1.10, 1.40)
"""What counts as "about 25% longer"."""


@dataclass(frozen=True)
class Claim:
    """One variant is better than another by some measure, on the tasks named or on all of an experiment.

    What the paper leaves open is put as a question, and answered by yes or no.
    """

    experiment: str
    better: str
    worse: str
    statement: str
    measure: Measure = "final"
    tasks: tuple[str, ...] | None = None
    excluded: tuple[str, ...] = ()
    """Tasks where the paper itself sees no difference."""

    def covers(self, task: str) -> bool:
        """Tell whether it speaks about a task, whose label may carry bins and noise."""
        names = (task, task.partition("+")[0])
        wanted = self.tasks is None or any(name in self.tasks for name in names)
        return wanted and not any(name in self.excluded for name in names)


def _from_table(
    experiment: str,
    table: Mapping[str, Mapping[float, Published]],
    pairs: tuple[tuple[float, float], ...],
    letter: str,
    symbol: str,
) -> list[Claim]:
    """Return "this setting is better than that one" for the tasks where the paper's table says so clearly."""
    claims = []
    for first, second in pairs:
        for better, worse in ((first, second), (second, first)):
            tasks = tuple(task for task, row in table.items() if _is_clearly_above(row[better], row[worse]))
            if tasks:
                names = (f"revalued-{letter}{better:g}", f"revalued-{letter}{worse:g}")
                statement = f"REValueD: {symbol} = {better:g} beats {symbol} = {worse:g}"
                claims.append(Claim(experiment, *names, statement, tasks=tasks))
    return claims


def _is_clearly_above(first: Published, second: Published) -> bool:
    return first.mean - second.mean > CLEAR * math.hypot(first.spread, second.spread)


CLAIMS: tuple[Claim, ...] = (
    Claim("main", "revalued", "decqn", "REValueD beats DecQN"),
    Claim("main", "decqn", "bdq", "DecQN beats BDQ"),
    Claim("bins", "revalued", "decqn", "REValueD beats DecQN whatever the number of bins"),
    Claim("regulariser", "decqn-ensemble", "decqn", "An ensemble improves DecQN"),
    Claim("regulariser", "revalued", "decqn-ensemble", "The regulariser improves the ensemble"),
    Claim("stochastic-reward", "revalued", "decqn", "With noisy rewards REValueD beats DecQN"),
    Claim("stochastic-reward", "decqn", "bdq", "With noisy rewards DecQN beats BDQ"),
    Claim(
        "stochastic-state", "revalued", "decqn", "With noisy states REValueD beats DecQN", excluded=("quadruped-run",)
    ),
    Claim("stochastic-state", "decqn", "bdq", "With noisy states DecQN beats BDQ"),
    *_from_table("ensemble-size", ENSEMBLE_SIZE, ((3, 1), (5, 1), (10, 1), (15, 1), (20, 1), (15, 3)), "k", "K"),
    Claim("sum", "decqn", "decqn-sum", "The mean of utilities (DecQN) beats their sum (DecQN-Sum)"),
    Claim("sum", "revalued", "decqn-sum", "REValueD beats DecQN-Sum"),
    Claim("wall-time", "revalued", "decqn", "REValueD takes about 25% longer than DecQN", "minutes"),
    *_from_table("beta", BETA, ((0.5, 0.0), (0.75, 0.0)), "beta", "β"),
    Claim("stability", "revalued", "decqn", "REValueD's gradient norms have the lower CVaR", "cvar"),
    Claim("weight-function", "revalued", "revalued-quadratic", "The exponential weight learns faster", "area"),
    Claim("metaworld", "revalued", "decqn", "On MetaWorld REValueD beats DecQN"),
    Claim(
        "ensembled-baselines", "revalued", "bdq-ensemble", "REValueD beats BDQ with an ensemble",
        excluded=("finger-spin@10",),
    ),
    Claim(
        "ensembled-baselines", "revalued", "decqn-sum-ensemble", "REValueD beats DecQN-Sum with an ensemble",
        excluded=("finger-spin@30", "finger-spin@75", "finger-spin@100"),
    ),
    Claim("distributional", "revalued", "decqn-c51", "REValueD beats DecQN-C51"),
    Claim("long-run", "decqn-ensemble", "decqn", "At the end of a long run an ensemble improves DecQN"),
    Claim("long-run", "revalued", "decqn-ensemble", "At the end of a long run the regulariser improves the ensemble"),
    Claim(
        "main", "revalued", "decqn-wide", "Does REValueD with ten lean critics beat DecQN with one that costs the same?"
    ),
    Claim("main", "decqn-wide", "decqn", "Is a wide critic better than a lean one?"),
    Claim("main", "lean", "decqn", "Does lean beat DecQN with one of its critics?"),
    Claim("main", "lean", "decqn-wide", "Does lean beat DecQN with one critic of its price?"),
    Claim("main", "lean", "revalued", "Does lean beat REValueD with the same critics?"),
    Claim("confirmation", "lean", "decqn-tuned", "Does lean beat a DecQN of its price that was tuned as hard?"),
    Claim("confirmation", "lean", "decqn-paper", "Does lean beat DecQN with the paper's settings?"),
    Claim("regulariser-reduction", "revalued-mean", "revalued", "Is averaging the regulariser better than its sum?"),
    Claim(
        "ensemble-target", "revalued-mean-of-max", "revalued",
        "Is the mean of maxima a better target than the maximum of the mean?",
    ),
    *(
        Claim("weight-function", f"revalued-c{c}", "revalued", f"Is temperature c = {c} better than c = 1?")
        for c in ("0.5", "2", "5")
    ),
)  # fmt: skip
"""Every comparison of training runs; those of theorems and the tabular problem are in `theory`."""


def claims_of(experiment: str) -> list[Claim]:
    """Return what is claimed, or asked, in one experiment."""
    return [claim for claim in CLAIMS if claim.experiment == experiment]
