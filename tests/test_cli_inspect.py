"""`revalued inspect` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from revalued.cli.inspect import inspect
from revalued.envs import LaneError
from revalued.errors import UserError
from revalued.run.start import start
from run_helpers import quick_config, train


def test_it_says_where_the_page_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("revalued.report.inspection.page.panel_svg", lambda panel: "<svg></svg>")
    run = train(quick_config("toy-levers", "decqn"), tmp_path / "run")
    for flag in ("-o", "--output"):
        out = tmp_path / f"page{flag}.html"
        assert inspect([str(run), flag, str(out), "--no-video", "--episodes", "1", "--seed", "3"]) == 0
        assert capsys.readouterr().out == f"page: {out}\n"
        assert "test episode of seed 3" in out.read_text()

    def fail(*given: object, **options: object) -> None:
        raise LaneError("test episode with seed 3, step 4: it broke", step=4)

    monkeypatch.setattr("revalued.report.inspection.page.inspect_run", fail)
    assert inspect([str(run)]) == 1
    assert capsys.readouterr().err == "revalued: test episode with seed 3, step 4: it broke\n"


def test_mistakes_get_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run folder"):
        inspect([str(tmp_path)])
    with pytest.raises(UserError, match=r"unknown flag .--episode.: did you mean --episodes"):
        inspect([str(tmp_path), "--episode", "2"])
    from gym_envs import Kitchen

    path, _ = start(quick_config("custom:kitchen"), tmp_path / "run", env=Kitchen)
    with pytest.raises(UserError, match="an environment of your own: hand it over from Python, as env="):
        inspect([str(path)])
