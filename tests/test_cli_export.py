"""`revalued export` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from revalued.cli.export import export
from revalued.errors import UserError
from run_helpers import quick_config, train


def test_it_says_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train(quick_config("toy-levers", "decqn"), tmp_path / "run")
    out = tmp_path / "policy.onnx"
    assert export([str(run), str(out)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{out}: decqn on toy-levers after 350 interactions")
    before = out.read_bytes()
    with pytest.raises(UserError, match="--force"):
        export([str(run), str(out)])
    assert export([str(run), str(out), "--force"]) == 0
    assert out.read_bytes() == before  # nothing in it depends on when it was written


def test_mistakes_get_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run folder"):
        export([str(tmp_path), str(tmp_path / "policy.onnx")])
    with pytest.raises(UserError, match=r"unknown flag .--forse.: did you mean --force"):
        export([str(tmp_path), "policy.onnx", "--forse"])
    with pytest.raises(UserError, match="revalued export --help"):
        export([str(tmp_path)])
