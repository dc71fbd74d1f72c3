"""The tables of the search for a recipe, from the runs in results/recipe.

`python -m benchmarks.recipe` writes them into the pages that show them; `python -m benchmarks.recipe FOLDER` first adds
the finished runs FOLDER/VARIANT/TASK/seedS.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.confirmation import CANDIDATES, confirmation_summary, confirmation_table, problem_table
from benchmarks.confirmation import PATH as CONFIRMATION
from benchmarks.pace import measured_paces
from benchmarks.recipe_runs import AT, FOLDER, FRONT, FRONT_AT, ROOT, Scores, collect, episodes, scores

PAGES = (ROOT / "README.md", ROOT / "docs" / "recipe.md")
LEAN, TUNED, PAPER = FRONT.values()
WIDE = "decqn-512-3e-4-norm"
INGREDIENTS = (
    ("ten critics of width 160 that act by their mean, 1e-3", "for one wide critic at its best", LEAN, TUNED),
    ("normalised observations", "ten critics, each acts", "ens-10x160-1e-3-norm", "ens-10x160-1e-3"),
    ("normalised observations", "one wide critic", WIDE, "decqn-512-3e-4"),
    ("acting with the mean", "ten critics", LEAN, "ens-10x160-1e-3-norm"),
    ("acting with a critic per episode", "ten critics", "ens-10x160-1e-3-norm-episode", "ens-10x160-1e-3-norm"),
    ("learning rate 1e-3, not 3e-4", "ten critics, raw observations", "ens-10x160-1e-3", "ens-10x160-3e-4"),
    ("learning rate 1e-3, not 3e-4", "one wide critic", "decqn-512-1e-3-norm", WIDE),
    ("learning rate 3e-4, alone", "DecQN, the paper's settings", "decqn-512-3e-4", PAPER),
    ("normalised observations, alone", "DecQN, the paper's settings", "decqn-512-1e-4-norm", PAPER),
    ("ten critics of width 160, alone", "for DecQN's one, the paper's settings", "ens-10x160-1e-4", PAPER),
    ("5-step returns", "lean", f"{LEAN}-n5", LEAN),
    ("1-step returns", "lean", f"{LEAN}-n1", LEAN),
    ("5-step returns", "one wide critic", f"{WIDE}-n5", WIDE),
    ("action repeat 2", "ten critics, each acts", "ens-10x160-1e-3-norm-ar2", "ens-10x160-1e-3-norm"),
    ("action repeat 2", "one wide critic", f"{WIDE}-ar2", WIDE),
    ("batch 128, twice the updates", "lean", f"{LEAN}-b128-u04", LEAN),
    ("batch 128, twice the updates", "one wide critic", f"{WIDE}-b128-u04", WIDE),
    ("target rate 0.01", "lean", f"{LEAN}-tr01", LEAN),
    ("target rate 0.01", "one wide critic", TUNED, WIDE),
    ("width 256, not 512", "one wide critic, target rate 0.01", "decqn-256-3e-4-norm-tr01", TUNED),
    ("width 96, not 160", "lean", "ens-10x96-1e-3-norm-mean", LEAN),
    ("rewards a tenth as large", "lean", f"{LEAN}-rs01", LEAN),
    ("regulariser, mean, compensated rate", "lean", f"{LEAN}-reg-mean-auto", LEAN),
    ("regulariser, sum, compensated rate", "lean", f"{LEAN}-reg-sum-auto", LEAN),
)
"""What was tried, added to what, and the variants with and without it."""
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
    present = [task for task, variant in found if variant in FRONT.values()]
    tasks = sorted({task for task in present if present.count(task) > 1})  # where there is something to compare
    lines = ["| after 100,000 interactions | " + " | ".join(tasks) + " |", "|---|" + "---|" * len(tasks)]
    for label, variant in FRONT.items():
        cells = [_cell(found.get((task, variant), {}).get(FRONT_AT, {})) or "–" for task in tasks]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def ingredients_table(found: Scores) -> str:
    """Return a Markdown table: each ingredient's score with it / without it, and how many seeds these are means of."""
    used = {variant for *_, with_it, without in INGREDIENTS for variant in (with_it, without)}
    tasks = sorted({task for task, variant in found if variant in used})
    lines = ["| with / without, seeds | added to | " + " | ".join(tasks) + " |", "|---|---|" + "---|" * len(tasks)]
    for name, base, *variants in INGREDIENTS:
        cells = [_pair(*(found.get((task, variant), {}).get(FRONT_AT, {}) for variant in variants)) for task in tasks]
        lines.append(f"| {name} | {base} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def with_confirmation(found: Scores, confirmed: Scores) -> Scores:
    """Return the scores of the search and, on tasks that it went back to, the confirmation's of the candidates."""
    searched = {task for task, _ in found}
    names = {variant: FRONT[name] for name, variant in CANDIDATES.items()}
    return {(task, names[variant]): each for (task, variant), each in confirmed.items() if task in searched} | found


def _pair(with_it: dict[int, float], without: dict[int, float]) -> str:
    if not with_it or not without:
        return ""
    means = (f"{statistics.fmean(each.values()):.0f}" for each in (with_it, without))
    return " / ".join(means) + f" ({len(with_it)}, {len(without)})"


def renewed(page: str, path: Path = FOLDER / "results.csv") -> str:
    """Return a page with the tables in their places."""
    tables: dict[str, Callable[[], str]] = {
        "front": lambda: front_table(scores(path)),
        "runs": lambda: table(scores(path)),
        "ingredients": lambda: ingredients_table(with_confirmation(scores(path), scores(CONFIRMATION))),
        "confirmation": lambda: confirmation_table(episodes(CONFIRMATION), measured_paces()),
        "problem": problem_table,
        "summary": lambda: confirmation_summary(episodes(CONFIRMATION)),
    }
    return _PLACE.sub(lambda match: f"{match[1]}{tables[match['name']]()}\n{match[3]}", page)


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print(f"{collect(Path(given))} runs added from {given}", file=sys.stderr)
    for page in PAGES:
        page.write_text(renewed(page.read_text()))
    print(table(scores()))
