"""Tables and pictures of the comparisons, from results/problems alone: `python -m benchmarks.problems` writes them.

A page has a place for its problem between two comments; what is there is replaced, the rest stays.
"""

from __future__ import annotations

import re
from pathlib import Path

from revalued.compare.contestants import OURS
from revalued.compare.pictures import comparison_figure
from revalued.compare.result_table import PROVENANCE, ComparisonFolder
from revalued.compare.tables import Comparison, markdown_table, overview_table, read_comparison
from revalued.report.drawing import write_files

ROOT = Path(__file__).resolve().parent.parent
FOLDER, IMAGES = ROOT / "results" / "problems", ROOT / "results" / "figures"
PAGES = (ROOT / "README.md", ROOT / "docs" / "problems.md", *sorted((ROOT / "docs" / "problems").glob("*.md")))
PLACE = re.compile(r"(<!-- comparison: (?P<name>[a-z-]+) -->\n)(?P<text>.*?)(<!-- end of comparison -->)", re.DOTALL)
OVERVIEW = "overview"
IN_OVERVIEW = (*OURS, "sb3-ppo", "sb3-sac", "sb3-dqn", "tianshou-bdq")
NONE_YET = "*No runs yet: the commands are below.*"


def comparisons(folder: Path = FOLDER) -> dict[str, Comparison]:
    """Return every comparison of which there is a run, by its folder's name."""
    paths = [path.parent for path in sorted(folder.glob(f"*/{PROVENANCE}"))]
    found = {path.name: read_comparison(ComparisonFolder(path)) for path in paths}
    return {name: comparison for name, comparison in found.items() if comparison.entries}


def filled(page: Path, found: dict[str, Comparison]) -> str:
    """Return a page with the present tables in their places."""
    up = "../" * (len(page.relative_to(ROOT).parts) - 1)

    def text(place: re.Match[str]) -> str:
        return f"{place[1]}{_content(place['name'], found, up)}\n{place[4]}"

    return PLACE.sub(text, page.read_text())


def _content(name: str, found: dict[str, Comparison], up: str) -> str:
    if name == OVERVIEW:
        return overview_table(found, IN_OVERVIEW) if found else NONE_YET
    if name not in found:
        return NONE_YET
    picture = f"![{found[name].provenance['task']}: returns over interactions and minutes]"
    return f"{markdown_table(found[name])}\n\n{picture}({up}results/figures/problem-{name}.png)"


def main() -> None:
    """Write all tables and pictures."""
    found = comparisons()
    for page in PAGES:
        page.write_text(filled(page, found))
    for name, comparison in found.items():
        for path in write_files(comparison_figure(f"problem-{name}", comparison), IMAGES):
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
