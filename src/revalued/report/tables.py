"""Tables of a report as headers and rows of text, for a page or for Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from revalued.experiments.naming import task_in_words
from revalued.experiments.recorded import FINAL_EVALUATIONS
from revalued.report import statistics
from revalued.report.published import Published, reference
from revalued.report.results import ExperimentResults
from revalued.report.statistics import Summary, final_summary
from revalued.report.theory import Cells, cell_of
from revalued.report.verdicts import HINTS, Decision, Finding, cvar_values, minutes_of

MIXED, HOLDS_IN_PART, FAILS_IN_PART = "mixed", "holds in part", "fails in part"
_NONE = "–"
_ANSWERS = {"holds": "yes", "does not hold": "no", HOLDS_IN_PART: "partly yes", FAILS_IN_PART: "partly no"}
_ORDER: tuple[Decision, ...] = ("holds", "does not hold", "undecided", *HINTS, "not enough data")


@dataclass(frozen=True)
class TextTable:
    """A table of plain text."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""


def headline(finding: Finding) -> str:
    """Return one verdict for a whole finding: over all tasks where that can be said, else the one they share."""
    if finding.overall is not None:
        return finding.overall.decision
    decisions = {verdict.decision for verdict in finding.verdicts}
    known = decisions - {"not enough data"}
    known = known - set(HINTS) or known  # single seeds speak where nothing has been decided
    if len(known) < 2:
        return known.pop() if known else "not enough data"
    if known == {"holds", "undecided"}:
        return HOLDS_IN_PART
    return FAILS_IN_PART if known == {"does not hold", "undecided"} else MIXED


def answer(decision: str, is_question: bool) -> str:
    """Return the word for a decision: a claim holds or not, a question is answered by yes or no."""
    return _ANSWERS.get(decision, decision) if is_question else decision


def breakdown(finding: Finding) -> str:
    """Return how many verdicts there are of each kind, in words, or where the only one was found."""
    counts = Counter(verdict.decision for verdict in finding.verdicts)
    if len(finding.verdicts) == 1:
        return f"Tested on {finding.verdicts[0].where}"
    said = (f"{counts[decision]} × {answer(decision, finding.is_question)}" for decision in _ORDER if counts[decision])
    if finding.overall is None:
        return f"One by one: {', '.join(said)}"
    together = answer(finding.overall.decision, finding.is_question)
    return f"All tasks together: {together}; one by one: {', '.join(said)}"


def overview(findings: Iterable[Finding], first: str = "Claim") -> TextTable:
    """Return every claim with its verdict and scale; `first` heads the column of claims."""
    rows = tuple(
        (finding.statement, answer(headline(finding), finding.is_question), breakdown(finding), finding.scale)
        for finding in findings
    )
    return TextTable((first, "Verdict", "Where", "Scale"), rows)


def mean_and_error(summary: Summary | None) -> str:
    """Return a mean with its standard error, which a single seed does not have."""
    if summary is None:
        return _NONE
    if summary.standard_error is None:
        return f"{summary.mean:.1f} (1 seed)"
    return f"{summary.mean:.1f} ± {summary.standard_error:.1f}"


def published_for(experiment: ExperimentResults, variant: str, task: str) -> Published | None:
    """Return the paper's number for a variant on a task, None where it has none."""
    return reference(experiment.name, variant, task, experiment.setting(variant))


def final_table(experiment: ExperimentResults) -> TextTable:
    """Return final returns: beside the paper's where it prints any, else one column per variant."""
    pairs = [(task, variant) for task in experiment.tasks for variant in experiment.variants]
    if any(published_for(experiment, variant, task) for task, variant in pairs):
        return _beside_published(experiment, pairs)

    def cell(variant: str, task: str) -> str:
        return mean_and_error(final_summary(experiment, variant, task))

    return _by_task(experiment, cell, f"Final return. {seeds_in_words(experiment)}.")


def _by_task(experiment: ExperimentResults, cell: Callable[[str, str], str], caption: str = "") -> TextTable:
    """Return a table with one row per task and one column per variant."""
    variants = experiment.variants
    rows = tuple((task_in_words(task), *(cell(variant, task) for variant in variants)) for task in experiment.tasks)
    return TextTable(("Task", *map(experiment.label, variants)), rows, caption)


def _beside_published(experiment: ExperimentResults, pairs: Sequence[tuple[str, str]]) -> TextTable:
    rows = []
    for task, variant in pairs:
        ours, theirs = final_summary(experiment, variant, task), published_for(experiment, variant, task)
        if ours is None and theirs is None:
            continue
        interval = f"{ours.interval[0]:.1f} to {ours.interval[1]:.1f}" if ours and ours.interval else _NONE
        rows.append(
            (
                task_in_words(task),
                experiment.label(variant),
                mean_and_error(ours),
                interval,
                str(ours.seeds if ours else 0),
                f"{theirs.mean:.1f} ± {theirs.spread:.1f}" if theirs else _NONE,
                f"{ours.mean - theirs.mean:+.1f}" if ours and theirs else _NONE,
            )
        )
    header = ("Task", "Variant", "Here", "95% interval", "Seeds", "Paper", "Difference")
    return TextTable(header, tuple(rows), "Final return, mean ± standard error; the paper's over 10 seeds")


