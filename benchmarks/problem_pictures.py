"""Pictures of the problems themselves, where they can be drawn: `python -m benchmarks.problem_pictures`,
or with some of their names.

They need the packages of the problems (`make problems`) and come out the same every time: an episode's first state.
"""

from __future__ import annotations

import importlib.util
import sys
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes

from benchmarks.processes import ROOT
from revalued.envs import TaskSpec, make_env
from revalued.envs.suites.sigmoid import NUM_CHOICES, NUM_DIMENSIONS, NUM_STEPS, read_instances

IMAGES = ROOT / "results" / "figures"
SEED = 1


def phones(axes: Axes) -> None:
    """Draw what mobile-env draws, after ten random steps."""
    _own_picture(axes, "problem:phones-small", num_steps=10)


def spread(axes: Axes) -> None:
    """Draw what mpe2 draws: robots, and the places to cover."""
    _own_picture(axes, "problem:spread", num_steps=0)


def _own_picture(axes: Axes, task: str, num_steps: int) -> None:
    env = make_env(TaskSpec(task), "rgb_array")
    env.reset(seed=SEED)
    env.action_space.seed(SEED)
    for _ in range(num_steps):
        env.step(env.action_space.sample())
    picture: Any = env.render()
    axes.imshow(picture)
    axes.set_axis_off()
    env.close()


def foraging(axes: Axes) -> None:
    """Draw food and robots with their levels."""
    env = make_env(TaskSpec("problem:foraging"))
    env.reset(seed=SEED)
    inside: Any = env.unwrapped
    _grid(axes, *inside.field.shape)
    for row, column in np.argwhere(inside.field > 0):
        _mark(axes, column, row, "tab:red", str(inside.field[row, column]))
    for robot in inside.players:
        _mark(axes, robot.position[1], robot.position[0], "tab:blue", str(robot.level), "s")
    axes.set_title("robots (squares) and food, with levels")


def warehouse(axes: Axes) -> None:
    """Draw shelves, those that are asked for, robots and the places to bring them to."""
    env = make_env(TaskSpec("problem:warehouse"))
    env.reset(seed=SEED)
    inside: Any = env.unwrapped
    _grid(axes, *inside.grid_size)
    wanted = {(int(shelf.x), int(shelf.y)) for shelf in inside.request_queue}
    for shelf in inside.shelfs:
        place = int(shelf.x), int(shelf.y)
        _mark(axes, *place, "tab:orange" if place in wanted else "lightgrey", "", "s")
    for column, row in inside.goals:
        _mark(axes, column, row, "tab:green", "", "D")
    for robot in inside.agents:
        _mark(axes, int(robot.x), int(robot.y), "tab:blue", "")
    axes.set_title("robots, shelves (asked for: orange), goals")


def traffic(axes: Axes) -> None:
    """Draw the lanes of the four crossings."""
    found = importlib.util.find_spec("sumo_rl")
    assert found is not None
    assert found.origin is not None
    net = xml.parse(Path(found.origin).parent / "nets" / "2x2grid" / "2x2.net.xml").getroot()
    for lane in net.iter("lane"):
        points = np.array([[float(number) for number in point.split(",")] for point in lane.attrib["shape"].split()])
        axes.plot(*points[:, :2].T, color="grey", linewidth=1)
    for junction in net.iter("junction"):
        if junction.attrib["type"] == "traffic_light":
            axes.plot(float(junction.attrib["x"]), float(junction.attrib["y"]), "o", color="tab:red", markersize=12)
    axes.set_aspect("equal")
    axes.set_axis_off()


def sigmoid(axes: Axes) -> None:
    """Draw what would be right in one episode, and the values that can be chosen."""
    found = importlib.util.find_spec("dacbench")
    assert found is not None
    assert found.origin is not None
    steps = np.arange(1, NUM_STEPS + 1)
    for slope, shift in read_instances(Path(found.origin).parent)[SEED]:
        axes.plot(steps, 1 / (1 + np.exp(-slope * (steps - shift))), "o-", markersize=3)
    for value in np.linspace(0, 1, NUM_CHOICES):
        axes.axhline(value, color="grey", linestyle=":", linewidth=1)
    axes.set_xlabel("step")
    axes.set_ylabel(f"right value, {NUM_DIMENSIONS} dimensions")


PICTURES = {
    "phones": phones, "foraging": foraging, "warehouse": warehouse, "spread": spread, "traffic": traffic,
    "sigmoid": sigmoid,
}  # fmt: skip


def _grid(axes: Axes, rows: int, columns: int) -> None:
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_xticks(np.arange(columns + 1) - 0.5, [])
    axes.set_yticks(np.arange(rows + 1) - 0.5, [])
    axes.grid(visible=True, linewidth=0.5)
    axes.tick_params(length=0)
    axes.set_aspect("equal")


def _mark(axes: Axes, column: float, row: float, colour: str, text: str, shape: str = "o") -> None:
    axes.plot(column, row, shape, color=colour, markersize=16)
    axes.text(column, row, text, color="white", ha="center", va="center")


if __name__ == "__main__":
    for name, draw in PICTURES.items():
        if name not in (sys.argv[1:] or PICTURES):
            continue
        wide = name in ("phones", "sigmoid")
        figure, axes = pyplot.subplots(figsize=(6.4, 4) if wide else (4, 4), layout="constrained")
        draw(axes)
        path = IMAGES / f"{name}-picture.png"
        figure.savefig(path, dpi=100, metadata={"Software": None})
        pyplot.close(figure)
        print(path.relative_to(ROOT))
