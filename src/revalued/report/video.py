"""Videos of greedy episodes: pictures from the environment, the return so far in the corner, one MP4 file."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revalued.errors import UserError
from revalued.run.files import check_target, replacing

MAX_FRAMES_PER_SECOND = 30
"""A task with more control steps per second is shown every second or third step, at its true speed."""


def check_video(path: Path | None) -> None:
    """Refuse a video that could not be made, before anything is played for it."""
    if path is None:
        return
    check_target(path, ".mp4", "video")
    _ffmpeg()


@contextmanager
def record_video(env: Any, path: Path) -> Iterator[Callable[[float], None]]:
    """Yield a function that adds the environment's present picture, given the return so far.

    The file appears under its name only when it is complete.
    """
    steps_per_second = int(env.metadata.get("render_fps") or 30)
    stride = -(-steps_per_second // MAX_FRAMES_PER_SECOND)
    writer: Generator[None, Any, None] | None = None
    calls = 0

    def watch(total_reward: float) -> None:
        nonlocal writer, calls
        calls += 1
        if (calls - 1) % stride:
            return
        frame = with_caption(_picture(env), f"return {total_reward:.1f}")
        if writer is None:
            size, fps = (frame.shape[1], frame.shape[0]), steps_per_second / stride
            options = {"fps": fps, "macro_block_size": 1, "ffmpeg_log_level": "error"}
            writer = _ffmpeg().write_frames(str(temporary), size, **options)
            writer.send(None)
        writer.send(np.ascontiguousarray(frame))

    with replacing(path) as temporary:
        try:
            yield watch
        finally:
            if writer is not None:
                writer.close()


def with_caption(picture: NDArray[np.uint8], text: str) -> NDArray[np.uint8]:
    """Return the picture with a text in its upper left corner, cut to an even size as the video format demands."""
    image_module, draw_module = importlib.import_module("PIL.Image"), importlib.import_module("PIL.ImageDraw")
    height, width = (length - length % 2 for length in picture.shape[:2])
    image = image_module.fromarray(picture[:height, :width])
    draw = draw_module.Draw(image)
    size = max(12, height // 16)
    # A dark outline keeps the text readable on any background.
    draw.text((size // 3, size // 4), text, fill="white", font_size=size, stroke_width=2, stroke_fill="black")
    return np.asarray(image)


def _picture(env: Any) -> NDArray[np.uint8]:
    try:
        picture = env.render()
    except UserError:
        raise
    except Exception as error:  # most often a missing dependency, and then its message names the cure
        reason = str(error).partition("\n")[0]
        raise UserError(f"the environment cannot be drawn: {type(error).__name__}: {reason}") from error
    if not isinstance(picture, np.ndarray) or picture.ndim != 3 or picture.shape[2] != 3:
        raise UserError("the environment draws no pictures: render() must return an array [height, width, 3]")
    return picture.astype(np.uint8, copy=False)


def _ffmpeg() -> Any:
    for module in ("imageio_ffmpeg", "PIL"):
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise UserError(f"videos need {module}, which is not installed: pip install 'revalued[video]'") from error
    return importlib.import_module("imageio_ffmpeg")
