"""What stands on the page of a report, section by section."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from revalued.experiments.catalogue import EXPERIMENTS
from revalued.experiments.naming import task_in_words
from revalued.experiments.recorded import FINAL_EVALUATIONS
from revalued.experiments.result_files import key_of, merged
from revalued.report import figures, front, pages, tables, theory, theory_figures, verdicts
from revalued.report.drawing import Figure, panel_svg
from revalued.report.lessons import lessons
from revalued.report.pages import Html, Section
from revalued.report.published import REMARKS
from revalued.report.results import ExperimentResults
from revalued.report.statistics import RESAMPLES, separation_by_chance
from revalued.report.tables import TextTable, answer, headline
from revalued.report.verdicts import MIN_SEEDS, MIN_TASKS, Finding

_TONES = {"holds": "good", "does not hold": "bad", "not enough data": "none"}
"""The colour of a verdict; that of all others says that it is open."""
_NAMED_RUNS = 6


@dataclass(frozen=True)
class Chapter:
    """One experiment with what was found in it and how it is shown."""

    experiment: ExperimentResults
    findings: Sequence[Finding]
    figures: Sequence[Figure]
    tables: Sequence[TextTable]


def chapters(results: Mapping[str, ExperimentResults]) -> list[Chapter]:
    """Return the experiments in the paper's order, sweeps and others after them."""
    known = [name for name in EXPERIMENTS if name in results]
    return [_chapter(results[name]) for name in [*known, *sorted(set(results) - set(known))]]


def _chapter(experiment: ExperimentResults) -> Chapter:
    if experiment.name == "theorems":
        table = tables.theorem_2_table(experiment, *theory_figures.typical_case(experiment))
        drawn = theory_figures.theorem_figures(experiment)
        return Chapter(experiment, theory.theorem_findings(experiment), drawn, [table])
    if experiment.name == "tabular":
        drawn = theory_figures.tabular_figures(experiment)
        return Chapter(experiment, theory.tabular_findings(experiment), drawn, [])
    special = {
        "main": [front.front_table, front.peer_table, tables.final_table],
        "long-run": [front.front_table, front.peer_table],
        "wall-time": [tables.wall_time_table],
        "stability": [tables.stability_table, tables.final_table],
        "metaworld": [tables.final_table, tables.success_table],
    }
    shown = [table(experiment) for table in special.get(experiment.name, [tables.final_table])]
    return Chapter(experiment, verdicts.training_findings(experiment), figures.training_figures(experiment), shown)


def introduction(all_chapters: Sequence[Chapter]) -> Html:
    """Return the head of the page: what was run, at which scale, and how the verdicts fall."""
    findings = [finding for chapter in all_chapters for finding in chapter.findings]
    counts = Counter(headline(finding) for finding in findings if not finding.is_question)
    provenance = [chapter.experiment.provenance for chapter in all_chapters]
    status = list(_statuses(provenance).values())
    scales = list(dict.fromkeys(str(facts["scale"]) for facts in provenance if facts.get("scale")))
    runs: list[tuple[str, object]] = [
        ("training runs finished", f"{status.count('finished')} of {len(status)}" if status else "none recorded"),
        ("scale", ", ".join(scales) or "not recorded"),
    ]
    if not findings:
        lead = "Runs of our own, not experiments of the paper."
        return pages.join([pages.paragraph(lead, "lead"), pages.tiles(runs)])
    lead = (
        "The experiments of REValueD (Ireland & Montana, ICLR 2024) carried out again, each claim of the paper held "
        "against the outcome."
    )
    warning = (
        "Run at the paper's scale."
        if scales == ["paper"]
        else "The paper trained 10 seeds, wider critics and longer; a verdict here speaks about the scale beside it, "
        "not about the paper's."
    )
    facts = pages.tiles(
        [
            ("claims that hold", counts["holds"]),
            ("that do not hold", counts["does not hold"]),
            ("undecided, mixed, one seed", sum(counts[decision] for decision in counts if decision not in _TONES)),
            ("without enough data", counts["not enough data"]),
            *runs,
        ]
    )
    return pages.join([pages.paragraph(lead, "lead"), facts, pages.paragraph(warning, "note")])


def _statuses(provenance: Sequence[Mapping[str, Any]]) -> dict[object, str]:
    """Return the status of every run; one that several experiments share counts once."""
    return {
        run.get("folder") or (number, *key_of(run)): str(run["status"])
        for number, facts in enumerate(provenance)
        for run in facts.get("runs", ())
    }


