"""The tables of the search for a recipe, from the runs in results/recipe.

`python -m benchmarks.recipe` writes them into the pages that show them; `python -m benchmarks.recipe FOLDER` first adds
the finished runs FOLDER/VARIANT/TASK/seedS.
"""

from __future__ import annotations

import re
import statistics
import sys
from pathlib import Path

from benchmarks.confirmation import TASKS as CONFIRMING
from benchmarks.confirmation import confirmation_table
from benchmarks.recipe_runs import AT, FOLDER, FRONT, FRONT_AT, ROOT, Scores, collect, episodes, scores

PAGES = (ROOT / "README.md", ROOT / "docs" / "recipe.md")
_PLACE = re.compile(r"(<!-- recipe: (?P<name>\w+) -->\n).*?(<!-- end of recipe -->)", re.DOTALL)


def table(found: Scores) -> str:
    """Return a Markdown table: the mean over seeds, and each seed's score behind it."""
    lines = ["| task | variant | " + " | ".join(f"{at // 1000}k" for at in AT) + " |", "|---|---|" + "---|" * len(AT)]
    for (task, variant), by_steps in sorted(found.items()):
        cells = [_cell(by_steps.get(at, {})) for at in AT]
        lines.append(f"| {task} | {variant} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(of_seeds: dict[int, float]) -> str:
    if not of_seeds:
        return ""
    each = ", ".join(f"{of_seeds[seed]:.0f}" for seed in sorted(of_seeds))
    return f"**{statistics.fmean(of_seeds.values()):.0f}** ({each})"


def front_table(found: Scores) -> str:
    """Return a Markdown table of the candidates that a newcomer compares, each seed's score in brackets."""
    tasks = sorted({task for task, variant in found if variant in FRONT.values() and task not in CONFIRMING})
    lines = ["| after 100,000 interactions | " + " | ".join(tasks) + " |", "|---|" + "---|" * len(tasks)]
    for label, variant in FRONT.items():
        cells = [_cell(found.get((task, variant), {}).get(FRONT_AT, {})) or "–" for task in tasks]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def renewed(page: str, path: Path = FOLDER / "results.csv") -> str:
    """Return a page with the tables in their places."""
    tables = {
        "front": lambda: front_table(scores(path)),
        "runs": lambda: table(scores(path)),
        "confirmation": lambda: confirmation_table(episodes(path)),
    }
    return _PLACE.sub(lambda match: f"{match[1]}{tables[match['name']]()}\n{match[3]}", page)


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print(f"{collect(Path(given))} runs added from {given}", file=sys.stderr)
    for page in PAGES:
        page.write_text(renewed(page.read_text()))
    print(table(scores()))
