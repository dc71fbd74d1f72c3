"""The page about a run: complete for every algorithm, self-contained, and never in the place of something else."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gym_envs import Kitchen
from revalued.errors import UserError
from revalued.report.inspection import page
from revalued.report.inspection.episode_panels import discounted_to_go, groups_of, short
from revalued.report.inspection.page import inspect_run
from revalued.report.inspection.run_panels import curves
from revalued.run.load import load_run
from revalued.run.save import save_policy
from revalued.run.start import evaluate, start
from run_helpers import checkpoints_in, evolve, quick_config, train, truncate

HEADINGS = ["Learning", "The episode", "Utilities along the episode", "Choices", "Replay", "Configuration"]


class Outline(HTMLParser):
    """Collects headings, descriptions of pictures, and everything that a browser would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.pictures: list[str] = []
        self.sources: list[str] = []
        self._in_heading = False
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self._in_heading = tag == "h2"
        if tag == "svg":
            self.pictures.append(found["aria-label"] or "")
        self.sources += [found[name] or "" for name in ("src", "xlink:href", "data") if name in found]
        assert tag not in ("script", "link", "iframe")

    def handle_data(self, data: str) -> None:
        if self._in_heading:
            self.headings.append(data)
            self._in_heading = False


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the pictures empty, for tests that do not look at them: each takes a tenth of a second to draw."""
    monkeypatch.setattr(page, "panel_svg", lambda panel: "<svg></svg>")


def outline(path: Path) -> Outline:
    found = Outline(path.read_text())
    assert found.headings == HEADINGS
    assert all(source.startswith(("data:", "#")) for source in found.sources)
    return found


@pytest.mark.parametrize(
    ("task", "algo"),
    [
        ("toy-masked", "revalued"),
        pytest.param("toy-levers", "bdq", marks=pytest.mark.slow),
        pytest.param("toy-masked", "dqn", marks=pytest.mark.slow),
    ],
)
def test_every_picture_is_there(task: str, algo: str, tmp_path: Path) -> None:
    run = train(quick_config(task, algo), tmp_path / "run")
    out = inspect_run(run, video=False)
    assert out == run / "inspect.html"
    pictures = outline(out).pictures
    dimensions = 3
    assert len([text for text in pictures if text.startswith("utilities of")]) == dimensions
    for text in ("learning curve", "gradient norm", "mean q-value", "loss", "Q-values", "how often", "priorities"):
        assert any(text in picture for picture in pictures), text
    has_several = algo == "revalued"
    assert any("agreement" in picture for picture in pictures) == has_several
    text = out.read_text()
    assert ("illegal" in text) == (task == "toy-masked")
    assert ("best one that contains the choice" in text) == (algo == "dqn")
    assert "No video" not in text


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["decqn-c51", "decqn-sum-ensemble", "bdq-ensemble"])
@pytest.mark.parametrize("task", ["toy-levers", "toy-masked", "gym:Pendulum-v1"])
def test_other_algorithms_and_tasks(task: str, algo: str, tmp_path: Path) -> None:
    changes = {"value_min": -100.0, "value_max": 10.0} if algo == "decqn-c51" else {}
    run = train(evolve(quick_config(task, algo, **changes), bins=7), tmp_path / "run")
    assert outline(inspect_run(run, video=False)).pictures


@pytest.mark.slow
def test_the_same_run_gives_the_same_page(tmp_path: Path) -> None:
    run = train(quick_config("toy-levers"), tmp_path / "run")
    first = inspect_run(run, tmp_path / "one.html", video=False).read_text()
    assert inspect_run(run, tmp_path / "two.html", video=False).read_text() == first


@pytest.mark.usefixtures("undrawn")
def test_several_episodes_and_no_video(tmp_path: Path) -> None:
    run = train(quick_config("toy-levers"), tmp_path / "run")
    first = inspect_run(run, episodes=2).read_text()
    assert "No video: toy-levers has no pictures." in first
    (table,) = re.findall(r"All episodes.*?</table>", first, re.DOTALL)
    assert table.count("<tr>") == 3
    returns = [f"{episode.total_reward:,.1f}" for episode in evaluate(run, 2, 0)]
    assert all(f">{value}</td>" in table for value in returns)


@pytest.mark.usefixtures("undrawn")
def test_the_video_is_in_the_page_or_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("imageio_ffmpeg")

    def kitchen() -> Kitchen:
        return Kitchen("rgb_array")

    path, _ = start(quick_config("custom:kitchen"), tmp_path / "run", env=kitchen)
    with pytest.raises(UserError, match="as env="):
        inspect_run(path)
    out = inspect_run(path, tmp_path / "page.html", env=kitchen)
    (data,) = [source for source in outline(out).sources if source.startswith("data:video/mp4;base64,")]
    assert base64.b64decode(data.partition(",")[2])[4:8] == b"ftyp"
    monkeypatch.setattr(page, "LARGEST_EMBEDDED_VIDEO", 10)
    inspect_run(path, tmp_path / "page.html", env=kitchen)
    assert (tmp_path / "page.mp4").read_bytes()[4:8] == b"ftyp"
    assert '<a href="page.mp4">' in out.read_text()
    assert not any(source.startswith("data:video") for source in outline(out).sources)
    (tmp_path / "other.mp4").write_text("precious")
    with pytest.raises(UserError, match=r"other.mp4 exists"):
        inspect_run(path, tmp_path / "other.html", env=kitchen)
    assert (tmp_path / "other.mp4").read_text() == "precious"


@pytest.mark.usefixtures("undrawn")
def test_a_policy_saved_without_replay_still_has_a_page(tmp_path: Path) -> None:
    run = train(quick_config("toy-levers"), tmp_path / "run")
    saved = load_run(run)
    config, policy = saved.config, saved.policy
    save_policy(tmp_path / "saved", config, saved.task, policy, updates=50, env_steps=350, epsilon=0.5)
    text = inspect_run(tmp_path / "saved", video=False).read_text()
    assert "holds no transitions" in text
    assert "no rows in eval.csv" in text


@pytest.mark.usefixtures("undrawn")
def test_other_files_are_left_alone(tmp_path: Path) -> None:
    run = train(quick_config("toy-levers"), tmp_path / "run")
    out = tmp_path / "page.html"
    out.write_text("precious")
    with pytest.raises(UserError, match="--force"):
        inspect_run(run, out, video=False)
    assert out.read_text() == "precious"
    inspect_run(run, out, video=False, force=True)
    inspect_run(run, out, video=False)  # an earlier page may go


def test_folders_that_cannot_be_inspected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run folder"):
        inspect_run(tmp_path)
    run = train(quick_config("toy-levers"), tmp_path / "run")
    with pytest.raises(UserError, match="episodes = -1"):
        inspect_run(run, episodes=-1)
    for checkpoint in checkpoints_in(run):
        truncate(checkpoint)
    warnings: list[str] = []
    with pytest.raises(UserError, match="all are damaged"):
        inspect_run(run, warn=warnings.append)
    assert "learner.safetensors is missing or differs" in warnings[0]
    for checkpoint in checkpoints_in(run):
        checkpoint.rename(tmp_path / checkpoint.name)
    with pytest.raises(UserError, match="no checkpoint yet"):
        inspect_run(run)


def test_small_helpers_by_hand() -> None:
    np.testing.assert_allclose(discounted_to_go(np.array([1.0, 0.0, 4.0]), 0.5), [2.0, 2.0, 4.0])
    assert groups_of(3) == [range(3)]
    assert groups_of(38) == [range(13), range(13, 26), range(26, 38)]
    assert [short(value) for value in (-1.0, 0.5, 1 / 3, 12)] == ["−1", "0.5", "0.333", "12"]
    rows: list[dict[str, Any]] = [
        {"env_steps": "5", "loss": "1.5", "regulariser": ""},
        {"env_steps": "9", "loss": "", "regulariser": ""},
        {"env_steps": "12", "loss": "0.5", "regulariser": ""},
    ]
    assert curves(rows, ["loss", "regulariser", "unknown"]) == {"loss": ([5.0, 12.0], [1.5, 0.5])}


@pytest.mark.usefixtures("undrawn")
def test_the_examples_of_the_documentation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (Path(__file__).parents[1] / "docs" / "inspect.md").read_text()
    a_page, numbers = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    train(quick_config("toy-levers"), tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    exec(a_page, {})
    outline(tmp_path / "page.html")
    exec(numbers, {})
    steps = 10
    assert capsys.readouterr().out == f"({steps}, 3, 5)\n({steps}, 3, 5)\n({steps}, 2)\n({steps}, 3)\n"
