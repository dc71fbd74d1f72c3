"""`revalued list`."""

from __future__ import annotations

from dataclasses import dataclass

from revalued.algorithms.presets import PRESETS
from revalued.cli.parsing import parse
from revalued.errors import unknown_name


@dataclass(frozen=True)
class ListArguments:
    """Show what there is to choose from."""

    what: str
    """`algos`, `experiments` or `tasks`."""


def show_list(arguments: list[str]) -> int:
    """Carry out `revalued list`."""
    what = parse(ListArguments, "list", arguments).what if arguments else "all"
    if what not in ("all", "algos", "experiments", "tasks"):
        raise unknown_name("list", what, ("algos", "experiments", "tasks"))
    if what in ("all", "algos"):
        width = max(map(len, PRESETS))
        for name, chosen in PRESETS.items():
            print(f"{name:<{width}}  {chosen.summary}")
    if what == "all":
        print()
    if what in ("all", "experiments"):
        _show_experiments()
    if what == "all":
        print()
    if what in ("all", "tasks"):
        from revalued.envs import task_listing

        print("\n".join(task_listing()))
    return 0


def _show_experiments() -> None:
    from revalued.experiments.catalogue import EXPERIMENTS

    width = max(map(len, EXPERIMENTS))
    for name, experiment in EXPERIMENTS.items():
        print(f"{name:<{width}}  {experiment.compares}\n{'':<{width}}  {experiment.source}")
