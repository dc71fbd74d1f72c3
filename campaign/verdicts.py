"""What an attempt came to, and the table of all of them."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from campaign.processes import Ended

CANARY = "canary"
"""A file that the code of a hostile module writes: if it is there, that code was run."""


class Verdict(enum.Enum):
    """The outcome of one attempt; the good ones first."""

    WORKED = "worked"
    REFUSED = "refused"
    TRACEBACK = "traceback"
    UNCLEAR = "unclear refusal"
    HANG = "hang"
    CRASH = "crash"
    ORPHANS = "orphans"
    CODE_RUN = "code run"
    LOST = "something lost"
    BITS = "other bits"

    @property
    def is_good(self) -> bool:
        """Tell whether it is how things should end."""
        return self in (Verdict.WORKED, Verdict.REFUSED)


@dataclass(frozen=True)
class Result:
    """A verdict, what was tried and what was seen."""

    verdict: Verdict
    attempt: str
    seen: str = ""


def judge(ended: Ended, attempt: str, folder: Path) -> Result:
    """Judge a command by how it ended: exit code 0, or a refusal of a line that begins with the program's name."""
    errors = ended.errors.strip()
    if (folder / CANARY).exists():
        verdict = Verdict.CODE_RUN
    elif ended.was_hanging:
        verdict = Verdict.HANG
    elif "Traceback (most recent call last)" in errors:
        verdict = Verdict.TRACEBACK
    elif ended.left_behind:
        verdict = Verdict.ORPHANS
    elif ended.code < 0:
        verdict = Verdict.CRASH
    elif ended.code == 0:
        verdict = Verdict.WORKED
    else:
        verdict = Verdict.REFUSED if is_clear(errors) else Verdict.UNCLEAR
    return Result(verdict, attempt, errors[-2000:])


def is_clear(errors: str) -> bool:
    """Tell whether the last line is a message of the program's own, of a length that a person reads."""
    last = errors.splitlines()[-1] if errors else ""
    return (last.startswith("revalued: ") and len(last) < 1500) or last.startswith("stopped; go on with: ")


def table(results: dict[str, list[Result]]) -> str:
    """Return the table of all attempts, a line per family."""
    columns = [verdict for verdict in Verdict if verdict.is_good or _any(results, verdict)]
    lines = ["| family | attempts | " + " | ".join(verdict.value for verdict in columns) + " |"]
    lines.append("|---" * (len(columns) + 2) + "|")
    for family, found in results.items():
        counts = Counter(result.verdict for result in found)
        cells = [family, f"{len(found):,}", *(f"{counts[verdict]:,}" for verdict in columns)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _any(results: dict[str, list[Result]], verdict: Verdict) -> bool:
    return any(result.verdict is verdict for found in results.values() for result in found)
