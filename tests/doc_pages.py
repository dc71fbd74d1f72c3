"""Code blocks of the documentation, and what the tests do with each.

A comment in the line above a block says how it is tested; readers of the page do not see it:

    <!-- test: run -->                          run it; the default for Python
    <!-- test: slow -->                         run it, but only among the slow tests
    <!-- test: parse -->                        only read it: compile Python, parse commands; the default for sh
    <!-- test: run, 500_000 -> 400 -->          run it with one text put in place of another, to make it short
    <!-- test: run, fails -->                   run it; it must end with an error of the user

Blocks of a page run in order, in one empty folder, Python ones in one namespace.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"(?:^<!-- test: (?P<marker>.*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.M)
HERE_DOCUMENT = re.compile(r"<<'EOF'\n(.*?)^EOF$", re.DOTALL | re.M)
Mode = Literal["run", "slow", "parse"]


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    mode: Mode
    fails: bool = False

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def scripts(self) -> list[str]:
        """Return the Python that a shell block hands to an interpreter."""
        return HERE_DOCUMENT.findall(self.text)

    def commands(self) -> list[list[str]]:
        """Return the commands of a shell block as lists of words, without comments and continuations."""
        lines = HERE_DOCUMENT.sub("", self.text).replace("\\\n", " ").splitlines()
        return [words for line in lines if (words := shlex.split(line, comments=True))]


def pages() -> list[Path]:
    """Return every page that is written by hand, the README among them."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page."""
    text = page.read_text()
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("language")) + 1
        yield _block(page, line, found["language"], found["text"], found["marker"])


def _block(page: Path, line: int, language: str, text: str, marker: str | None) -> Block:
    mode: Mode = "run" if language == "python" else "parse"
    fails = False
    for word in [] if marker is None else marker.split(", "):
        if word in ("run", "slow", "parse"):
            mode = word  # type: ignore[assignment]
        elif word == "fails":
            fails = True
        elif " -> " in word:
            old, new = word.split(" -> ")
            assert old in text, f"{page}:{line} has no {old!r} to replace"
            text = text.replace(old, new)
        else:
            raise AssertionError(f"{page}:{line} has an unknown marker {word!r}")
    return Block(page, line, language, text, mode, fails)
