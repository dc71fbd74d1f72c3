"""The documentation site: builds without a warning, is complete, and loads nothing from elsewhere."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
import subprocess
import sys
import typing
from pathlib import Path
from types import ModuleType

import pytest

import revalued
from doc_pages import DOCS, ROOT
from revalued.cli import _COMMANDS
from revalued.config import TrainConfig
from revalued.ops import losses, targets, utilities


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as a user would."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def generated() -> ModuleType:
    """Load the hook that makes pages from the source."""
    spec = importlib.util.spec_from_file_location("generated_pages", DOCS / "generated_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_there(site: Path, generated: ModuleType) -> None:
    written = {page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md")}
    made = {Path(name).with_suffix(".html") for name in generated.PAGES}
    found = {page.relative_to(site) for page in site.rglob("*.html")}
    assert found == written | made | {Path("404.html")}
    assert not list(site.rglob("generated_pages*"))
    assert (site / "notebooks" / "quick_start.ipynb").is_file()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|img|iframe|link|source)\b[^>]*?(?:src|href)=[\"']?([^\"' >]+)", page.read_text()
        )
        assert loaded
        assert [address for address in loaded if re.match(r"(?:https?:)?//", address)] == [], page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(?:https?:)?//|@import", style.read_text()), style


def test_included_files_are_included(site: Path) -> None:
    assert "Unreleased" in (site / "changelog.html").read_text()
    assert "Reproducibility rules" in (site / "contributing.html").read_text()


def test_every_setting_is_on_its_page(generated: ModuleType) -> None:
    page = generated.settings_page()
    parts = [hint for hint in typing.get_type_hints(TrainConfig).values() if dataclasses.is_dataclass(hint)]
    names = [field.name for part in parts for field in dataclasses.fields(part)]
    assert len(names) > 40
    assert [name for name in names if f"`--{name.replace('_', '-')}`" not in page] == []
    assert "| `--critics` | `10` | Size K of the ensemble. |" in page


def test_the_reference_is_complete(generated: ModuleType) -> None:
    page = generated.reference_page()
    headings = re.findall(r"^### `(\w+)`$", page, re.M)
    assert set(revalued.__all__) <= set(headings)
    assert set(revalued.envs.__all__) <= {
        *headings,
        "BENCHMARK_TASKS",
        "EnvSource",
        "FactoredEnv",
    }  # data, and two types
    for module in (losses, targets, utilities):
        own = {name for name, found in vars(module).items() if getattr(found, "__module__", "") == module.__name__}
        assert own <= set(headings)
    # every method of the agent, and no entry without a word about it
    methods = [name for name in vars(revalued.Agent) if not name.startswith("_")]
    assert [name for name in methods if f".{name}" not in page] == []
    empty = re.findall(r"^### `(\w+)`\n\n(?:```python\n.*?\n```\n\n)?(?=###|\Z)", page, re.M | re.DOTALL)
    assert empty == []


def test_every_command_is_on_some_page() -> None:
    text = "".join(page.read_text() for page in DOCS.rglob("*.md"))
    assert [name for name in _COMMANDS if f"revalued {name}" not in text] == []
