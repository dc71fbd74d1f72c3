"""The house: which rooms there are, which may know which, and that the README shows a stranger the way."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import revalued

SOURCE = Path(revalued.__file__).parent
README = Path(__file__).parents[1] / "README.md"

# From the ground up: a room may use those above it in this list, never those below. Rooms on one line do not know each
# other either.
STOREYS = (
    ("errors",),
    ("actions", "config", "seeding"),
    ("ops", "envs"),
    ("networks",),
    ("algorithms",),
    ("native", "settings", "validation"),
    ("replay", "acting"),
    ("learner",),
    ("training",),
    ("run",),
    ("experiments", "export", "report"),
    ("compare",),
    ("agent",),
    ("cli",),
)
STOREY = {room: number for number, rooms in enumerate(STOREYS) for room in rooms}
EXCEPTIONS = {
    ("report", "experiments"): "the report names every experiment of the catalogue, run or not",
}
FORBIDDEN_PACKAGES = {
    "ops": ("numpy", "ctypes"),
    "envs": ("torch",),
    "replay": ("torch", "ctypes"),
    "report": ("ray",),
}


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """Yield the dotted names of everything that a file imports, wherever in the file; not what only types need."""
    tree = ast.parse(path.read_text())
    for_types = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for part in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


FILES = [path for path in sorted(SOURCE.rglob("*.py")) if not room_of(path).startswith("__")]


def test_every_room_has_its_storey() -> None:
    assert {room_of(path) for path in FILES} == set(STOREY)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_follow_the_arrows(path: Path) -> None:
    here = room_of(path)
    for name in imports(path):
        package, _, rest = name.partition(".")
        assert package not in FORBIDDEN_PACKAGES.get(here, ()), f"{here} imports {name}"
        there = rest.partition(".")[0]
        if package != "revalued" or there in (here, "__version__", ""):
            continue
        if there not in STOREY:  # a public name of the package itself, found when it is asked for
            continue
        assert STOREY[there] < STOREY[here] or (here, there) in EXCEPTIONS, f"{here} must not know {there} ({name})"


def test_the_exceptions_are_needed() -> None:
    found = {
        (room_of(path), name.split(".")[1]) for path in FILES for name in imports(path) if name.startswith("revalued.")
    }
    assert set(EXCEPTIONS) <= found


def test_the_hall_is_small() -> None:
    assert len([path for path in SOURCE.glob("*.py") if not path.name.startswith("__")]) <= 8


def test_no_two_classes_share_a_name() -> None:
    names = Counter(
        node.name for path in FILES for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_the_readme_has_a_line_for_every_room() -> None:
    section = README.read_text().partition("## Where things are")[2].partition("\n## ")[0]
    rooms = re.findall(r"^\| ((?:`[a-z]+(?:\.py|/)`(?:, )?)+) \|", section, re.MULTILINE)
    named = [name for row in rooms for name in re.findall(r"`([a-z]+)(?:\.py|/)`", row)]
    assert sorted(named) == sorted(STOREY)
