"""The runs of the search for a recipe (results/recipe): their scores, and how finished ones are added.

The score of a run is the mean of the test episodes of its last 15,000 interactions up to the one in question.
"""

from __future__ import annotations

import csv
import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from revalued.algorithms.presets import starting_config
from revalued.config import TrainConfig, from_dict, to_dict

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "results" / "recipe"
WINDOW_ENV_STEPS = 15_000
EVERY_ENV_STEPS = 5_000
"""Between two test episodes: the last one of a run may fall a little short of a round number."""
AT = (50_000, 100_000, 150_000, 200_000)

FRONT = {
    "`lean`": "ens-10x160-1e-3-norm-mean",
    "DecQN, tuned": "decqn-512-3e-4-norm-tr01",
    "DecQN, the paper's settings": "decqn-512-1e-4",
}
"""Rows of the front table: what a newcomer compares."""
FRONT_AT = 100_000


class Episode(NamedTuple):
    """One test episode: after how many interactions, and its return."""

    env_steps: int
    value: float


Episodes = dict[tuple[str, str], dict[int, list[Episode]]]
"""By task and variant: seed → episodes."""
Scores = dict[tuple[str, str], dict[int, dict[int, float]]]
"""By task and variant: interactions → seed → score."""


def episodes(path: Path = FOLDER / "results.csv") -> Episodes:
    """Return the test episodes of every run, none before there is a file."""
    found: Episodes = defaultdict(lambda: defaultdict(list))
    if not path.is_file():
        return found
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            episode = Episode(int(row["env_steps"]), float(row["return"]))
            found[row["task"], row["variant"]][int(row["seed"])].append(episode)
    return found


def score(run: list[Episode], at: float) -> float | None:
    """Return a run's score after so many interactions, None where it is not that far."""
    if max(episode.env_steps for episode in run) <= at - EVERY_ENV_STEPS:
        return None
    return statistics.fmean(each.value for each in run if at - WINDOW_ENV_STEPS < each.env_steps <= at)


def scores(path: Path = FOLDER / "results.csv") -> Scores:
    """Return the score of every run after so many interactions."""
    found: Scores = {}
    for key, runs in episodes(path).items():
        of_seeds = {at: {seed: score(run, at) for seed, run in runs.items()} for at in AT}
        known = {at: {seed: one for seed, one in each.items() if one is not None} for at, each in of_seeds.items()}
        found[key] = {at: each for at, each in known.items() if each}
    return found


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
