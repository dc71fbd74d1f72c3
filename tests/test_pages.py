"""Self-contained pages: what is escaped, what a page may not contain, and which files are never replaced."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from browser import Browser, needs_browser
from revalued.errors import UserError
from revalued.report import pages
from revalued.report.pages import Html

SVG = (
    '<?xml version="1.0"?><!DOCTYPE svg><svg xmlns="http://www.w3.org/2000/svg" width="80pt" height="40pt" '
    'viewBox="0 0 80 40"><metadata>secret</metadata><defs><clipPath id="c1"><rect width="80" height="40"/></clipPath>'
    '</defs><g id="a" clip-path="url(#c1)"><rect width="60" height="30" fill="#0072b2"/></g><use href="#a"/></svg>'
)


class Nesting(HTMLParser):
    """Checks that every element that is opened is closed, in order."""

    VOID = frozenset({"meta", "br", "img", "hr", "link"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def example() -> str:
    wide = pages.table([f"column {i}" for i in range(20)], [[1000 + i for i in range(20)]] * 3, "wide")
    pictures = [pages.inline_svg(SVG, name) for name in ("one", "x", "y")]
    parts = [
        pages.section("First & foremost", pages.join([pages.paragraph("a < b", "lead"), wide])),
        pages.section("Pictures", pages.join([pages.figure(pictures[0], "one"), pages.panels(pictures[1:], "two")])),
        pages.section("More", pages.folded("open me", pages.bullets(["x", Html("<b>y</b>")]))),
        pages.section("Facts", pages.tiles([("count", 3)])),
    ]
    return pages.page("A <title>", parts, pages.paragraph("hello"))


def test_text_is_escaped_and_markup_is_not() -> None:
    assert pages.paragraph("<script>") == "<p>&lt;script&gt;</p>"
    assert pages.paragraph(Html("<b>x</b>")) == "<p><b>x</b></p>"
    assert pages.join(["a<", Html("<i>")], "") == "a&lt;<i>"
    assert "<td>&lt;b&gt;</td>" in pages.table(["<h>"], [["<b>"]])
    assert '<th scope="col">&lt;h&gt;</th>' in pages.table(["<h>"], [["<b>"]])
    assert "&quot;" in pages.table(["h"], [["x"]], 'said "so"')
    assert 'aria-label="&quot;&lt;"' in pages.inline_svg(SVG, '"<')
    assert "<figure>&lt;<figcaption>a &amp; b</figcaption>" in pages.figure("<", "a & b")
    assert isinstance(pages.badge("x", "good"), Html)


def test_columns_of_numbers_are_aligned_to_the_right() -> None:
    rows = [["walker", "1,234.5 ± 6.7", "–", "3 (1 seed)", "-1.5 to 2.5"], ["dog", "−2", "+4%", "1e-05", "2 of 3"]]
    text = pages.table(["task", "a", "b", "c", "d"], rows)
    assert text.count('<th scope="col" class="number">') == 4
    assert "<td>walker</td>" in text
    assert '<td class="number">1,234.5 ± 6.7</td>' in text
    assert "number" not in pages.table(["a"], [["3 apples"], ["4"]])
    assert "number" not in pages.table(["a"], [])


def test_a_row_of_another_length_is_a_mistake() -> None:
    with pytest.raises(IndexError):
        pages.table(["a", "b"], [["1"]])
    with pytest.raises(ValueError):
        pages.table(["a"], [["1", "2"]])


def test_pictures_have_ids_of_their_own_and_a_label() -> None:
    first, second = pages.inline_svg(SVG, "one"), pages.inline_svg(SVG, "two")
    ids = [set(re.findall(r' id="([^"]+)"', text)) for text in (first, second)]
    assert len(ids[0]) == 2
    assert not ids[0] & ids[1]
    (clip,) = (name for name in ids[0] if name.endswith("c1"))
    assert f"url(#{clip})" in first
    assert 'role="img"' in first
    assert "secret" not in first
    assert first.startswith("<svg")
    with pytest.raises(ValueError, match="no <svg>"):
        pages.inline_svg("<p>", "x")


def test_a_page_is_well_formed_and_needs_nothing_from_elsewhere() -> None:
    text = example()
    checker = Nesting()
    checker.feed(text)
    assert checker.open == []
    assert text.startswith("<!DOCTYPE html>")
    assert "<title>A &lt;title&gt;</title>" in text
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert "<script" not in text
    assert re.findall(r'(?:src|href)="(?!#)', text) == []
    assert "url(http" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text
    for wanted in ("@media print", "prefers-color-scheme: dark", 'lang="en-GB"'):
        assert wanted in text
    assert text.count("<h1>") == 1


def test_contents_list_every_section_where_there_are_many() -> None:
    assert '<li><a href="#first-foremost">First &amp; foremost</a></li>' in example()
    assert '<section id="first-foremost">' in example()
    assert "<nav" not in pages.page("t", [pages.section("only one", "x")])
    assert '<section id="own">' in pages.page("t", [pages.section("only one", "x", "own")])


def test_only_own_pages_are_replaced(tmp_path: Path) -> None:
    path, mark = tmp_path / "new" / "page.html", pages.generator_tag()
    pages.write_own(path, pages.page("one", []), mark)
    pages.write_own(path, pages.page("two", []), mark)
    assert "<h1>two</h1>" in path.read_text()
    assert [entry.name for entry in path.parent.iterdir()] == ["page.html"]
    foreign = tmp_path / "foreign.html"
    foreign.write_text("mine")
    with pytest.raises(UserError, match="exists and was not written by this command"):
        pages.write_own(foreign, pages.page("x", []), mark)
    with pytest.raises(UserError, match="exists"):
        pages.write_own(path, "x", pages.generator_tag("something else"))
    assert foreign.read_text() == "mine"
    pages.write_own(foreign, pages.page("x", []), mark, force=True)
    assert "<h1>x</h1>" in foreign.read_text()
    with pytest.raises(UserError, match="is a folder"):
        pages.write_own(tmp_path, "x", mark, force=True)


@needs_browser
def test_a_page_fits_phone_and_desk_in_a_browser(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(example(), encoding="utf-8")
    with Browser() as browser:
        for width in (390, 1280):
            browser.open(path, width)
            assert browser.evaluate("innerWidth") == width
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
            sizes = browser.evaluate(
                "Array.from(document.querySelectorAll('svg'), svg => svg.getBoundingClientRect())"
                ".map(box => [box.width, box.height])"
            )
            assert len(sizes) == 3
            assert all(min(size) > 10 for size in sizes)
            # the wide table is not cut off: its box scrolls
            assert browser.evaluate("document.querySelector('.scroll').scrollWidth > innerWidth")
        light = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        browser.open(path, 1280, dark=True)
        assert browser.evaluate("getComputedStyle(document.body).backgroundColor") != light
