"""Run benchmarks: `python -m benchmarks [section ...] [--quick] [--save]`, from the repository's root."""

from __future__ import annotations

import argparse
import importlib

from rich.console import Console

from benchmarks.quiet import ROUNDS
from benchmarks.report import RESULTS, Figure, print_report, print_summary, save

SECTIONS = (
    "update", "scaling", "pipeline", "runs", "startup", "memory", "latency", "cluster", "peers", "load", "pace",
    "price",
)  # fmt: skip


def main() -> None:
    """Measure the sections asked for, all by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure how fast revalued is.")
    parser.add_argument("sections", nargs="*", metavar="section", help=f"any of {', '.join(SECTIONS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="few repetitions: shows that it works, not how fast")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/SECTION.json")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"unknown section {', '.join(unknown)}: choose from {', '.join(SECTIONS)}")
    console = Console()
    console.width = max(console.width, 150)  # a file or a narrow window must not cut numbers off
    figures: list[Figure] = []
    for name in arguments.sections or SECTIONS:
        before = ROUNDS.thrown_away
        report = importlib.import_module(f"benchmarks.{name}").measure(quick=arguments.quick)
        if thrown_away := ROUNDS.thrown_away - before:
            report.notes.append(f"{thrown_away} rounds thrown away: something else was running before or after them")
        print_report(report, console)
        figures += report.figures
        if arguments.save and not report.skipped:
            save(report, RESULTS, quick=arguments.quick)
    print_summary(figures, console, quick=arguments.quick)


if __name__ == "__main__":
    main()
