"""Videos of a policy: complete files with the return in the corner, or one line that says what is missing."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gym_envs import Kitchen
from revalued.envs import TaskSpec, make_env
from revalued.envs.suites.rendering import headless_backend
from revalued.errors import UserError
from revalued.report.video import check_video, record_video, with_caption
from revalued.run.start import evaluate, start
from run_helpers import call, quick_config
from test_registered import can_draw

imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")


def frames_of(path: Path) -> np.ndarray:
    """Return all frames [F, height, width, 3], read by ffmpeg itself."""
    reader = imageio_ffmpeg.read_frames(str(path))
    width, height = next(reader)["size"]
    reader.close()
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", path, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, height, width, 3)


class Projector:
    """Stands in for an environment whose pictures are known."""

    def __init__(self, pictures: list[Any], fps: int) -> None:
        self.metadata, self._pictures = {"render_fps": fps}, iter(pictures)

    def render(self) -> Any:
        return next(self._pictures)


def grey(level: int, shape: tuple[int, ...] = (64, 96, 3)) -> np.ndarray:
    return np.full(shape, level, np.uint8)


def test_a_film_shows_every_picture_in_order(tmp_path: Path) -> None:
    levels = [20 * number for number in range(10)]
    with record_video(Projector([grey(level) for level in levels], fps=10), tmp_path / "video.mp4") as watch:
        for number in range(10):
            watch(float(number))
    frames = frames_of(tmp_path / "video.mp4")
    assert frames.shape == (10, 64, 96, 3)
    # a lossy format: the lower right corner, where no text is
    assert np.abs(frames[:, 40:, 60:].mean(axis=(1, 2, 3)) - levels).max() < 6
    assert [path.name for path in tmp_path.iterdir()] == ["video.mp4"]


def test_a_fast_simulation_is_shown_at_its_true_speed(tmp_path: Path) -> None:
    with record_video(Projector([grey(0)] * 80, fps=80), tmp_path / "video.mp4") as watch:
        for number in range(80):
            watch(float(number))
    reader = imageio_ffmpeg.read_frames(str(tmp_path / "video.mp4"))
    meta = next(reader)
    assert meta["fps"] == pytest.approx(80 / 3, abs=0.01)
    assert meta["duration"] == pytest.approx(1.0, abs=0.06)
    reader.close()


def test_the_caption_is_in_the_corner_and_readable_on_any_background() -> None:
    for level in (0, 255):
        picture = with_caption(grey(level, (241, 321, 3)), "return 12.3")
        assert picture.shape == (240, 320, 3)  # the format knows even sizes only
        changed = np.argwhere((picture != level).any(axis=2))
        assert len(changed) > 50
        assert changed.max(axis=0)[0] < 60
        assert {0, 255} <= set(np.unique(picture))
    assert not np.array_equal(with_caption(grey(0), "return 1.0"), with_caption(grey(0), "return 2.0"))


def test_a_film_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    env = Projector([grey(0)], fps=10)

    def interrupted() -> None:
        with record_video(env, tmp_path / "video.mp4") as watch:
            watch(0.0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_an_environment_without_pictures_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(UserError, match="draws no pictures"),
        record_video(Projector([None], 10), tmp_path / "f.mp4") as watch,
    ):
        watch(0.0)


@pytest.mark.parametrize(
    ("name", "message"),
    [("walk.gif", "must be an .mp4 file"), ("nowhere/walk.mp4", "there is no folder"), ("", "must be an .mp4 file")],
)
def test_a_film_that_cannot_be_written_is_refused_at_once(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        check_video(tmp_path / name)


def test_a_missing_extra_is_answered_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(UserError, match=r"pip install 'revalued\[video\]'"):
        check_video(tmp_path / "walk.mp4")


def test_a_machine_that_cannot_draw_names_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def fail(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        tried.append(command[-1])
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(subprocess, "run", fail)
    headless_backend.cache_clear()
    with pytest.raises(UserError, match=r"libegl1.*libosmesa6"):
        headless_backend()
    assert len(tried) == 2
    assert "mujoco.egl" in tried[0]
    assert "mujoco.osmesa" in tried[1]
    headless_backend.cache_clear()


def test_evaluate_films_an_environment_of_ones_own(tmp_path: Path) -> None:
    path, _ = start(quick_config("custom:kitchen"), tmp_path / "run", env=Kitchen)
    video = tmp_path / "kitchen.mp4"
    episodes = list(evaluate(path, 2, 0, env=lambda: Kitchen("rgb_array"), video=partial(record_video, path=video)))
    frames = frames_of(video)
    assert frames.shape == (sum(episode.length + 1 for episode in episodes), 30, 40, 3)
    with pytest.raises(UserError, match="must be made with render_mode='rgb_array'"):
        list(evaluate(path, 1, 0, env=Kitchen, video=partial(record_video, path=tmp_path / "other.mp4")))
    assert not (tmp_path / "other.mp4").exists()


def test_a_simulation_can_be_filmed(tmp_path: Path) -> None:
    if not can_draw():
        pytest.skip("neither EGL nor OSMesa works here")
    env = make_env(TaskSpec("walker-walk"), "rgb_array")
    env.reset(seed=0)
    with record_video(env, tmp_path / "walk.mp4") as watch:
        for step in range(20):
            watch(float(step))
            env.step(np.full(6, 2))
    env.close()
    frames = frames_of(tmp_path / "walk.mp4")
    assert frames.shape == (10, 240, 320, 3)  # 40 steps a second, every second one shown
    assert frames[0].std() > 5
    assert np.abs(frames[-1].astype(int) - frames[0]).mean() > 0.5  # something moves


@pytest.mark.slow
def test_the_command_films_a_simulation_and_the_film_changes_no_return(tmp_path: Path) -> None:
    if not can_draw():
        pytest.skip("neither EGL nor OSMesa works here")
    path, _ = start(quick_config("fish-upright", num_envs=2, eval_every=1000), tmp_path / "run")
    filmed = call("evaluate", path, "--episodes", "1", "--video", tmp_path / "fish.mp4")
    assert filmed.returncode == 0, filmed.stderr
    assert filmed.stdout.endswith(f"video: {tmp_path / 'fish.mp4'}\n")
    assert filmed.stdout.startswith(call("evaluate", path, "--episodes", "1").stdout)
    frames = frames_of(tmp_path / "fish.mp4")
    assert len(frames) > 300
    assert frames[0].std() > 5
    assert np.abs(frames[-1].astype(int) - frames[0]).mean() > 0.5  # something moves


def test_the_command_refuses_a_film_of_a_toy(tmp_path: Path) -> None:
    path, _ = start(quick_config("toy-levers"), tmp_path / "run")
    refused = call("evaluate", path, "--video", tmp_path / "levers.mp4")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "revalued: toy-levers has no pictures\n"
