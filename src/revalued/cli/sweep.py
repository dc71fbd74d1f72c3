"""`revalued sweep`: every combination of some settings, carried out like an experiment of the paper."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from revalued.cli.experiment_runs import FanOut, check_tasks, train_all
from revalued.cli.parsing import flags, parse
from revalued.config import TrainConfig
from revalued.errors import UserError, unknown_name
from revalued.experiments.ledger import Ledger
from revalued.experiments.naming import Setting
from revalued.experiments.plan import Experiment, Variant, plan, refuse_too_many
from revalued.experiments.scales import Scale
from revalued.settings import places

_SETTINGS = tuple(entry.name for entry in fields(Setting))
_MAX_VALUES = 100
_BOOLEANS = {"true": "", "yes": "", "false": "no-", "no": "no-"}


@dataclass(frozen=True)
class SweepArguments:
    """Train every combination of settings. Each flag of `revalued train` takes a list, as in --critics 1,3,5."""

    task: str
    """Task name, see `revalued list tasks`."""
    seeds: int = 3
    """Number of seeds."""
    name: str | None = None
    """Name of the sweep; by default the task."""
    out: Path = Path("sweeps")
    """Folder for results and runs."""
    runs: FanOut = field(default_factory=FanOut)


def sweep(arguments: list[str]) -> int:
    """Carry out `revalued sweep`."""
    own, swept = _divide(arguments)
    given = parse(SweepArguments, "sweep", own)
    experiment = sweep_experiment(given.name or given.task.replace(":", "-").replace("/", "-"), given.task, swept)
    scale = Scale(name="sweep", seeds=given.seeds, critics=None, env_steps=None, overrides={})
    planned = plan(experiment, scale)
    check_tasks(planned, [given.task])
    return train_all([Ledger(experiment, scale, planned, given.out)], given.runs, ["sweep", *arguments])


def sweep_experiment(name: str, task: str, swept: Mapping[str, Sequence[Any]]) -> Experiment:
    """Return the experiment that compares every combination of values on a task.

    Bins and noise belong to the task, as in all results; everything else makes variants.
    """
    if "/" in name or name in ("", ".", "..", "runs"):
        raise UserError(f"--name {name!r} is not possible: it must be a plain name, and not 'runs'")
    of_task = {field: values for field, values in swept.items() if field in _SETTINGS}
    of_variant: dict[str, list[Any]] = {
        "algo": ["revalued"],
        "env_steps": [TrainConfig(task="").schedule.env_steps],
        "threads": [1],
    }
    of_variant |= {field: list(values) for field, values in swept.items() if field not in _SETTINGS}
    refuse_too_many(math.prod(len(values) for values in (of_variant | of_task).values()))
    choices = [dict(zip(of_variant, values, strict=True)) for values in itertools.product(*of_variant.values())]
    several = [field for field, values in of_variant.items() if len(values) > 1]
    combinations = itertools.product(*of_task.values())
    return Experiment(
        name=name,
        title=f"Sweep over {', '.join(field for field in swept if len(swept[field]) > 1) or 'seeds'} on {task}",
        source="A sweep, not an experiment of the paper",
        compares="Every combination of the settings.",
        variants=tuple(_variant(choice, several) for choice in choices),
        tasks={"sweep": (task,)},
        settings=tuple(Setting(**dict(zip(of_task, values, strict=True))) for values in combinations),
    )


def _variant(choice: Mapping[str, Any], several: Sequence[str]) -> Variant:
    parts = [
        str(choice[field]) if field == "algo" else f"{field.replace('_', '-')}{_written(choice[field])}"
        for field in several
    ]
    name = "-".join(parts) or str(choice["algo"])
    return Variant(name, name, dict(choice))


def _written(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


def _divide(arguments: Sequence[str]) -> tuple[list[str], dict[str, list[Any]]]:
    """Separate the sweep's own arguments from the settings, and read the lists of the latter."""
    known_own = [flag for flag in flags(SweepArguments) if flag != "--task"]
    known_swept = [flag for flag in flags(TrainConfig) if flag not in ("--task", "--seed")]
    own: list[str] = []
    swept: dict[str, list[Any]] = {}
    waiting = list(reversed(arguments))
    while waiting:
        argument = waiting.pop()
        word, equals, text = argument.partition("=")
        name = word.replace("_", "-")
        if not name.startswith("--") or name in (*known_own, "--help"):
            own.append(argument)
            continue
        flag = name if name in known_swept else name.replace("--no-", "--", 1)
        if flag not in known_swept:
            raise unknown_name("flag", name, [*known_own, *known_swept], hint="see revalued sweep --help")
        if not equals and waiting and _is_value(flag, waiting[-1]):
            text = waiting.pop()
        swept[flag[2:].replace("-", "_")] = _values(name, flag, text)
    return own, swept


def _is_value(flag: str, word: str) -> bool:
    """Return whether what follows a flag belongs to it; a switch may stand alone."""
    return word.split(",")[0].lower() in _BOOLEANS if flags(TrainConfig)[flag] is bool else not word.startswith("--")


def _values(name: str, flag: str, text: str) -> list[Any]:
    """Read the values of one flag, each as `revalued train` would."""
    if flags(TrainConfig)[flag] is bool:
        words = [word.lower() for word in text.split(",")] if text else ["false" if name != flag else "true"]
        for word in words:
            if word not in _BOOLEANS:
                raise UserError(f"{flag} takes true, false or both, got {word!r}: see revalued sweep --help")
        calls = [[f"--{_BOOLEANS[word]}{flag[2:]}"] for word in words]
    else:
        if not text:
            raise UserError(f"{flag} needs a value or a list of values, such as {flag} 1,2")
        calls = [[flag, word] for word in text.split(",")]
    if len(calls) > _MAX_VALUES:
        raise UserError(f"{flag} has {len(calls):,} values: at most {_MAX_VALUES} are possible in a sweep")
    field = flag[2:].replace("-", "_")
    return list(dict.fromkeys(_value(field, call) for call in calls))


def _value(field: str, call: list[str]) -> Any:
    value: Any = parse(TrainConfig, "sweep", call, TrainConfig(task="sweep"))
    for part in places().get(field, (field,)):  # algo has none: it is no setting of its preset
        value = getattr(value, part)
    return value
