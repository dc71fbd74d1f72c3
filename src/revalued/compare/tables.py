"""The table of a comparison, from its files alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from revalued.compare.contestants import CONTESTANTS, DEFAULT
from revalued.compare.meter import Clock
from revalued.compare.plan import RANDOM, Budget, final_score, score_at
from revalued.compare.result_table import ComparisonFolder, ComparisonProvenance, RunCurve, RunKey
from revalued.envs.suites.problems import PROBLEMS
from revalued.errors import UserError
from revalued.report.statistics import Summary, summarise


@dataclass(frozen=True)
class Entry:
    """One line of the table: a contestant with one of its settings."""

    contestant: str
    setting: str
    curves: Mapping[int, RunCurve]
    """By seed."""
    at_budget: Summary
    """Score at the end of everybody's budget."""
    at_interactions: Summary
    """Score after as many interactions as everybody made."""
    env_steps: float
    """Interactions that it made, on average."""
    seconds: float
    """Time that it took, on average."""

    @property
    def label(self) -> str:
        """Return its name for readers."""
        title = CONTESTANTS[self.contestant].title if self.contestant in CONTESTANTS else self.contestant
        return title if self.setting == DEFAULT else f"{title}, tuned"

    @property
    def name(self) -> str:
        """Return its short name."""
        return self.contestant if self.setting == DEFAULT else f"{self.contestant}, tuned"


@dataclass(frozen=True)
class Comparison:
    """Everything that a problem's page shows."""

    provenance: ComparisonProvenance
    entries: tuple[Entry, ...]
    """The best at the end of the budget first."""
    common_env_steps: float
    """Interactions that everybody made."""
    random: float | None
    """What uniformly random choices earn."""

    @property
    def budget(self) -> Budget:
        """Return what everybody got."""
        clock: Clock = "cpu" if self.provenance["clock"] == "cpu" else "wall"
        return Budget(self.provenance["budget_minutes"], self.provenance["env_steps"], clock)


def read_comparison(folder: ComparisonFolder) -> Comparison:
    """Read a comparison; tuning runs are not part of it."""
    provenance, finished = folder.provenance(), folder.finished()
    if provenance is None:
        raise UserError(f"{folder.path} holds no comparison")
    groups: dict[tuple[str, str], dict[int, RunCurve]] = {}
    for key, curve in finished.items():
        if key.share == 1.0 and key.contestant != RANDOM:
            groups.setdefault((key.contestant, key.setting), {})[key.seed] = curve
    clock: Clock = "cpu" if provenance["clock"] == "cpu" else "wall"
    budget = Budget(provenance["budget_minutes"], provenance["env_steps"], clock)
    common = min((curve.env_steps[-1] for curves in groups.values() for curve in curves.values()), default=0.0)
    entries = [_entry(name, setting, curves, budget, float(common)) for (name, setting), curves in groups.items()]
    entries.sort(key=lambda entry: -entry.at_budget.mean)
    return Comparison(provenance, tuple(entries), float(common), _random(finished))


def _entry(name: str, setting: str, curves: Mapping[int, RunCurve], budget: Budget, common: float) -> Entry:
    runs = [curves[seed] for seed in sorted(curves)]
    return Entry(
        name,
        setting,
        curves,
        summarise([final_score(run, budget) for run in runs]),
        summarise([score_at(run.env_steps, run.returns, common) for run in runs]),
        sum(run.env_steps[-1] for run in runs) / len(runs),
        sum(run.seconds[-1] for run in runs) / len(runs),
    )


def _random(finished: Mapping[RunKey, RunCurve]) -> float | None:
    return next((float(curve.returns[-1]) for key, curve in finished.items() if key.contestant == RANDOM), None)


