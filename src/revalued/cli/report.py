"""`revalued report`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from revalued.cli.parsing import parse
from revalued.run.signals import raise_again


@dataclass(frozen=True)
class ReportArguments:
    """Make a page of statistics, figures and verdicts on the paper's claims from what `revalued reproduce` wrote."""

    results: Path
    """Folder with the results."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """File to write; by default report.html in the results folder, and with --markdown the terminal."""
    markdown: bool = False
    """Write a short summary in Markdown instead of the page: the verdicts, and the final returns of `main`."""
    into: tuple[Path, ...] = ()
    """Markdown pages whose places for results (`<!-- results: front -->`) are renewed, too."""
    force: bool = False
    """Replace files even if they are not from an earlier report."""


def report(arguments: list[str]) -> int:
    """Carry out `revalued report`."""
    given = parse(ReportArguments, "report", arguments)
    from revalued.report import builder

    raise_again()
    if given.markdown:
        if given.output is None:
            print(builder.markdown(given.results), end="")
        else:
            builder.write_markdown(given.results, given.output, given.force)
            print(f"wrote {given.output}", file=sys.stderr)
        return 0
    page = given.output or given.results / "report.html"
    written = builder.write_report(given.results, page, given.force, given.into)
    print(f"wrote {page}", file=sys.stderr)
    for renewed in given.into:
        print(f"renewed {renewed}", file=sys.stderr)
    if len(written) > 1:
        print(f"and {len(written) - 1} figures in {page.parent / 'figures'}", file=sys.stderr)
    return 0
