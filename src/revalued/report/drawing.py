"""How figures are drawn: one style, colours that stay with an algorithm, the same bytes for the same data."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from revalued.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

INK = "#1b1f25"
"""Text and axes; on a page it becomes the colour of the page's text, so that figures follow it into the dark."""
GREY = "#8a8f96"
COLOURS = MappingProxyType(
    {
        "revalued": "#0072b2",
        "decqn": "#d55e00",
        "bdq": "#009e73",
        "decqn-wide": "#7b3f8c",
        "decqn-tuned": "#7b3f8c",
        "lean": "#e69f00",
        "decqn-paper": "#d55e00",
        "decqn-ensemble": "#e69f00",
        "decqn-sum": "#cc79a7",
        "decqn-c51": "#56b4e9",
        "bdq-ensemble": "#6aa84f",
        "decqn-sum-ensemble": "#a0522d",
        "dqn": GREY,
    }
)
"""Okabe and Ito's palette, which the colour-blind can tell apart, and three more; no experiment has two of a colour."""
_OTHERS = ("#d55e00", "#009e73", "#e69f00", "#cc79a7", "#56b4e9", "#a0522d", GREY, "#6aa84f")
MARK = "revalued report"
"""Stands in every figure's file, so that one of ours is known from a picture that somebody else made."""
_PALETTE = 128
_PANEL_INCHES = (4.1, 2.7)
_LEGEND_INCHES = (0.6, 0.075)
"""Width of an entry without its text, and of a letter."""
_INKED = (
    "axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "grid.color", "hatch.color", "patch.edgecolor",
    "text.color", "xtick.color", "ytick.color",
)  # fmt: skip
_TICKS = ("xtick.major.size", "ytick.major.size", "xtick.minor.size", "ytick.minor.size")
_STYLE = {
    **dict.fromkeys(_INKED, INK),
    "svg.hashsalt": "revalued",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.13,
    "grid.linewidth": 0.6,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    **dict.fromkeys(_TICKS, 0.0),  # the grid's lines say where they are
    "lines.linewidth": 1.8,
    "hatch.linewidth": 0.6,
}


Legend = tuple[tuple[str, str], ...]
"""Names, each with its colour."""


@dataclass(frozen=True)
class Panel:
    """One small picture: how to draw it, and what it shows in words."""

    description: str
    draw: Callable[[Axes], None]


@dataclass(frozen=True)
class Figure:
    """A figure of one or more panels with a shared legend."""

    name: str
    caption: str
    panels: tuple[Panel, ...]
    legend: Legend = ()


def colours_of(variants: Sequence[str]) -> dict[str, str]:
    """Return a colour per variant: an algorithm's own, and for the rest whatever is free, in order."""
    chosen = {variant: COLOURS[variant] for variant in variants if variant in COLOURS}
    rest = [variant for variant in variants if variant not in COLOURS]
    free = [colour for colour in (COLOURS["revalued"], *_OTHERS) if colour not in chosen.values()] or list(_OTHERS)
    found = chosen | {variant: free[position % len(free)] for position, variant in enumerate(rest)}
    return {variant: found[variant] for variant in variants}


def from_zero(axes: Axes) -> None:
    """Let returns start at 0, so that heights can be compared, unless some lie below."""
    if axes.dataLim.y0 >= 0:
        axes.set_ylim(bottom=0)


def legend_of(label: Callable[[str], str], colours: Mapping[str, str]) -> Legend:
    """Return the names of variants with their colours."""
    return tuple((label(variant), colour) for variant, colour in colours.items())


def require_matplotlib() -> None:
    """Say what to install where figures cannot be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UserError("figures need matplotlib: pip install 'revalued[report]'") from error


def panel_svg(panel: Panel) -> str:
    """Return one panel as SVG for a page: text stays text, in the page's own font and colour."""
    with _style({"svg.fonttype": "none"}):
        canvas = _canvas(_PANEL_INCHES)
        panel.draw(canvas.subplots())
        text = _rendered(canvas, "svg", transparent=True).decode()
    return text.replace(INK, "currentColor").replace("'DejaVu Sans', sans-serif", "system-ui, sans-serif")


