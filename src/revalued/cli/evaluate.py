"""`revalued evaluate`."""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from revalued.cli.parsing import parse


@dataclass(frozen=True)
class EvaluateArguments:
    """Play greedy episodes with the newest policy of a run."""

    dir: Path
    """Folder of the run."""
    episodes: int = 10
    """How many episodes to play."""
    seed: int = 0
    """Seed of the episodes."""
    json: bool = False
    """Print one JSON object instead of a table."""


def evaluate(arguments: list[str]) -> int:
    """Carry out `revalued evaluate`."""
    given = parse(EvaluateArguments, "evaluate", arguments)
    from revalued import runs

    episodes = []
    for episode in runs.evaluate(given.dir, given.episodes, given.seed, lambda text: print(text, file=sys.stderr)):
        episodes.append(episode)
        if not given.json:
            print(f"episode {len(episodes)}: return {episode.total_reward:.2f}, {episode.length:,} steps", flush=True)
    returns = [episode.total_reward for episode in episodes]
    mean, spread = statistics.fmean(returns), statistics.stdev(returns) if len(returns) > 1 else 0.0
    if given.json:
        lengths = [episode.length for episode in episodes]
        result = {"episodes": len(returns), "mean_return": mean, "std_return": spread, "returns": returns}
        print(json.dumps({**result, "lengths": lengths, "seed": given.seed, "dir": str(given.dir)}))
    else:
        print(f"mean return {mean:.2f} ± {spread:.2f} (standard deviation) over {len(returns)} episodes")
    return 0
