"""Mistakes a user can make, said in one line: what was wrong, what is allowed, the nearest match."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user asked for is not possible; the message is one clear line, shown without a traceback."""


def unknown_name(kind: str, name: str, known: Iterable[str], hint: str = "") -> UserError:
    """Return the error for a name that does not exist, with the closest names that do."""
    options = sorted(known)
    close = difflib.get_close_matches(name, options, n=3, cutoff=0.5)
    if close:
        advice = "did you mean " + " or ".join(close) + "?"
    elif len(options) <= 12:
        advice = "known are " + ", ".join(options)
    else:
        advice = hint or f"{len(options)} are known, such as {', '.join(options[:3])}"
    return UserError(f"unknown {kind} {name!r}: {advice}")
