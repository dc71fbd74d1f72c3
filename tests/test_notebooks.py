"""The notebooks are those of their pages, and run from beginning to end."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
PAGES = sorted(FOLDER.glob("*.md"))
LARGEST_BYTES = 200_000


def make() -> ModuleType:
    """Load the script that writes the notebooks."""
    spec = importlib.util.spec_from_file_location("make_notebooks", FOLDER / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sources(notebook: Any) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def test_there_are_notebooks() -> None:
    assert [page.stem for page in PAGES] == ["looking_inside_an_ensemble", "quick_start"]
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == [page.stem for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_is_that_of_its_page(page: Path) -> None:
    committed: Any = nbformat.read(page.with_suffix(".ipynb"), as_version=4)  # type: ignore[no-untyped-call]
    assert sources(committed) == sources(make().from_page(page))
    assert any(cell.cell_type == "code" and cell.outputs for cell in committed.cells)
    text = page.with_suffix(".ipynb").read_text()
    assert len(text) < LARGEST_BYTES
    assert "/home/" not in text
    assert "/tmp/" not in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    notebook = make().execute(make().from_page(page), tmp_path)
    printed = "".join(
        output["text"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.get("name") == "stdout"
    )
    promised = {
        "quick_start": "returns of five unseen episodes: [10. 10. 10. 10. 10.]",
        "looking_inside_an_ensemble": "levers in their right places, by colour: [1. 1. 1. 1.]",
    }
    assert promised[page.stem] in printed
    if page.stem == "quick_start":
        assert printed.rstrip().endswith("True")  # same seed, same bits
    else:  # the page says so of both pairs
        before, after, known, strange = (float(text) for text in re.findall(r"of values ([0-9.]+)", printed))
        assert after < before / 3
        assert strange > known * 2