def sections(all_chapters: Sequence[Chapter]) -> list[Section]:
    """Return every section of the page."""
    return [
        *([_verdict_section(all_chapters)] if any(chapter.findings for chapter in all_chapters) else []),
        *([_lesson_section(all_chapters)] if any(chapter.findings for chapter in all_chapters) else []),
        *(_experiment_section(chapter) for chapter in all_chapters),
        _method_section(all_chapters),
        _provenance_section(all_chapters),
    ]


def _verdict_section(all_chapters: Sequence[Chapter]) -> Section:
    parts: list[object] = []
    for is_question, title in ((False, "What the paper claims"), (True, "What the paper leaves open")):
        rows = [
            (
                _with_remark(
                    pages.link(finding.statement, chapter.experiment.name),
                    f"{tables.breakdown(finding)}. At {finding.scale}.",
                ),
                _badge(headline(finding), is_question),
            )
            for chapter in all_chapters
            for finding in chapter.findings
            if finding.is_question == is_question
        ]
        if rows:
            header = ("Question" if is_question else "Claim", "Verdict")
            parts += [pages.subheading(title), pages.table(header, rows, label=title)]
    present = {chapter.experiment.name for chapter in all_chapters}
    absent = [name for name in EXPERIMENTS if name not in present]
    if absent:
        parts.append(pages.paragraph(f"Not run: {', '.join(absent)}.", "note"))
    return pages.section("Verdicts", pages.join(parts))


def _lesson_section(all_chapters: Sequence[Chapter]) -> Section:
    parts: list[object] = []
    missing: list[str] = []
    for lesson in lessons({chapter.experiment.name: chapter.experiment for chapter in all_chapters}):
        if lesson.answers:
            answers = [_with_remark(answer.text, answer.detail) for answer in lesson.answers]
            parts += [pages.subheading(pages.link(lesson.question, lesson.experiment)), pages.bullets(answers)]
        else:
            missing.append(f"{lesson.question} ({lesson.experiment})")
    if missing:
        parts.append(pages.paragraph(f"Not known yet, as nothing is finished: {' '.join(missing)}", "note"))
    return pages.section("What was learnt", pages.join(parts), "learnt")


def _experiment_section(chapter: Chapter) -> Section:
    experiment = chapter.experiment
    known = EXPERIMENTS.get(experiment.name)
    title = str(experiment.provenance.get("title") or (known.title if known else experiment.name))
    parts: list[object] = []
    if known is not None:
        parts.append(pages.paragraph(f"{known.compares} Source: {known.source[0].lower() + known.source[1:]}."))
    parts.append(pages.paragraph(experiment.scale_note, "note"))
    if experiment.name in REMARKS:
        parts.append(pages.paragraph(REMARKS[experiment.name], "note"))
    if experiment.unfinished():
        parts.append(pages.paragraph(_unfinished_in_words(experiment), "note"))
    parts += [_drawn(figure) for figure in chapter.figures]
    parts += [pages.table(table.header, table.rows, table.caption) for table in chapter.tables if table.rows]
    parts += [_finding(finding) for finding in chapter.findings]
    untested = verdicts.untested(experiment.name, chapter.findings)
    if untested:
        parts.append(pages.paragraph(f"Not tested, because not all of it was run: {'; '.join(untested)}.", "note"))
    return pages.section(title, pages.join(parts), experiment.name)


def _unfinished_in_words(experiment: ExperimentResults) -> str:
    runs = experiment.unfinished()
    kinds = ", ".join(f"{count} {status}" for status, count in sorted(Counter(run["status"] for run in runs).items()))
    named = "; ".join(
        f"{experiment.label(run['variant'])} on {task_in_words(run['task'])}, seed {run['seed']}"
        for run in runs[:_NAMED_RUNS]
    )
    more = f"; and {len(runs) - _NAMED_RUNS} more, listed under Provenance" if len(runs) > _NAMED_RUNS else ""
    return f"Not counted in tables and verdicts: {kinds} ({named}{more})."


def _drawn(figure: Figure) -> Html:
    drawn = [pages.inline_svg(panel_svg(panel), panel.description) for panel in figure.panels]
    if len(drawn) == 1 and not figure.legend:
        return pages.figure(drawn[0], figure.caption)
    return pages.panels(drawn, figure.caption, figure.legend)


