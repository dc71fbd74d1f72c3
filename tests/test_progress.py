"""What a person sees of a run."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from revalued.run.progress import LiveBar, PlainLines, Silent, Status, format_duration, make_progress, status_line

STATUS = Status(
    env_steps=25_000,
    total_env_steps=100_000,
    updates=4_000,
    env_steps_per_second=1_000.0,
    last_return=12.34,
    best_return=56.78,
)
BEFORE_ANYTHING = Status(0, 100_000, 0, 0.0, None, None)


def test_one_line() -> None:
    line = "25,000/100,000 interactions · 4,000 updates · 1,000 interactions/s · 1:15 left · return 12.3 · best 56.8"
    assert status_line(STATUS) == line
    assert status_line(BEFORE_ANYTHING) == "0/100,000 interactions · 0 updates · 0 interactions/s"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (75, "1:15"), (4_000, "1:06:40"), (360_000, "100:00:00")]
)
def test_durations(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_plain_lines_wait_their_turn(capsys: pytest.CaptureFixture[str]) -> None:
    patient, impatient = PlainLines(seconds_between_lines=1e9), PlainLines(seconds_between_lines=0)
    patient.update(STATUS)
    assert capsys.readouterr() == ("", "")
    impatient.update(STATUS)
    patient.evaluated(STATUS)
    patient.say("news")
    patient.close()
    assert capsys.readouterr() == ("", f"{status_line(STATUS)}\n{status_line(STATUS)}\nnews\n")


def test_silence_but_for_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    view = Silent()
    view.update(STATUS)
    view.evaluated(STATUS)
    view.say("news")
    view.say("warning: a checkpoint is damaged")
    view.close()
    assert capsys.readouterr() == ("", "warning: a checkpoint is damaged\n")


def test_the_live_bar() -> None:
    screen = io.StringIO()
    view = LiveBar(Console(file=screen, force_terminal=True, width=140, color_system=None))
    view.update(BEFORE_ANYTHING)
    view.say("[old] news")
    view.evaluated(STATUS)
    view.close()
    view.close()  # the run and the command line both tidy up
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    assert "[old] news" in text
    assert re.search(r"25000/100000 1,000/s · return 12\.3 · best 56\.8", text)


def test_the_view_fits_where_the_output_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(make_progress(quiet=True), Silent)
    assert isinstance(make_progress(quiet=False), PlainLines)
    monkeypatch.setenv("FORCE_COLOR", "1")  # how rich is told that this is a terminal
    view = make_progress(quiet=False)
    view.close()
    assert isinstance(view, LiveBar)
