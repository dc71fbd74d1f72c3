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
    what = parse(ListArguments, "list", arguments).what if arguments else ""
    if what and what not in _LISTS:
        raise unknown_name("list", what, _LISTS)
    print("\n\n".join("\n".join(lines()) for name, lines in _LISTS.items() if what in ("", name)))
    return 0


def _algos() -> list[str]:
    width = max(map(len, PRESETS))
    return [f"{name:<{width}}  {chosen.summary}" for name, chosen in PRESETS.items()]


def _experiments() -> list[str]:
    from revalued.experiments.catalogue import EXPERIMENTS

    width = max(map(len, EXPERIMENTS))
    return [f"{name:<{width}}  {found.compares}\n{'':<{width}}  {found.source}" for name, found in EXPERIMENTS.items()]


def _tasks() -> list[str]:
    from revalued.envs import task_listing

    return task_listing()


_LISTS = {"algos": _algos, "experiments": _experiments, "tasks": _tasks}
