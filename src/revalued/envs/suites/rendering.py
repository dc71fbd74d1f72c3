"""Pictures of MuJoCo simulations without a display: through EGL or OSMesa, whichever works here."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from functools import lru_cache
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from revalued.errors import UserError

WIDTH, HEIGHT = 320, 240
"""Size of a picture in pixels, unless asked otherwise."""

_BACKENDS = ("egl", "osmesa")
_PROBE = "from mujoco.{0} import GLContext; context = GLContext(8, 8); context.make_current(); context.free()"


@lru_cache(maxsize=1)
def headless_backend() -> str:
    """Return how to draw here: `MUJOCO_GL` where it names a backend that works, else the first of EGL and OSMesa."""
    wanted = os.environ.get("MUJOCO_GL", "").lower()
    for backend in sorted(_BACKENDS, key=lambda name: name != wanted):
        # In a process of its own: a backend that was only tried still keeps others from working.
        tried = subprocess.run([sys.executable, "-c", _PROBE.format(backend)], capture_output=True)
        if tried.returncode == 0:
            return backend
    raise UserError(
        "nothing can be drawn here, neither EGL nor OSMesa works: install one of them (on Debian and Ubuntu "
        "'apt-get install libegl1' or 'apt-get install libosmesa6', without root 'conda install mesalib')"
    )


class Camera:
    """Takes pictures of one MuJoCo model, independently of what `MUJOCO_GL` was when MuJoCo was imported."""

    def __init__(self, model: Any, camera: str | int, width: int = WIDTH, height: int = HEIGHT) -> None:
        backend = headless_backend()
        mujoco: Any = importlib.import_module("mujoco")
        # MuJoCo chooses its backend once, while it is imported, and training imports it without any.
        mujoco.gl_context.GLContext = importlib.import_module(f"mujoco.{backend}").GLContext
        # A model may ask for a smaller buffer than the picture.
        model.vis.global_.offwidth = max(model.vis.global_.offwidth, width)
        model.vis.global_.offheight = max(model.vis.global_.offheight, height)
        self._renderer = mujoco.Renderer(model, height, width)
        self._camera = camera

    def picture(self, data: Any) -> NDArray[np.uint8]:
        """Return what the camera sees, [height, width, 3]."""
        self._renderer.update_scene(data, self._camera)
        pixels: NDArray[np.uint8] = self._renderer.render()
        return pixels

    def close(self) -> None:
        """Free the renderer."""
        self._renderer.close()


class MuJoCoEnv(gymnasium.Env[Any, Any]):
    """What the environments of all MuJoCo suites share: a simulation, pictures of it, and the seeds of its episodes."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012 - as in the base class
    _simulation: Any
    _camera: Camera | None = None

    def __init__(self, render_mode: str | None) -> None:
        os.environ.setdefault("MUJOCO_GL", "disabled")  # nothing is to look for a display
        modes = self.metadata["render_modes"]
        if render_mode is not None and render_mode not in modes:
            raise UserError(f"render_mode {render_mode!r} is not possible: it must be one of {modes}")
        self.render_mode = render_mode

    def close(self) -> None:
        """Free the simulator."""
        self._free_camera()
        self._simulation.close()

    def _episode_seed(self, seed: int | None) -> int:
        """Return the seed of a new episode; without one, the next of the sequence the last seed began."""
        super().reset(seed=seed)
        return int(self.np_random.integers(2**32)) if seed is None else seed

    def _picture(self, model: Any, data: Any, camera: str | int) -> NDArray[np.uint8]:
        if self._camera is None:
            self._camera = Camera(model, camera)
        return self._camera.picture(data)

    def _free_camera(self) -> None:
        if self._camera is not None:
            self._camera.close()
            self._camera = None
