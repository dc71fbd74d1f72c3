"""Every code block of the documentation is run or checked; `doc_pages` says how a block is marked."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tyro

from doc_pages import DOCS, ROOT, Block, blocks, pages
from revalued.algorithms import decompositions
from revalued.algorithms.presets import PRESETS
from revalued.cli import main
from revalued.errors import UserError
from revalued.validation import validate

PAGES = pages()
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
TEXTS = ("text", "csv", "toml", "yaml")
# These need a run to begin with, or a kernel, and are run by tests of their own.
ELSEWHERE = {
    "docs/export.md": "test_export_runs.py",
    "docs/inspect.md": "test_inspection_page.py",
    "docs/notebooks/looking_inside_an_ensemble.md": "test_notebooks.py",
    "docs/notebooks/quick_start.md": "test_notebooks.py",
    "docs/python.md": "test_docs_python.py",
}
# What a page says that the reader will see, in all of its blocks or in the quick ones.
PROMISED_SLOWLY = {"docs/index.md": "mean return 10.00 ± 0.00"}
PROMISED = {
    "docs/faq.md": "\n500\n",
    "docs/reproducibility.md": "True\n",
}
OTHER_COMMANDS = ("cd", "export", "git", "mkdocs", "ray", "tensorboard", "wandb")


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


class Parsed(BaseException):
    """Ends a command as soon as its arguments are understood."""


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(decompositions, "_REGISTERED", {})
    # as conftest.py has it, for runs that do not say how many threads they want
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0})


@pytest.fixture
def parse_only() -> Callable[[list[str]], None]:
    """Return a function that reads a command line as `revalued` does, and stops there."""
    understand = tyro.cli

    def stop(kind: Any, **options: Any) -> Any:
        parsed, unknown = understand(kind, **options)
        if kind.__name__.startswith("_"):  # a part of a command line
            return parsed, unknown
        assert unknown == []
        if hasattr(parsed, "config"):
            validate(parsed.config)
        raise Parsed

    def parse(arguments: list[str]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("revalued.cli.parsing.tyro.cli", stop)
            try:
                code = main(arguments)
            except Parsed:
                code = 0
            except SystemExit as ending:  # --help
                code = 0 if ending.code == 0 else 1
        assert code == 0, f"revalued {' '.join(arguments)}"

    return parse


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_block_can_be_read(page: Path, parse_only: Callable[[list[str]], None]) -> None:
    for block in blocks(page):
        if block.language == "python":
            compile(block.text, block.where, "exec")
        elif block.language == "sh":
            for script in block.scripts():
                compile(script, block.where, "exec")
            for words in block.commands():
                check_command(block, words, parse_only)
        elif block.language == "json":
            json.loads(block.text)
        else:
            assert block.language in TEXTS, f"{block.where} does not say what language it is in"


def check_command(block: Block, words: list[str], parse_only: Callable[[list[str]], None]) -> None:
    """A command of ours is understood, a make target and an extra exist, anything else is known to us."""
    program, *arguments = words
    program = program.removeprefix(".venv/bin/")
    if program == "revalued":
        try:
            parse_only(arguments)
        except AssertionError:
            raise AssertionError(f"{block.where}: {' '.join(words)}") from None
    elif program == "make":
        assert set(arguments) <= TARGETS, f"{block.where}: make has no target {arguments}"
    elif program == "pip":
        asked = re.findall(r"\[(.*?)\]", " ".join(arguments))
        assert {extra for extras in asked for extra in extras.split(",")} <= EXTRAS, block.where
    elif program == "python":
        module = arguments[1] if arguments[0] == "-m" else arguments[0]
        assert module in ("-", "build", "venv", "pytest") or list(ROOT.glob(f"{module.replace('.', '/')}*")), (
            block.where
        )
    else:
        assert program in OTHER_COMMANDS, f"{block.where}: what is {program}?"


def run_blocks(page: Path, modes: tuple[str, ...]) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.mode not in modes:
            continue
        if block.language == "python" and block.fails:
            with pytest.raises(UserError):
                exec(compile(block.text, block.where, "exec"), names)
        elif block.language == "python":
            exec(compile(block.text, block.where, "exec"), names)
        elif block.language == "sh":
            for program, *arguments in block.commands():
                if program == "revalued":
                    assert main(arguments) == (2 if block.fails else 0), block.where


def has(page: Path, *modes: str) -> bool:
    found = any(block.mode in modes and block.language in ("python", "sh") for block in blocks(page))
    return found and named(page) not in ELSEWHERE


@pytest.mark.parametrize("page", [page for page in PAGES if has(page, "run")], ids=named)
def test_blocks_run(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_blocks(page, ("run",))
    assert PROMISED.get(named(page), "") in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if has(page, "slow")], ids=named)
def test_slow_blocks_run(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_blocks(page, ("run", "slow"))
    assert PROMISED_SLOWLY.get(named(page), "") in capsys.readouterr().out


@pytest.mark.parametrize(("page", "test"), ELSEWHERE.items())
def test_the_other_pages_are_run_elsewhere(page: str, test: str) -> None:
    assert Path(page).stem in (ROOT / "tests" / test).read_text()


def test_every_picture_that_a_page_shows_is_there() -> None:
    """The report draws more of them; `test_report_blocks` keeps all together small."""
    shown = {
        (page.parent / link).resolve()
        for page in PAGES
        for link in re.findall(r"!\[[^\]]*\]\((\S+)\)", page.read_text())
    }
    assert shown
    assert {path for path in shown if not path.is_file()} == set()
    if (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "results/figures"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.split()
        assert {ROOT / name for name in listed} - shown == set()  # what no page shows is drawn on demand


def test_your_own_environment_has_at_most_twenty_lines() -> None:
    own = next(block for block in blocks(DOCS / "environments.md") if block.language == "python")
    assert len([line for line in own.text.splitlines() if line.strip()]) <= 20


def test_a_decomposition_has_at_most_thirty_lines() -> None:
    own = next(block for block in blocks(DOCS / "extend.md") if block.language == "python")
    assert "register_decomposition" in own.text
    assert len([line for line in own.text.splitlines() if line.strip()]) <= 30


@pytest.mark.parametrize("algo", PRESETS)
def test_every_algorithm_has_its_command_on_a_page(algo: str) -> None:
    page = DOCS / "algorithms" / f"{algo}.md"
    if not page.exists():  # ensembles share the page of their algorithm
        page = DOCS / "algorithms" / f"{algo.removesuffix('-ensemble')}.md"
    commands = [words for block in blocks(page) if block.language == "sh" for words in block.commands()]
    trained = {words[words.index("--algo") + 1] if "--algo" in words else "revalued" for words in commands}
    assert algo in trained
