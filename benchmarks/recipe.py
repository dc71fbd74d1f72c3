"""The tables of the search for a recipe, from the runs in results/recipe.

`python -m benchmarks.recipe` writes them into the pages that show them; `python -m benchmarks.recipe FOLDER` first adds
the finished runs FOLDER/VARIANT/TASK/seedS. The score of a run is the mean of the test episodes of its last 15,000
interactions up to the one in question.
"""

from __future__ import annotations

import csv
import json
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from revalued.algorithms.presets import starting_config
from revalued.config import TrainConfig, from_dict, to_dict

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "results" / "recipe"
PAGES = (ROOT / "README.md", ROOT / "docs" / "recipe.md")
WINDOW_ENV_STEPS = 15_000
EVERY_ENV_STEPS = 5_000
"""Between two test episodes: the last one of a run may fall a little short of a round number."""
AT = (50_000, 100_000, 150_000, 200_000)

FRONT = {
    "`lean`": "ens-10x160-1e-3-norm-mean",
    "DecQN, tuned so far": "decqn-512-3e-4-norm",
    "DecQN, the paper's settings": "decqn-512-1e-4",
}
"""Rows of the front table: what a newcomer compares."""
FRONT_AT = 100_000
_PLACE = re.compile(r"(<!-- recipe: (?P<name>\w+) -->\n).*?(<!-- end of recipe -->)", re.DOTALL)

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


def front_table(found: Scores) -> str:
    """Return a Markdown table of the candidates that a newcomer compares, each seed's score in brackets."""
    tasks = sorted({task for task, variant in found if variant in FRONT.values()})
    lines = ["| after 100,000 interactions | " + " | ".join(tasks) + " |", "|---|" + "---|" * len(tasks)]
    for label, variant in FRONT.items():
        cells = [_cell(found.get((task, variant), {}).get(FRONT_AT, {})) or "–" for task in tasks]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def renewed(page: str, found: Scores) -> str:
    """Return a page with the tables in their places."""
    tables = {"front": front_table, "runs": table}
    return _PLACE.sub(lambda match: f"{match[1]}{tables[match['name']](found)}\n{match[3]}", page)


def changed_settings(config: TrainConfig) -> dict[str, Any]:
    """Return the settings that differ from the preset's, without those that leave results as they are."""
    start = to_dict(starting_config(config.task, config.algo))
    parts = ((part, to_dict(config)[part]) for part in ("algorithm", "learner", "exploration", "replay", "schedule"))
    changed = {name: value for part, own in parts for name, value in own.items() if value != start[part][name]}
    changed.pop("env_steps", None)
    return {"algo": config.algo, **changed}


def collect(runs: Path, folder: Path = FOLDER) -> int:
    """Add the finished runs that are not among the results yet; return how many there were."""
    path, settings_path = folder / "results.csv", folder / "variants.json"
    with path.open(newline="") as file:
        known = {(row["variant"], row["task"], row["seed"]) for row in csv.DictReader(file)}
    variants: dict[str, Any] = json.loads(settings_path.read_text())
    added = 0
    for summary in sorted(runs.glob("*/*/seed*/summary.json")):
        run = summary.parent
        variant, task, seed = run.parts[-3], run.parts[-2], run.name.removeprefix("seed")
        if (variant, task, seed) in known:
            continue
        config = from_dict(json.loads((run / "config.json").read_text()))
        commit = json.loads(summary.read_text())["commit"]
        variants.setdefault(variant, {"commit": commit, "settings": changed_settings(config)})
        with (run / "eval.csv").open(newline="") as file:
            episodes = list(csv.DictReader(file))
        with path.open("a", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            for row in episodes:
                numbers = row["updates"], row["env_steps"], row["return"], row["wall_seconds"]
                writer.writerow(["recipe", variant, task, seed, *numbers])
        added += 1
    settings_path.write_text(json.dumps(variants, indent=1, sort_keys=True) + "\n")
    return added


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print(f"{collect(Path(given))} runs added from {given}", file=sys.stderr)
    for path in PAGES:
        path.write_text(renewed(path.read_text(), scores()))
    print(table(scores()))