def write_files(figure: Figure, folder: Path, force: bool = False) -> list[Path]:
    """Write a figure, all its panels together, as PNG and SVG."""
    paths = [folder / f"{figure.name}.{kind}" for kind in ("png", "svg")]
    for path in paths:
        if path.exists() and not force and MARK.encode() not in path.read_bytes():
            raise UserError(f"{path} exists and was not written by this command: move it away or add --force")
    contents = _file_contents(figure)
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths


def _file_contents(figure: Figure) -> tuple[bytes, bytes]:
    """Return a figure as PNG and as SVG."""
    from matplotlib.lines import Line2D

    count = len(figure.panels)
    columns = {4: 2, 16: 4}.get(count, min(3, count))
    rows = math.ceil(count / columns)
    with _style({"svg.fonttype": "path"}):
        canvas = _canvas((_PANEL_INCHES[0] * columns, _PANEL_INCHES[1] * rows + (0.4 if figure.legend else 0)))
        grid = canvas.subplots(rows, columns, squeeze=False).ravel()
        for position, axes in enumerate(grid):
            if position < count:
                figure.panels[position].draw(axes)
            else:
                axes.set_axis_off()
        if figure.legend:
            handles = [Line2D([], [], color=colour, linewidth=3, label=name) for name, colour in figure.legend]
            longest = max(len(name) for name, _ in figure.legend)
            room = int(_PANEL_INCHES[0] * columns / (_LEGEND_INCHES[0] + _LEGEND_INCHES[1] * longest))
            entries = max(1, min(2 * columns, room))
            canvas.legend(handles=handles, loc="outside upper left", ncols=entries, frameon=False)
        return _rendered(canvas, "png"), _rendered(canvas, "svg")


def _style(more: dict[str, Any]) -> Any:
    import matplotlib as mpl

    chosen: dict[Any, Any] = {**_STYLE, **more}  # matplotlib types every key as a literal
    return mpl.rc_context(chosen)


def _canvas(inches: tuple[float, float]) -> Canvas:
    from matplotlib.figure import Figure as Canvas  # by itself, without pyplot: no window system, nothing global

    return Canvas(figsize=inches, layout="constrained")


def _rendered(canvas: Canvas, kind: str, transparent: bool = False) -> bytes:
    # no date and no version: the same data must give the same bytes
    metadata = {"Software": MARK} if kind == "png" else {"Creator": MARK, "Date": None}
    buffer = io.BytesIO()
    canvas.savefig(buffer, format=kind, dpi=150, transparent=transparent, metadata=metadata)
    return _few_colours(buffer) if kind == "png" else _compact(buffer.getvalue().decode()).encode()


def _few_colours(png: io.BytesIO) -> bytes:
    """Return a PNG with a palette, which for curves and text takes a third of the room."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    mark, small = PngInfo(), io.BytesIO()
    mark.add_text("Software", MARK)
    picture = Image.open(png).convert("RGB").quantize(_PALETTE, method=Image.Quantize.FASTOCTREE)
    picture.save(small, "PNG", optimize=True, pnginfo=mark, dpi=(150, 150))
    return small.getvalue()


def _compact(svg: str) -> str:
    """Return an SVG in half the room: two decimals are enough; no names, no indentation, no rotation by 0."""

    def shorter(numbers: re.Match[str]) -> str:
        return re.sub(r"\s+", " ", re.sub(r"(\.\d\d)\d+", r"\1", numbers[0]))

    svg = re.sub(r' transform="rotate\(-?0 [^"]*\)"', "", svg)
    svg = re.sub(r' (d|x|y|transform)="[^"]*"', shorter, svg)
    svg = re.sub(r' id="(line2d|text|patch|xtick|ytick|axes|figure|matplotlib\.axis)_\d+"', "", svg)
    return re.sub(r">\s+<", ">\n<", svg)
