"""Command lines made from dataclasses, with unknown flags answered in one line."""

from __future__ import annotations

import dataclasses
import typing
from typing import TypeVar

import tyro

from revalued.errors import UserError, unknown_name

Arguments = TypeVar("Arguments")

_MARKERS = (tyro.conf.OmitArgPrefixes, tyro.conf.PositionalRequiredArgs)


def parse(kind: type[Arguments], command: str, arguments: list[str], default: Arguments | None = None) -> Arguments:
    """Read the arguments of a command into a dataclass; fields without a default are positional."""
    chosen = tyro.MISSING_NONPROP if default is None else default
    parsed: Arguments
    parsed, unknown = tyro.cli(
        kind,
        prog=f"revalued {command}",
        args=arguments,
        default=chosen,
        return_unknown_args=True,
        config=_MARKERS,
    )
    if unknown:
        first = unknown[0]
        if first.startswith("-"):
            raise unknown_name("flag", first.split("=")[0], flags(kind), hint=f"see revalued {command} --help")
        raise UserError(f"'revalued {command}' takes no further argument {first!r}: see revalued {command} --help")
    return parsed


def flags(kind: type[object]) -> list[str]:
    """Return every flag that a dataclass and those inside it make."""
    hints = typing.get_type_hints(kind)
    found: list[str] = []
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        if dataclasses.is_dataclass(hints[field.name]):
            found += flags(hints[field.name])
        else:
            found.append("--" + field.name.replace("_", "-"))
    return found
