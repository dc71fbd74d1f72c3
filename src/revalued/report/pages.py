"""Self-contained HTML pages: no scripts, nothing loaded from elsewhere; fit for a phone, a desk, the dark and paper."""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from revalued.errors import UserError
from revalued.run.files import replace_file

GENERATOR = "revalued"
"""Stands in the page's head, so that a page of ours is known from a file that somebody else wrote."""


class Html(str):
    """Text that is markup already; every other string is escaped before it enters a page."""

    __slots__ = ()


@dataclass(frozen=True)
class Section:
    """One section of a page, with the name under which it can be linked to."""

    heading: str
    html: Html
    anchor: str


def escape(content: object) -> Html:
    """Return text as markup; what is markup already stays as it is."""
    return content if isinstance(content, Html) else Html(html.escape(str(content)))


def join(parts: Iterable[object], between: str = "\n") -> Html:
    """Put pieces of markup and text one after another."""
    return Html(between.join(escape(part) for part in parts))


def section(heading: str, content: object, anchor: str = "") -> Section:
    """Return a section with a heading; its anchor comes from the heading where none is given."""
    return Section(heading, escape(content), anchor or re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-"))


def subheading(content: object) -> Html:
    """Return a heading inside a section."""
    return Html(f"<h3>{escape(content)}</h3>")


def paragraph(content: object, kind: str = "") -> Html:
    """Return a paragraph; `kind` may be "lead" (opens the page) or "note" (what a reader must know before the rest)."""
    attribute = f' class="{html.escape(kind)}"' if kind else ""
    return Html(f"<p{attribute}>{escape(content)}</p>")


def bullets(items: Iterable[object]) -> Html:
    """Return a list with a dot before each item."""
    return Html(f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>")


def small(content: object) -> Html:
    """Return a remark on a line of its own, smaller than what it belongs to."""
    return Html(f"<small>{escape(content)}</small>")


def badge(text: str, tone: str) -> Html:
    """Return a short word in a coloured frame; tones are "good", "bad", "open" and "none"."""
    return Html(f'<span class="badge {html.escape(tone)}">{escape(text)}</span>')


def link(text: str, anchor: str) -> Html:
    """Return a link to a section of the same page."""
    return Html(f'<a href="#{html.escape(anchor)}">{escape(text)}</a>')


def folded(summary: str, content: object) -> Html:
    """Return something that a reader may open; on paper it is open."""
    return Html(f"<details><summary>{escape(summary)}</summary>{escape(content)}</details>")


def tiles(facts: Iterable[tuple[str, object]]) -> Html:
    """Return a row of large numbers, each with what it counts."""
    cells = (f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    return Html(f'<dl class="tiles">{"".join(cells)}</dl>')


def table(header: Sequence[object], rows: Iterable[Sequence[object]], caption: str = "", label: str = "") -> Html:
    """Return a table that scrolls inside its own box; columns of numbers are aligned to the right.

    The caption stands above; `label` names the table for those who cannot see it, where the caption would not do.
    """
    texts = [[escape(cell) for cell in row] for row in rows]
    numeric = [bool(texts) and all(_is_number(row[column]) for row in texts) for column in range(len(header))]

    def cells(row: Sequence[Html], name: str) -> str:
        kinds = (' class="number"' if right else "" for right in numeric)
        scope = ' scope="col"' if name == "th" else ""
        return "".join(f"<{name}{scope}{kind}>{cell}</{name}>" for cell, kind in zip(row, kinds, strict=True))

    head = f"<thead><tr>{cells([escape(cell) for cell in header], 'th')}</tr></thead>"
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in texts)
    title = f'<p class="caption">{escape(caption)}</p>' if caption else ""
    # not a <caption>, which would be as narrow as its table; tabindex, so that a keyboard can scroll the box, too
    box = f'<div class="scroll" role="region" tabindex="0" aria-label="{html.escape(label or caption or "table")}">'
    return Html(f"{title}{box}<table>{head}<tbody>{body}</tbody></table></div>")


def figure(content: object, caption: str) -> Html:
    """Return a picture, or several, with a caption."""
    return Html(f"<figure>{escape(content)}<figcaption>{escape(caption)}</figcaption></figure>")


def panels(cells: Iterable[Html], caption: str, legend: Iterable[tuple[str, str]] = ()) -> Html:
    """Return several small pictures in as many columns as the screen has room for.

    The legend, shared by all, is a list of (name, colour).
    """
    items = [f'<span><i style="background:{html.escape(colour)}"></i>{escape(name)}</span>' for name, colour in legend]
    names = f'<div class="legend">{"".join(items)}</div>' if items else ""
    inner = "".join(f"<div>{cell}</div>" for cell in cells)
    return figure(Html(f'{names}<div class="panels">{inner}</div>'), caption)


def inline_svg(svg: str, description: str) -> Html:
    """Return an SVG file as an element of a page, labelled, with ids that no other picture of the page has."""
    start = re.search(r"<svg\b[^>]*>", svg)
    end = svg.rfind("</svg>")
    if start is None or end < start.end():
        raise ValueError("not an SVG picture: it has no <svg> element")
    opening = re.sub(r'\s(role|aria-label|id)="[^"]*"', "", start.group()[:-1])
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg[start.end() : end], flags=re.DOTALL)
    prefix = "p" + hashlib.sha256((description + svg).encode()).hexdigest()[:8] + "-"
    body = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}", body)
    label = html.escape(description, quote=True)
    return Html(f'{opening} role="img" aria-label="{label}">{body}</svg>')


