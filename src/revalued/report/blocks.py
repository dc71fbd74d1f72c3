"""Pieces of Markdown made from results, and put where a page has a place for them, so that nobody types a figure.

A place is `<!-- results: NAME -->`, whatever an earlier call wrote, and `<!-- end of results -->`; NAME is one of
`BLOCKS`, or `experiment` and an experiment's name, or `algorithm` and an algorithm's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from revalued.errors import UserError, unknown_name
from revalued.experiments.catalogue import EXPERIMENTS
from revalued.experiments.plan import ComputedExperiment, Experiment, plan
from revalued.experiments.scales import SCALES
from revalued.report import front, lessons, tables
from revalued.report.contents import Chapter
from revalued.report.results import ExperimentResults
from revalued.run.files import LARGEST_TABLE_BYTES, read_plain_file, replace_file

_PLACE = re.compile(r"(<!-- results: (?P<name>[^\n>]*?) -->\n).*?(<!-- end of results -->)", re.DOTALL)


def write_into(page: Path, chapters: list[Chapter], results: Path) -> None:
    """Renew every place of a Markdown page."""
    try:
        text = read_plain_file(page, LARGEST_TABLE_BYTES).decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{page} cannot be used: {error}") from error
    renewed = with_results(text, chapters, Path(os.path.relpath(results, page.parent)).as_posix(), str(page))
    if renewed != text:
        replace_file(page, renewed)


def with_results(text: str, chapters: list[Chapter], place: str, name: str = "the page") -> str:
    """Return a page with every place renewed; `place` is where the page finds the results folder."""
    if not _PLACE.search(text):
        reason = "put '<!-- results: front -->' and '<!-- end of results -->' on lines of their own"
        raise UserError(f"{name} has no place for results: {reason}")

    def renew(match: re.Match[str]) -> str:
        wanted, _, whose = match["name"].partition(" ")
        if wanted in _OF_SOMETHING and whose:
            return f"{match[1]}{_OF_SOMETHING[wanted](chapters, place, whose)}\n{match[3]}"
        if match["name"] not in BLOCKS:
            known = [*BLOCKS, *(f"{kind} NAME" for kind in _OF_SOMETHING)]
            raise unknown_name(f"piece of results in {name}", match["name"], known)
        return f"{match[1]}{BLOCKS[match['name']](chapters, place)}\n{match[3]}"

    return _PLACE.sub(renew, text)


def _front(chapters: list[Chapter], place: str) -> str:
    experiment = _named(chapters, "main")
    if experiment is None:
        return _not_yet("main")
    picture = f"![Learning curves of the main experiment]({place}/figures/main-curves.png)"
    table = front.front_table(experiment, lambda text: f"**{text}**")
    return "\n\n".join([picture, tables.to_markdown(table), table.caption])


def _minutes(chapters: list[Chapter], place: str) -> str:
    drawn = {figure.name for chapter in chapters for figure in chapter.figures}
    parts = [
        f"![The curves of {title} over minutes]({place}/figures/{name}-minutes.png)"
        for name, title in (("main", "the main experiment"), ("long-run", "a long run"))
        if f"{name}-minutes" in drawn
    ]
    return "\n\n".join(parts) or _not_yet("main")


def _peers(chapters: list[Chapter], place: str) -> str:
    parts = []
    for name in ("main", "long-run"):
        experiment = _named(chapters, name)
        table = None if experiment is None else front.peer_table(experiment)
        if table is None or not table.rows:
            parts.append(_not_yet(name))
        else:
            parts += [tables.to_markdown(table), f"{table.caption}."]
            parts.append(f"![Beside published curves]({place}/figures/{name}-peers.png)")
    return "\n\n".join(parts)


def _verdicts(chapters: list[Chapter], place: str) -> str:
    parts = []
    for is_question, title in ((False, "Claim of the paper"), (True, "What the paper leaves open")):
        chosen = [finding for chapter in chapters for finding in chapter.findings if finding.is_question == is_question]
        if chosen:
            parts.append(tables.to_markdown(tables.overview(chosen, title)))
    return "\n\n".join(parts) or "No experiment has been run."


def _learnt(chapters: list[Chapter], place: str) -> str:
    """Return the answers alone: their tasks and numbers are in the report and in the tables of each experiment."""
    parts = []
    unknown = []
    for lesson in lessons.lessons({chapter.experiment.name: chapter.experiment for chapter in chapters}):
        if lesson.answers:
            source = f"*`{lesson.experiment}`, {_scale(chapters, lesson.experiment)}*"
            answers = (f"- {answer.text}" for answer in lesson.answers)
            parts.append("\n".join([f"## {lesson.question}\n\n{source}\n", *answers]))
        else:
            unknown.append(f"- {lesson.question} `revalued reproduce {lesson.experiment}`")
    if unknown:
        parts.append("\n".join(["## Not known yet, as runs are missing\n", *unknown]))
    return "\n\n".join(parts)


def _state(chapters: list[Chapter], place: str) -> str:
    rows = []
    for name, experiment in EXPERIMENTS.items():
        found = _named(chapters, name)
        runs = [] if found is None else list(found.provenance.get("runs", ()))
        done = sum(run["status"] == "finished" for run in runs)
        whole = max(len(runs), _whole_plan(experiment, found))
        count = f"{done} of {whole}" if runs else "not run" if found is None else "computed"
        rows.append((f"`{name}`", experiment.title, count, "–" if found is None else found.scale))
    return tables.to_markdown(tables.TextTable(("Experiment", "What it is", "Runs finished", "Scale"), tuple(rows)))


def _whole_plan(experiment: Experiment | ComputedExperiment, found: ExperimentResults | None) -> int:
    """Return how many runs the experiment has at its scale, those that nobody has asked for yet among them."""
    scale = None if found is None else SCALES.get(str(found.provenance.get("scale")))
    return len(plan(experiment, scale)) if isinstance(experiment, Experiment) and scale is not None else 0


def _pictures(chapters: list[Chapter], place: str) -> str:
    names = [chapter.experiment.name for chapter in chapters if chapter.experiment.runs]
    parts = [
        f"### {EXPERIMENTS[name].title}\n\n{_experiment(chapters, place, name)}"
        for name in names
        if name in EXPERIMENTS and name != "main"
    ]
    return "\n\n".join(parts) or "No other experiment has been run yet."


def _experiment(chapters: list[Chapter], place: str, name: str) -> str:
    """Return one experiment: its first picture and table, and how it was run."""
    chapter = next((chapter for chapter in chapters if chapter.experiment.name == name), None)
    if chapter is None or not chapter.experiment.runs:
        return _not_yet(name)
    known = EXPERIMENTS.get(name)
    title = str(chapter.experiment.provenance.get("title") or (known.title if known else name))
    parts = [f"![{title}]({place}/figures/{figure.name}.png)" for figure in chapter.figures[:1]]
    for table in chapter.tables[:1]:
        parts += [tables.to_markdown(table), f"{table.caption.rstrip('.')}. {chapter.experiment.scale_note}"]
    return "\n\n".join(parts)


def _algorithm(chapters: list[Chapter], place: str, name: str) -> str:
    """Return what one algorithm has reached, as its preset says, in any experiment."""
    taken = [chapter.experiment for chapter in chapters if _is_fit_for_pages(chapter.experiment.name)]
    table = front.algorithm_table(taken, name)
    return "\n\n".join([tables.to_markdown(table), table.caption]) if table.rows else "No run of it is finished."


def _is_fit_for_pages(name: str) -> bool:
    """Tell whether an experiment is of the catalogue and about returns; runs that are timed are cut short."""
    known = EXPERIMENTS.get(name)
    return isinstance(known, Experiment) and not known.is_timed


def _named(chapters: list[Chapter], name: str) -> ExperimentResults | None:
    return next((chapter.experiment for chapter in chapters if chapter.experiment.name == name), None)


def _scale(chapters: list[Chapter], name: str) -> str:
    experiment = _named(chapters, name)
    return "no scale" if experiment is None else experiment.scale


def _not_yet(name: str) -> str:
    return f"Not run yet: `revalued reproduce {name}`, or `revalued reproduce all`."


BLOCKS: Mapping[str, Callable[[list[Chapter], str], str]] = {
    "front": _front,
    "minutes": _minutes,
    "peers": _peers,
    "verdicts": _verdicts,
    "learnt": _learnt,
    "state": _state,
    "pictures": _pictures,
}
"""Every piece by the name that places use."""
_OF_SOMETHING: Mapping[str, Callable[[list[Chapter], str, str], str]] = {
    "experiment": _experiment,
    "algorithm": _algorithm,
}
"""Pieces about one thing, whose name follows."""
