"""`revalued evaluate`."""

from __future__ import annotations

import json
import signal
import statistics
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from revalued.cli.parsing import Modules, parse
from revalued.run.signals import noted_signals, raise_again


@dataclass(frozen=True)
class EvaluateArguments:
    """Play greedy episodes with the newest policy of a run."""

    dir: Path
    """Folder of the run."""
    episodes: int | None = None
    """How many episodes to play; by default 10, or 1 for a video."""
    seed: int = 0
    """Seed of the episodes."""
    trust_module: Modules = ()
    """Import this module, which the run's task names; repeat it for several. To import a module runs its code."""
    video: Path | None = None
    """Record the episodes in this MP4 file, with the return so far in the corner."""
    json: bool = False
    """Print one JSON object instead of a table."""


def evaluate(arguments: list[str]) -> int:
    """Carry out `revalued evaluate`."""
    given = parse(EvaluateArguments, "evaluate", arguments)
    import torch

    from revalued.envs import LaneError
    from revalued.report.video import check_video, record_video
    from revalued.run.start import evaluate as play
    from revalued.training.evaluation import Episode, StoppedError, success_rate

    raise_again()
    # One observation at a time: more threads would only wait for each other, and for those that draw the pictures.
    torch.set_num_threads(1)
    episodes: list[Episode] = []
    wanted = given.episodes if given.episodes is not None else 10 if given.video is None else 1
    check_video(given.video)
    video = None if given.video is None else partial(record_video, path=given.video)
    received: list[int] = []
    played = play(
        given.dir,
        wanted,
        given.seed,
        lambda text: print(f"warning: {text}", file=sys.stderr),
        trust_modules=given.trust_module,
        video=video,
        should_stop=lambda: bool(received),
    )
    try:
        # Asked rather than raised: an exception out of nowhere can be lost in libraries, and episodes may have no end.
        with noted_signals(signal.SIGINT, say=False, second_one_kills=True) as received:
            for episode in played:
                episodes.append(episode)
                if not given.json:
                    solved = "" if episode.success is None else ", solved" if episode.success else ", not solved"
                    steps = f"{episode.length:,} steps{solved}"
                    print(f"episode {len(episodes)}: return {episode.total_reward:.2f}, {steps}", flush=True)
    except StoppedError:
        raise KeyboardInterrupt from None
    except LaneError as error:
        print(f"revalued: {error}", file=sys.stderr)
        return 1
    returns = [episode.total_reward for episode in episodes]
    mean, spread = statistics.fmean(returns), statistics.stdev(returns) if len(returns) > 1 else 0.0
    rate = success_rate(episodes)
    if given.json:
        lengths = [episode.length for episode in episodes]
        result = {"episodes": len(returns), "mean_return": mean, "std_return": spread, "returns": returns}
        success = {} if rate is None else {"success_rate": rate}
        print(json.dumps({**result, **success, "lengths": lengths, "seed": given.seed, "dir": str(given.dir)}))
    else:
        print(f"mean return {mean:.2f} ± {spread:.2f} (standard deviation) over {len(returns)} episodes")
        if rate is not None:
            print(f"success rate {rate:.0%}")
        if given.video is not None:
            print(f"video: {given.video}")
    return 0