def _finding(finding: Finding) -> Html:
    rows = [
        (_with_remark(verdict.where, verdict.detail), _badge(verdict.decision, finding.is_question))
        for verdict in (*finding.verdicts, finding.overall)
        if verdict is not None
    ]
    heading = Html(f"{pages.escape(finding.statement)} {_badge(headline(finding), finding.is_question)}")
    body = pages.table(("Where", "Verdict"), rows, f"At {finding.scale}", label=finding.statement)
    return pages.join([pages.subheading(heading), body])


def _with_remark(content: object, remark: str) -> Html:
    return pages.join([content, pages.small(remark)] if remark else [content], "")


def _badge(decision: str, is_question: bool) -> Html:
    return pages.badge(answer(decision, is_question), _TONES.get(decision, "open"))


def _method_section(all_chapters: Sequence[Chapter]) -> Section:
    counts = [count for chapter in all_chapters for count in chapter.experiment.seed_counts() if count > 1]
    fewest = min(counts, default=5)
    chance = (
        f"Two equal algorithms with {fewest} seeds each lie wholly apart by chance in "
        f"{separation_by_chance(fewest):.0%} of comparisons: few seeds make for weak verdicts, whichever way they fall."
    )
    items = [
        f"The final performance of a run is the mean of its last {FINAL_EVALUATIONS} evaluations. Each evaluation is a "
        "greedy test episode, and a single one is noisy.",
        "A mean over seeds stands with its standard error (sample deviation over the root of the number of seeds). A "
        "single seed has neither a standard error nor an interval, and none is shown.",
        f"Intervals are 95% percentile bootstrap intervals with {RESAMPLES:,} resamples and a fixed seed: the same "
        "files give the same numbers.",
        "A claim that one variant beats another holds where the interval of the difference of means lies above 0, does "
        f"not hold where it lies below 0, and is undecided where it includes 0. It needs at least {MIN_SEEDS} finished "
        "seeds on either side: a single one says perhaps, or perhaps not.",
        *([chance] if fewest < 5 else []),
        "All tasks together: the difference of interquartile means over tasks and seeds, seeds being resampled within "
        f"each task. Where some tasks have a single seed, but at least {MIN_TASKS} tasks have any: the mean over tasks "
        "of the differences of their means, tasks being resampled.",
        "Claims about ensemble size and β are those differences in the paper's tables that exceed two standard errors.",
        "Only finished runs count in tables and verdicts. Wall times are measured after the first evaluation, and "
        "projected to 500,000 interactions where fewer were run.",
    ]
    return pages.section("How the numbers are made", pages.bullets(items), "method")


def _provenance_section(all_chapters: Sequence[Chapter]) -> Section:
    experiments = [chapter.experiment for chapter in all_chapters]
    rows = []
    for experiment in experiments:
        facts = experiment.provenance
        status = Counter(run["status"] for run in facts.get("runs", ()))
        runs = f"{status['finished']} of {sum(status.values())}" if status else "computed" if experiment.rows else "–"
        written = str(facts.get("written_at", "–"))[:16].replace("T", " ")
        rows.append((experiment.name, experiment.scale, runs, written, _short(facts.get("commit"))))
    header = ("Experiment", "Scale", "Runs finished", "Written, UTC", "Commit")
    parts: list[object] = [pages.table(header, rows, "Where the results come from")]
    for key, title in (("machine", "Machine"), ("versions", "Versions")):
        known = [experiment.provenance.get(key) for experiment in experiments]
        facts = merged(found for found in known if isinstance(found, Mapping))
        if facts:
            parts.append(pages.table((title, "Value"), list(facts.items()), label=title))
    for experiment in experiments:
        if experiment.provenance.get("runs"):
            parts.append(pages.folded(f"Runs of {experiment.name}", _run_table(experiment)))
    return pages.section("Provenance", pages.join(parts))


def _run_table(experiment: ExperimentResults) -> Html:
    rows = [
        (
            experiment.label(run["variant"]),
            task_in_words(run["task"]),
            run["seed"],
            run["status"],
            f"{run.get('env_steps') or 0:,}",
            f"{(run.get('wall_s') or 0) / 60:.1f}",
            run.get("threads") or "–",
            _short(run.get("commit")),
        )
        for run in experiment.provenance["runs"]
    ]
    header = ("Variant", "Task", "Seed", "Status", "Interactions", "Minutes", "Threads", "Commit")
    return pages.table(header, rows, f"Runs of {experiment.name}")


def _short(commit: object) -> str:
    """Return a commit in ten digits, with what is said after it."""
    digits, _, remark = str(commit or "–").partition(" ")
    return f"{digits[:10]} {remark}".strip()
