"""`revalued inspect`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from revalued.cli.parsing import Modules, parse
from revalued.run.signals import raise_again


@dataclass(frozen=True)
class InspectArguments:
    """Play a greedy episode with the newest policy of a run and make a page of pictures about it."""

    dir: Path
    """Folder of the run."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """The page to write; by default inspect.html in the run's folder."""
    episodes: int = 1
    """Episodes to play; the pictures along an episode show the first. 0: only what needs no environment."""
    seed: int = 0
    """Seed of the episodes, the same as those of `revalued evaluate`."""
    video: bool = True
    """Make a video of the first episode."""
    trust_module: Modules = ()
    """Import this module, which the run's task names; repeat it for several. To import a module runs its code."""
    force: bool = False
    """Replace the file even if it is not an earlier page."""


def inspect(arguments: list[str]) -> int:
    """Carry out `revalued inspect`."""
    given = parse(InspectArguments, "inspect", arguments)
    import torch

    from revalued.envs import LaneError
    from revalued.report.inspection.page import inspect_run

    raise_again()
    torch.set_num_threads(1)  # one observation at a time, as in `revalued evaluate`
    try:
        page = inspect_run(
            given.dir,
            given.output,
            lambda text: print(f"warning: {text}", file=sys.stderr),
            episodes=given.episodes,
            seed=given.seed,
            video=given.video,
            force=given.force,
            trust_modules=given.trust_module,
        )
    except LaneError as error:
        print(f"revalued: {error}", file=sys.stderr)
        return 1
    print(f"page: {page}")
    return 0