def markdown_table(found: Comparison) -> str:
    """Return the table: at the end of the budget, and after equally many interactions."""
    minutes = found.provenance["budget_minutes"]
    unit = f"minute{'s' * (minutes != 1)}{' of one core' * (found.budget.clock == 'cpu')}"
    at_budget = f"after {minutes:g} {unit}" if minutes is not None else "at the end"
    digits = _digits([entry.at_budget.mean for entry in found.entries])
    lines = [
        f"| | return {at_budget} | interactions made | return after {_thousands(found.common_env_steps)} interactions "
        "| seeds |",
        "|---|---|---|---|---|",
    ]
    if found.provenance["optimum"] is not None:
        lines.append(f"| *the best possible* | {found.provenance['optimum']:.{digits}f} | | | |")
    for entry in found.entries:
        lines.append(
            f"| {entry.label} | {_cell(entry.at_budget, digits)} | {_thousands(entry.env_steps)} "
            f"| {_cell(entry.at_interactions, digits)} | {entry.at_budget.seeds} |"
        )
    if found.random is not None:
        lines.append(f"| *uniformly random* | {found.random:.{digits}f} | | | |")
    return "\n".join(lines)


def overview_table(comparisons: Mapping[str, Comparison], names: Sequence[str]) -> str:
    """Return a table of several problems, one row each: the return at the end of the budget.

    Whoever takes part in one of them has a column, with the best of its settings and variants. The best is in bold, be
    it the random policy, and with it whoever's 95% interval overlaps with its own.
    """
    present = {_column(entry) for found in comparisons.values() for entry in found.entries}
    names = [name for name in names if name in present]
    titles = {name: CONTESTANTS[name].title for name in names}
    lines = ["| | budget, seeds | " + " | ".join([*titles.values(), "random", "best possible"]) + " |"]
    lines.append("|---|---|" + "---|" * (len(names) + 2))
    for folder, found in comparisons.items():
        own = {name: [entry.at_budget for entry in found.entries if _column(entry) == name] for name in names}
        scores = {name: max(each, key=lambda score: score.mean) for name, each in own.items() if each}
        digits = _digits([score.mean for score in scores.values()])
        if found.random is not None:
            scores[RANDOM] = Summary(found.random, None, None, 1)
        bold, optimum = _best_of(scores), found.provenance["optimum"]
        cells = [
            f"**{scores[name].mean:.{digits}f}**" if name in bold
            else f"{scores[name].mean:.{digits}f}" if name in scores
            else "–"
            for name in (*names, RANDOM)
        ]  # fmt: skip
        cells.append("–" if optimum is None else f"{optimum:.{digits}f}")
        lines.append(f"| {_title(folder)} | {_terms(found)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _column(entry: Entry) -> str:
    known = CONTESTANTS.get(entry.contestant)
    return entry.contestant if known is None or known.variant_of is None else known.variant_of


def _best_of(scores: Mapping[str, Summary]) -> set[str]:
    """Return who has the largest mean, and who cannot be told apart from it; nobody where there is no competition."""
    if len(scores) < 2:
        return set()
    best = max(scores.values(), key=lambda score: score.mean)
    least = best.mean if best.interval is None else best.interval[0]
    most = {name: score.mean if score.interval is None else score.interval[1] for name, score in scores.items()}
    return {name for name, score in scores.items() if score is best or most[name] > least}


def _title(folder: str) -> str:
    return PROBLEMS[folder].title if folder in PROBLEMS else folder


def _terms(found: Comparison) -> str:
    """Return what everybody got, and how many seeds there are."""
    minutes, env_steps = found.provenance["budget_minutes"], found.provenance["env_steps"]
    clock = " of the clock" if found.budget.clock == "wall" else ""
    parts = [] if minutes is None else [f"{minutes:g} min{clock}"]
    parts += [] if env_steps is None else [f"{env_steps:,} interactions"]
    counts = sorted({entry.at_budget.seeds for entry in found.entries})
    return ", ".join([*parts, f"{counts[0]}" if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"])


def _digits(means: Sequence[float]) -> int:
    """Return how many decimals returns of this size need."""
    largest = max((abs(mean) for mean in means), default=1.0)
    return 0 if largest >= 100 else 1 if largest >= 10 else 2 if largest >= 1 else 3


def _cell(summary: Summary, digits: int) -> str:
    if summary.interval is None:
        return f"{summary.mean:.{digits}f}"
    low, high = summary.interval
    return f"{summary.mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def _thousands(count: float) -> str:
    return f"{count:,.0f}"