def compact_table(experiment: ExperimentResults) -> TextTable:
    """Return one row per task and one cell per variant, the paper's mean in brackets."""

    def cell(variant: str, task: str) -> str:
        ours, theirs = final_summary(experiment, variant, task), published_for(experiment, variant, task)
        return mean_and_error(ours) + (f" ({theirs.mean:.0f})" if theirs else "")

    return _by_task(experiment, cell)


def success_table(experiment: ExperimentResults) -> TextTable:
    """Return how often the last test episodes reached their goal, one column per variant."""

    def cell(variant: str, task: str) -> str:
        rates = [statistics.final_success(run) for run in experiment.of(variant, task)]
        known = [rate for rate in rates if rate is not None]
        return f"{sum(known) / len(known):.0%}" if known else _NONE

    caption = f"Share of the last {FINAL_EVALUATIONS} test episodes, over all seeds, that reached the goal"
    return _by_task(experiment, cell, caption)


def wall_time_table(experiment: ExperimentResults) -> TextTable:
    """Return minutes for the paper's 500,000 interactions, measured or projected."""
    rows = []
    for task in experiment.tasks:
        for variant in experiment.variants:
            found, theirs = minutes_of(experiment, variant, task), reference("wall-time", variant, task)
            runs = experiment.of(variant, task, finished_only=False)
            ours = statistics.summarise([minutes for minutes, _ in found]) if found else None
            rows.append(
                (
                    task_in_words(task),
                    experiment.label(variant),
                    mean_and_error(ours),
                    "projected" if any(projected for _, projected in found) else "measured" if found else _NONE,
                    f"{max(run.env_steps[-1] for run in runs):,.0f}" if runs else _NONE,
                    f"{theirs.mean:.2f}" if theirs else _NONE,
                )
            )
    header = ("Task", "Variant", "Minutes here", "How", "Interactions run", "Minutes in the paper")
    return TextTable(header, tuple(rows), "Wall time for 500,000 interactions, mean ± standard error over seeds")


def stability_table(experiment: ExperimentResults) -> TextTable:
    """Return the CVaR of the gradient norm's jumps per task and variant."""

    def cell(variant: str, task: str) -> str:
        values = cvar_values(experiment, variant, task)
        if not values:
            return _NONE
        summary = statistics.summarise(values)
        error = "(1 seed)" if summary.standard_error is None else f"± {summary.standard_error:.2g}"
        return f"{summary.mean:.3g} {error}"

    return _by_task(experiment, cell, "CVaR of the gradient norm's jumps, mean ± standard error over seeds")


def theorem_2_table(experiment: ExperimentResults, dimensions: int, critics: int) -> TextTable:
    """Return bias and variance of DecQN and of both ensemble targets, for one N and K."""
    table = Cells(experiment.rows)
    cells = {cell_of(row) for row in experiment.rows if row["target"] == "max-of-mean"}
    rows = []
    for cell in sorted(cells, key=lambda cell: (cell.noise != "uniform", cell.choices, cell.noise)):
        found = [
            table.exact(case, target, quantity)
            for quantity in ("bias", "variance")
            for case, target in ((replace(cell, critics=1), "decqn"), (cell, "mean-of-max"), (cell, "max-of-mean"))
        ]
        known = [estimate.value for estimate in found if estimate is not None]
        if (cell.dimensions, cell.critics) == (dimensions, critics) and len(known) == len(found):
            ratios = [f"{critics * variance / known[3]:.2f}" for variance in known[4:]]
            rows.append((cell.noise.capitalize(), str(cell.choices), *(f"{bias:.3f}" for bias in known[:3]), *ratios))
    header = (
        "Noise", "n", "Bias DecQN", "Bias, mean of maxima", "Bias, maximum of the mean",
        "K·Var/Var DecQN, mean of maxima", "K·Var/Var DecQN, maximum of the mean",
    )  # fmt: skip
    caption = (
        f"What an ensemble does to the target, N = {dimensions}, K = {critics}; Theorem 2 says equal bias and ratio 1"
    )
    return TextTable(header, tuple(rows), caption)


def seeds_in_words(experiment: ExperimentResults) -> str:
    """Return what the numbers of an experiment are, and over how many seeds."""
    counts = experiment.seed_counts()
    if not counts:
        return "No run is finished"
    if counts == [1]:
        return "One seed each, so no standard error can be given"
    return f"Mean ± standard error over {f'{counts[0]} to ' if len(counts) > 1 else ''}{counts[-1]} seeds"


def to_markdown(table: TextTable) -> str:
    """Return a table in Markdown."""

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(table.header), "|" + "---|" * len(table.header), *map(line, table.rows)])