def page(title: str, sections: Iterable[Section], introduction: object = "", generator: str = GENERATOR) -> str:
    """Return a whole page: title, introduction, contents where there are many sections, and the sections."""
    chosen = list(sections)
    entries = "".join(f"<li>{link(part.heading, part.anchor)}</li>" for part in chosen)
    contents = f'<nav aria-label="Contents"><ol>{entries}</ol></nav>' if len(chosen) > 3 else ""
    body = "".join(
        f'<section id="{html.escape(part.anchor)}"><h2>{escape(part.heading)}</h2>\n{part.html}\n</section>\n'
        for part in chosen
    )
    return (
        '<!DOCTYPE html>\n<html lang="en-GB">\n<head>\n<meta charset="utf-8">\n'
        # says in a way that browsers enforce: no script, nothing fetched
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:; media-src data:">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"{generator_tag(generator)}\n"
        f"<title>{escape(title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n<main>\n"
        f"<header><h1>{escape(title)}</h1>\n{escape(introduction)}</header>\n{contents}\n{body}</main>\n</body>\n</html>\n"
    )


def generator_tag(generator: str = GENERATOR) -> str:
    """Return what stands in the head of a page that this generator wrote."""
    return f'<meta name="generator" content="{html.escape(generator)}">'


def check_replaceable(path: Path, mark: str, force: bool = False) -> None:
    """Refuse to replace a file, unless its beginning holds the mark of an earlier one of ours, or by force."""
    if path.is_dir():
        raise UserError(f"{path} is a folder: name a file to write to")
    if path.exists() and not force:
        with path.open("rb") as file:
            is_ours = mark.encode() in file.read(2048)
        if not is_ours:
            raise UserError(f"{path} exists and was not written by this command: choose another name or add --force")


def write_own(path: Path, text: str, mark: str, force: bool = False) -> None:
    """Write a file that holds a mark near its beginning; only one with the same mark is replaced, or any by force."""
    check_replaceable(path, mark, force)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, text)


def _is_number(cell: Html) -> bool:
    """Tell whether a cell holds a number, perhaps with an error, a remark in brackets or a second one, or nothing."""
    number = r"[-+−–]?[\d,.]*(e[-+]?\d+)?\s?[%×]?"
    return re.fullmatch(rf"{number}( (±|to|of) {number})?( \([^()]*\))?", cell) is not None


