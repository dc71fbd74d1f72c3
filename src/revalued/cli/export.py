"""`revalued export`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from revalued.cli.parsing import Modules, parse
from revalued.run.signals import raise_again


@dataclass(frozen=True)
class ExportArguments:
    """Write the newest greedy policy of a run as one ONNX file, which runs without this package."""

    dir: Path
    """Folder of the run."""
    out: Path
    """File to write, such as policy.onnx."""
    trust_module: Modules = ()
    """Import this module, which the run's task names; repeat it for several. To import a module runs its code."""
    force: bool = False
    """Replace the file if it exists."""


def export(arguments: list[str]) -> int:
    """Carry out `revalued export`."""
    given = parse(ExportArguments, "export", arguments)
    from revalued.export import export_run

    raise_again()
    facts = export_run(
        given.dir,
        given.out,
        lambda text: print(f"warning: {text}", file=sys.stderr),
        force=given.force,
        trust_modules=given.trust_module,
    )
    megabytes = given.out.stat().st_size / 1e6
    print(
        f"{given.out}: {facts['algo']} on {facts['task']} after {int(facts['env_steps']):,} interactions, "
        f"{facts['observation_size']} observations in, {megabytes:.1f} MB"
    )
    return 0
