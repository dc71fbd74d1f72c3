"""The table of the search for a recipe, from the runs in results/recipe: `python -m benchmarks.recipe`.

The score of a run is the mean of the test episodes of its last 15,000 interactions up to the one in question.
"""

from __future__ import annotations

import csv
import statistics
from collections import defaultdict
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "results" / "recipe"
WINDOW_ENV_STEPS = 15_000
EVERY_ENV_STEPS = 5_000
"""Between two test episodes: the last one of a run may fall a little short of a round number."""
AT = (50_000, 100_000, 150_000, 200_000)

Scores = dict[tuple[str, str], dict[int, dict[int, float]]]
"""By task and variant: interactions → seed → score."""


def scores(path: Path = FOLDER / "results.csv") -> Scores:
    """Return the score of every run after so many interactions."""
    episodes: dict[tuple[str, str], dict[int, list[tuple[int, float]]]] = defaultdict(lambda: defaultdict(list))
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            key = row["task"], row["variant"]
            episodes[key][int(row["seed"])].append((int(row["env_steps"]), float(row["return"])))
    found: Scores = {}
    for key, runs in episodes.items():
        found[key] = {}
        for at in AT:
            of_seeds = {
                seed: statistics.fmean(value for steps, value in run if at - WINDOW_ENV_STEPS < steps <= at)
                for seed, run in runs.items()
                if max(steps for steps, _ in run) > at - EVERY_ENV_STEPS
            }
            if of_seeds:
                found[key][at] = of_seeds
    return found


def table(found: Scores) -> str:
    """Return a Markdown table: the mean over seeds, and each seed's score behind it."""
    lines = ["| task | variant | " + " | ".join(f"{at // 1000}k" for at in AT) + " |", "|---|---|" + "---|" * len(AT)]
    for (task, variant), by_steps in sorted(found.items()):
        cells = [_cell(by_steps.get(at, {})) for at in AT]
        lines.append(f"| {task} | {variant} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(of_seeds: dict[int, float]) -> str:
    if not of_seeds:
        return ""
    each = ", ".join(f"{of_seeds[seed]:.0f}" for seed in sorted(of_seeds))
    return f"**{statistics.fmean(of_seeds.values()):.0f}** ({each})"


if __name__ == "__main__":
    print(table(scores()))
