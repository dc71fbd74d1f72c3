"""Pictures of what the critics think along an episode, each a small panel that fits a phone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from revalued.envs.spaces.choice_table import ChoiceTable
from revalued.report.drawing import Panel
from revalued.report.inspection.episode import EpisodeRecord
from revalued.report.inspection.run_panels import BLUE, GREEN, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHADES = "viridis"
"""From worst to best; readable in grey and by the colour-blind."""
ILLEGAL = "#b9bec5"
BARS_PER_PANEL = 13
_WIDTH = 4.1
_LABELLED = 5  # choices up to which every one has its label


def discounted_to_go(rewards: NDArray[np.float64], discount: float) -> NDArray[np.float64]:
    """Return Σ_j γ^j r_{t+j} for every step t, up to the end of the episode."""
    total, sums = 0.0, np.zeros(len(rewards))
    for step in range(len(rewards) - 1, -1, -1):
        total = float(rewards[step]) + discount * total
        sums[step] = total
    return sums


def value_panels(record: EpisodeRecord, discount: float, reward_scale: float = 1.0) -> list[Panel]:
    """Draw Q-values in units of the rewards, rewards and how far the critics are apart, along the episode."""
    q_values = record.judgement.q_values / reward_scale
    steps = np.arange(len(q_values))
    mean, deviation = q_values.mean(axis=1), q_values.std(axis=1)
    several = q_values.shape[1] > 1

    def draw_values(axes: Axes) -> None:
        if several:
            axes.fill_between(steps, mean - deviation, mean + deviation, color=BLUE, alpha=0.3, linewidth=0)
        axes.plot(steps, mean, color=BLUE, linewidth=1.3, label="Q, ensemble" if several else "Q")
        to_go = discounted_to_go(record.rewards, discount)
        axes.plot(steps, to_go, color=ORANGE, linewidth=1.1, label="what came, discounted")
        axes.set(title="Value of the action taken", xlabel="step")
        axes.legend(frameon=False, fontsize=8)

    def draw_rewards(axes: Axes) -> None:
        axes.plot(steps, record.rewards, color=GREEN, linewidth=0.9)
        axes.set(title="Reward", xlabel="step")

    panels = [
        Panel("Q-values and discounted rewards along the episode", draw_values),
        Panel("rewards along the episode", draw_rewards),
    ]
    if several:

        def draw_deviation(axes: Axes) -> None:
            _smoothed(axes, steps, deviation)
            axes.set(title="Disagreement: deviation of Q over critics", xlabel="step", ylim=(0, None))

        def draw_agreement(axes: Axes) -> None:
            _smoothed(axes, steps, 100 * record.judgement.agreement.mean(axis=1))
            axes.set(title="Critics that choose as the ensemble (%)", xlabel="step", ylim=(0, 103))

        panels += [
            Panel("standard deviation of the Q-value over critics along the episode", draw_deviation),
            Panel("percentage of critics that choose as the ensemble along the episode", draw_agreement),
        ]
    return panels


def _smoothed(axes: Axes, steps: NDArray[np.int64], values: NDArray[Any]) -> None:
    """Draw a noisy curve faintly and its moving average over a fiftieth of the episode."""
    window = max(1, len(values) // 50)
    axes.plot(steps, values, color=BLUE, linewidth=0.5, alpha=0.35)
    axes.plot(steps[window - 1 :], np.convolve(values, np.full(window, 1 / window), "valid"), color=BLUE)


def utility_panels(record: EpisodeRecord, choices: ChoiceTable, steps: range) -> list[Panel]:
    """Draw one map per dimension: steps to the right, choices upwards, bright is best."""
    utilities = record.judgement.utilities[steps.start : steps.stop]
    values = choices.values()
    return [
        Panel(
            f"utilities of {name} in steps {steps.start} to {steps.stop}",
            _map_drawer(name, values[dimension], utilities[:, dimension, :size], steps),
        )
        for dimension, (name, size) in enumerate(zip(choices.names, choices.sizes, strict=True))
    ]


def _map_drawer(name: str, values: list[Any], utilities: NDArray[np.float32], steps: range) -> Callable[[Axes], None]:
    def draw(axes: Axes) -> None:
        import matplotlib as mpl

        size = len(values)
        _resize(axes, 0.75 + 0.19 * min(size, 6))
        behind = utilities - np.nanmax(utilities, axis=1, keepdims=True)  # 0 is the best, the others are below
        reach = float(np.nanpercentile(-np.nanmin(behind, axis=1), 95)) if size > 1 else 0.0
        shades = mpl.colormaps[SHADES].with_extremes(bad=ILLEGAL)
        axes.imshow(
            behind.T, aspect="auto", origin="lower", cmap=shades, vmin=-max(reach, 1e-12), vmax=0,
            interpolation="nearest", extent=(steps.start, steps.stop, -0.5, size - 0.5),
        )  # fmt: skip
        axes.grid(visible=False)
        shown = range(size) if size <= _LABELLED else (0, size // 2, size - 1)
        axes.set_yticks(list(shown), [short(values[choice]) for choice in shown])
        axes.set_title(name)
        axes.set_title(f"range {reach:.2g}", loc="right", fontsize=8, fontweight="normal")

    return draw


def choice_panels(records: Sequence[EpisodeRecord], choices: ChoiceTable) -> list[Panel]:
    """Draw how often each sub-action was chosen: one bar per dimension, a few dimensions per panel."""
    actions = np.concatenate([record.actions for record in records])
    shares = [np.bincount(actions[:, i], minlength=size) / len(actions) for i, size in enumerate(choices.sizes)]
    values = choices.values()

    def draw_bar(axes: Axes, position: int, dimension: int) -> None:
        _stacked_bar(axes, position, shares[dimension], values[dimension])

    description = "how often each sub-action of dimensions {} is chosen"
    return _bar_panels("Sub-actions chosen (%)", description, choices.names, draw_bar)


def _stacked_bar(axes: Axes, position: int, shares: NDArray[np.float64], values: list[Any]) -> None:
    left = 0.0
    for choice, share in enumerate(100 * shares):
        fraction = choice / max(1, len(shares) - 1)
        colour = colour_of(0.1 + 0.8 * fraction, "coolwarm")
        axes.barh(position, share, left=left, height=0.8, color=colour, linewidth=0)
        if share >= 9:
            text = short(values[choice])
            axes.text(left + share / 2, position, text, ha="center", va="center", fontsize=7.5, color="#111111")
        left += share


def agreement_panels(records: Sequence[EpisodeRecord], choices: ChoiceTable) -> list[Panel]:
    """Draw for each dimension how many critics choose as the ensemble; nothing for a single critic."""
    if records[0].judgement.q_values.shape[1] == 1:
        return []
    agreement = 100 * np.concatenate([record.judgement.agreement for record in records]).mean(axis=0)

    def draw_bar(axes: Axes, position: int, dimension: int) -> None:
        axes.barh(position, agreement[dimension], height=0.6, color=BLUE, linewidth=0)

    title, description = "Critics that choose as the ensemble (%)", "agreement of the critics in dimensions {}"
    return _bar_panels(title, description, choices.names, draw_bar)


def _bar_panels(
    title: str, description: str, names: Sequence[str], draw_bar: Callable[[Axes, int, int], None]
) -> list[Panel]:
    """Return panels of percentages, one bar per dimension; `draw_bar` gets the axes, its position and the dimension."""

    def panel(dimensions: range) -> Panel:
        def draw(axes: Axes) -> None:
            _resize(axes, 0.75 + 0.23 * len(dimensions))
            for position, dimension in enumerate(dimensions):
                draw_bar(axes, position, dimension)
            axes.set_yticks(range(len(dimensions)), [names[dimension] for dimension in dimensions])
            axes.set_ylim(len(dimensions) - 0.4, -0.6)
            axes.grid(visible=False, axis="y")
            axes.set(title=title, xlim=(0, 100))

        return Panel(description.format(f"{names[dimensions[0]]} to {names[dimensions[-1]]}"), draw)

    return [panel(dimensions) for dimensions in groups_of(len(names))]


def groups_of(count: int) -> list[range]:
    """Split dimensions evenly into as few panels as keep their bars readable."""
    panels = math.ceil(count / BARS_PER_PANEL)
    size = math.ceil(count / panels)
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def colour_of(fraction: float, shades: str = SHADES) -> str:
    """Return a colour between worst (0) and best (1)."""
    import matplotlib as mpl
    from matplotlib.colors import to_hex

    return str(to_hex(mpl.colormaps[shades](fraction)))


def short(value: Any) -> str:
    """Return a number as short as it can be read: 0.5, −1, 12."""
    return f"{value:.3g}".replace("-", "−") if isinstance(value, int | float) else str(value)


def _resize(axes: Axes, height: float) -> None:
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.set_size_inches(_WIDTH, height)
