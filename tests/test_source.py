"""The commit that results are traced back to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from revalued import __version__
from revalued.run import provenance as source


@pytest.fixture(autouse=True)
def _ask_anew() -> Iterator[None]:
    source.source_commit.cache_clear()
    yield
    source.source_commit.cache_clear()


def answers(monkeypatch: pytest.MonkeyPatch, **said: str | None) -> None:
    def git(folder: Path, *arguments: str) -> str | None:
        return said[arguments[0].replace("-", "_")]

    monkeypatch.setattr(source, "_git", git)


def test_a_checkout_says_its_commit_and_whether_it_was_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, ls_files="__init__.py", rev_parse="abc", status="")
    assert source.source_commit() == "abc"
    source.source_commit.cache_clear()
    answers(monkeypatch, ls_files="__init__.py", rev_parse="abc", status="M learner.py")
    assert source.source_commit() == "abc with changes"


def test_outside_a_checkout_it_is_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, ls_files=None)
    assert source.source_commit() == f"revalued {__version__}"


def test_without_git_it_is_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert source.source_commit() == f"revalued {__version__}"
