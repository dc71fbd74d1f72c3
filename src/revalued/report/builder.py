"""A whole report: read the results, write one page with its figures beside it, or a summary in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from revalued.errors import UserError
from revalued.report import blocks, drawing, pages, tables
from revalued.report.contents import chapters, introduction, sections
from revalued.report.results import load_results

TITLE = "REValueD: results and verdicts"
GENERATOR = "revalued report"
PAGE_MARK = pages.generator_tag(GENERATOR)
MARKDOWN_MARK = "<!-- written by: revalued report --markdown -->"


def write_report(results: Path, page: Path, force: bool = False, into: Sequence[Path] = ()) -> list[Path]:
    """Write the page and, in a folder `figures` beside it, every figure as PNG and SVG; return what was written.

    Markdown pages with places for results have them renewed.
    """
    drawing.require_matplotlib()
    found = chapters(load_results(results))
    pages.check_replaceable(page, PAGE_MARK, force)
    text = pages.page(TITLE, sections(found), introduction(found), GENERATOR)
    written = []
    for chapter in found:
        for figure in chapter.figures:
            written += drawing.write_files(figure, page.parent / "figures", force)
    pages.write_own(page, text, PAGE_MARK, force)
    for own in into:
        blocks.write_into(own, found, results)
    return [page, *written]


def markdown(results: Path) -> str:
    """Return the verdicts and the final returns of the main experiment in Markdown."""
    found = chapters(load_results(results))
    parts = [MARKDOWN_MARK]
    for is_question, title in ((False, "Claims of the paper"), (True, "Questions that the paper leaves open")):
        chosen = [finding for chapter in found for finding in chapter.findings if finding.is_question == is_question]
        if chosen:
            table = tables.overview(chosen, "Question" if is_question else "Claim")
            parts += [f"### {title}", tables.to_markdown(table)]
    for experiment in (chapter.experiment for chapter in found if chapter.experiment.name == "main"):
        note = f"{tables.seeds_in_words(experiment)}, at {experiment.scale}. "
        note += "In brackets the paper's mean where it prints one."
        parts += ["### Final returns", tables.to_markdown(tables.compact_table(experiment)), note]
    return "\n\n".join(parts) + "\n"


def write_markdown(results: Path, path: Path, force: bool = False) -> None:
    """Write the Markdown summary to a file."""
    if path.suffix.lower() not in (".md", ".markdown"):
        raise UserError(f"{path} is no name for a Markdown file: it should end in .md")
    pages.write_own(path, markdown(results), MARKDOWN_MARK, force)
