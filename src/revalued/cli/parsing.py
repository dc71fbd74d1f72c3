"""Command lines made from dataclasses, with unknown flags answered in one line."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import typing
from typing import Annotated, Any, TypeVar

import tyro

from revalued.errors import UserError, unknown_name

Arguments = TypeVar("Arguments")

Modules = tyro.conf.UseAppendAction[Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME")]]
"""A flag that takes one module, and may be given several times."""

_MARKERS = (tyro.conf.OmitArgPrefixes, tyro.conf.PositionalRequiredArgs)


def parse(kind: type[Arguments], command: str, arguments: list[str], default: Arguments | None = None) -> Arguments:
    """Read the arguments of a command into a dataclass; fields without a default are positional."""
    help_hint = f"see revalued {command} --help"
    known = flags(kind)
    for argument in arguments:
        name = argument.split("=")[0].replace("_", "-")
        if name.startswith("--") and name.replace("--no-", "--", 1) not in (*known, "--help", "--"):
            raise unknown_name("flag", name, known, hint=help_hint)
    parsed: Arguments
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            parsed, unknown = tyro.cli(
                kind,
                prog=f"revalued {command}",
                args=arguments,
                default=tyro.MISSING_NONPROP if default is None else default,
                return_unknown_args=True,
                config=_MARKERS,
            )
    except SystemExit as ending:
        if ending.code == 0:  # --help
            raise
        raise UserError(f"{_in_one_line(complaint.getvalue())}: {help_hint}") from None
    if unknown:
        raise UserError(f"'revalued {command}' takes no further argument {unknown[0]!r}: {help_hint}")
    return parsed


def _in_one_line(box: str) -> str:
    """Return the first paragraph, below the title, of an error that tyro drew in a box."""
    words: list[str] = []
    for line in box.splitlines()[1:]:
        text = line.strip("│ ")
        if not set(text) <= set("─-"):  # not a rule, which is of - where the terminal has no UTF-8
            words += text.split()
        elif words:
            break
    return " ".join(words).removesuffix("(required)").rstrip(" .")


def flags(kind: type[Any]) -> dict[str, Any]:
    """Return every flag that a dataclass and those inside it make, and its type."""
    found: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(kind).items():
        found |= flags(hint) if dataclasses.is_dataclass(hint) else {"--" + name.replace("_", "-"): hint}  # type: ignore[arg-type]
    return found
