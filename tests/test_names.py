"""Names that tell apart: no two classes of the package are called the same."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import revalued

PACKAGE = Path(revalued.__file__).parent


def test_every_class_has_a_name_of_its_own() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(file.relative_to(PACKAGE)))
    assert len(places) > 100
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