_CSS = """
:root { --ink: #1b1f24; --soft: #57606a; --paper: #ffffff; --raised: #f5f7f9; --line: #d5dae0; --link: #0550ae;
  --good: #12652b; --bad: #a02622; --open: #7a5200; --none: #57606a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ec; --soft: #a3adb8; --paper: #12161b; --raised: #1b2128;
  --line: #39424d; --link: #79b8ff; --good: #6fdd8b; --bad: #ff9a92; --open: #f0c060; --none: #a3adb8; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; scroll-behavior: smooth; }
body { margin: 0; color: var(--ink); background: var(--paper);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; overflow-wrap: break-word; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .75rem; }
h2 { font-size: 1.4rem; line-height: 1.25; margin: 3rem 0 .75rem; padding-top: .75rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1.08rem; margin: 1.75rem 0 .5rem; }
p, ul, ol { max-width: 46rem; margin: .6rem 0; }
ul, ol { padding-left: 1.3rem; }
ul li { margin: .35rem 0; }
a { color: var(--link); }
code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: .92em; }
.lead { font-size: 1.1rem; }
.note { color: var(--soft); border-left: 3px solid var(--line); padding-left: .8rem; }
nav ol { columns: 15rem; column-gap: 2rem; max-width: none; font-size: .95rem; padding-left: 1.8rem; }
nav li { break-inside: avoid; padding: .15rem 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .75rem; margin: 1.25rem 0; }
.tiles div { background: var(--raised); border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .8rem; }
.tiles dt { color: var(--soft); font-size: .85rem; line-height: 1.3; }
.tiles dd { margin: .15rem 0 0; font-size: 1.3rem; font-weight: 600; line-height: 1.3; }
.scroll { overflow-x: auto; margin: 1rem 0; max-width: 100%; }
.scroll:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
table { border-collapse: collapse; font-size: .92rem; line-height: 1.4; font-variant-numeric: tabular-nums; }
.caption { color: var(--soft); font-size: .92rem; margin: 1rem 0 -.6rem; break-after: avoid; }
small { display: block; color: var(--soft); font-size: .85rem; line-height: 1.4; }
th, td { text-align: left; vertical-align: top; padding: .35rem .9rem .35rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; vertical-align: bottom; border-bottom-width: 2px; }
td { min-width: 3.5rem; } td:first-child { min-width: 7rem; } td:last-child, th:last-child { padding-right: 0; }
.number { text-align: right; } td.number { white-space: nowrap; }
.badge { display: inline-block; white-space: nowrap; font-size: .85rem; font-weight: 600; line-height: 1.35;
  padding: .05rem .5rem; border: 1px solid currentColor; border-radius: 1rem; }
.good { color: var(--good); } .bad { color: var(--bad); } .open { color: var(--open); } .none { color: var(--none); }
figure { margin: 1.25rem 0; }
figcaption { color: var(--soft); font-size: .92rem; max-width: 46rem; margin-top: .4rem; }
svg, img, video { display: block; max-width: 100%; height: auto; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(19rem, 100%), 1fr)); gap: .75rem 1rem; }
.panels svg { width: 100%; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; margin-bottom: .5rem; font-size: .92rem; }
.legend i { display: inline-block; width: 1.4rem; height: .3rem; border-radius: .15rem; margin-right: .45rem;
  vertical-align: middle; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
@media (max-width: 600px) { .badge { white-space: normal; min-width: 6.2rem; text-align: center; } }
details { margin: 1rem 0; } summary { cursor: pointer; color: var(--link); }
@media print {
  :root { --ink: #000; --soft: #444; --paper: #fff; --raised: #fff; --line: #bbb; --link: #000;
    --good: #12652b; --bad: #a02622; --open: #7a5200; --none: #444; }
  @page { margin: 15mm; }
  html { font-size: 12px; } body { font-size: 1rem; line-height: 1.4; } main { max-width: none; padding: 0; }
  p, ul, ol, figcaption { max-width: none; } h2 { margin-top: 1.5rem; } a { text-decoration: none; }
  h2, h3, .legend { break-after: avoid; } figure, tr, .tiles, .panels > div { break-inside: avoid; }
  .scroll { overflow: visible; } thead { display: table-header-group; }
  .panels { grid-template-columns: repeat(3, 1fr); }
  details::details-content { content-visibility: visible; display: block; }
}
"""
