"""Pictures from the saved results alone: `python -m benchmarks.plot` writes results/figures/update-*.png, load.png."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

from benchmarks.processes import ROOT
from benchmarks.report import RESULTS, load

matplotlib.use("agg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

IMAGES = ROOT / "results" / "figures"
COLOURS = {"walker": "tab:blue", "dog": "tab:orange"}


def plot(results: Path, images: Path) -> list[Path]:
    """Draw update times over K, width, bins and N, from `scaling.json`, and beside others from `load.json`."""
    figures = draw(load("scaling", results))
    if (results / "load.json").exists():
        figures |= draw_load(load("load", results))
    images.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in figures.items():
        written.append(images / f"{name}.png")
        figure.savefig(written[-1], dpi=120, metadata={"Software": None})  # no version: the same data, the same bytes
        pyplot.close(figure)
    return written


def draw(data: dict[str, Any]) -> dict[str, Figure]:
    """Return the pictures by name."""
    with pyplot.rc_context({"axes.grid": True, "grid.alpha": 0.3}):
        figures = {"update-over-critics": _over_critics(data), "update-over-actions": _over_actions(data)}
        if any(row["series"] == "H" for row in data["rows"]):
            figures["update-over-width"] = _over_width(data)
    return _signed(figures, data)


def draw_load(data: dict[str, Any]) -> dict[str, Figure]:
    """Return the picture of updates beside other programs."""
    with pyplot.rc_context({"axes.grid": True, "grid.alpha": 0.3}):
        figures = {"load": _beside(data)}
    return _signed(figures, data)


def _signed(figures: dict[str, Figure], data: dict[str, Any]) -> dict[str, Figure]:
    for figure in figures.values():
        machine = f"{data['machine']['processor']}, {data['threads']} threads"
        figure.text(0.01, 0.005, machine, fontsize=6, color="gray")
    return figures


def _beside(data: dict[str, Any]) -> Figure:
    """Draw one thread and all of them as bars, a group for every situation."""
    situations = list(dict.fromkeys(row["beside"] for row in data["rows"]))
    shapes = list(dict.fromkeys((row["what"], row["K"], row["H"]) for row in data["rows"]))
    across = min(3, len(shapes))
    down = -(-len(shapes) // across)
    figure = pyplot.figure(figsize=(3.2 * across, 3.2 * down), layout="constrained")
    for number, (what, critics, hidden) in enumerate(shapes, 1):
        axes = figure.add_subplot(down, across, number)
        rows = [row for row in data["rows"] if (row["what"], row["K"], row["H"]) == (what, critics, hidden)]
        for offset, column in ((-0.2, "1 thread ms"), (0.2, "all threads ms")):
            places = [situations.index(row["beside"]) + offset for row in rows]
            axes.bar(places, [row[column] for row in rows], 0.4, label=column.removesuffix(" ms"))
        axes.set_xticks(range(len(situations)), situations, rotation=30, ha="right")
        axes.set_title(f"{what}, K = {critics}, hidden {hidden}")
        axes.set_ylabel("ms per update" if what == "update" else "ms per interaction")
    figure.axes[0].legend()
    return figure


def _over_width(data: dict[str, Any]) -> Figure:
    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    _draw(axes, data, "H")
    axes.set_xlabel("hidden units")
    axes.set_title("Time of one update, K = 10")
    return figure


def _over_critics(data: dict[str, Any]) -> Figure:
    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    _draw(axes, data, "K")
    axes.set_xlabel("critics K")
    axes.set_title("Time of one update (batch 256, hidden 512)")
    return figure


def _over_actions(data: dict[str, Any]) -> Figure:
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 4), layout="constrained")
    _draw(left, data, "bins")
    left.set_xlabel("bins per action dimension")
    _draw(right, data, "N")
    right.set_xlabel("action dimensions N (24 observations, 3 bins)")
    figure.suptitle("Time of one update, K = 10")
    return figure


def _draw(axes: Axes, data: dict[str, Any], series: str) -> None:
    """Draw our median with its quartiles, and the floor, for every task of a series."""
    rows = [row for row in data["rows"] if row["series"] == series]
    for task in dict.fromkeys(row["task"] for row in rows):
        own = [row for row in rows if row["task"] == task]
        values = [row["value"] for row in own]
        colour = COLOURS.get(task, "tab:green")
        axes.plot(values, [row["update ms"] for row in own], "o-", color=colour, label=f"{task}: update")
        low, high = ([row["update quartiles ms"][end] for row in own] for end in (0, 1))
        axes.fill_between(values, low, high, color=colour, alpha=0.2)
        axes.plot(values, [row["floor ms"] for row in own], "--", color=colour, label=f"{task}: products alone")
    axes.set_ylabel("time per update (ms)")
    axes.set_ylim(bottom=0)
    axes.legend()


if __name__ == "__main__":
    for written in plot(RESULTS, IMAGES):
        print(written.relative_to(ROOT))
