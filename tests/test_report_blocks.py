"""Places for results in Markdown pages; ours hold what the tables say, and all results together are small."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

import pytest

from report_data import write_training
from revalued.cli.report import report
from revalued.errors import UserError
from revalued.report import blocks
from revalued.report.contents import Chapter, chapters
from revalued.report.results import load_results

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
_OF_ALGORITHMS = sorted(
    str(page.relative_to(ROOT)) for page in ROOT.glob("docs/algorithms/*.md") if "<!-- results:" in page.read_text()
)
PAGES = ("README.md", "docs/index.md", "docs/results.md", "docs/learnt.md", *_OF_ALGORITHMS)
MOST_BYTES = 12 * 2**20


def place(name: str, content: str = "") -> str:
    return f"<!-- results: {name} -->\n{content}<!-- end of results -->"


@pytest.fixture(scope="module")
def ours() -> list[Chapter]:
    return chapters(load_results(RESULTS))


def test_every_algorithm_with_runs_shows_them() -> None:
    assert {Path(page).stem for page in _OF_ALGORITHMS} == {path.stem for path in ROOT.glob("docs/algorithms/*.md")} - {
        "dqn"
    }


@pytest.mark.parametrize("name", PAGES)
def test_pages_say_what_the_tables_say(name: str, ours: list[Chapter]) -> None:
    """`make figures` renews them."""
    text = (ROOT / name).read_text()
    prefix = "../" * name.count("/") + "results"
    assert blocks.with_results(text, ours, prefix) == text, f"{name} is out of date: run make figures"


def final_returns(name: str) -> dict[tuple[str, str], list[float]]:
    """Return, by variant and task, the mean of the last three returns of every seed; without the report's own code."""
    folder = RESULTS / name
    labels = {
        key: facts["label"] for key, facts in json.loads((folder / "provenance.json").read_text())["variants"].items()
    }
    runs: dict[tuple[str, str, str], list[float]] = {}
    with (folder / "results.csv").open(newline="") as file:
        for row in sorted(csv.DictReader(file), key=lambda row: int(row["env_steps"])):
            runs.setdefault((labels[row["variant"]], row["task"], row["seed"]), []).append(float(row["return"]))
    finals: dict[tuple[str, str], list[float]] = {}
    for (label, task, _), returns in runs.items():
        finals.setdefault((label, task), []).append(sum(returns[-3:]) / 3)
    return finals


@pytest.mark.parametrize(
    ("page", "piece", "name", "decimals"),
    [
        ("README.md", "front", "main", 0),
        ("README.md", "experiment long-run", "long-run", 0),
        ("docs/results.md", "experiment first-main", "first-main", 1),
    ],
)
def test_tables_hold_the_means_of_the_csv_files(page: str, piece: str, name: str, decimals: int) -> None:
    text = (ROOT / page).read_text()
    start = text.index(f"<!-- results: {piece} -->")
    lines = [line for line in text[start : text.index("<!-- end", start)].splitlines() if line.startswith("|")]
    if not (RESULTS / name).is_dir():
        assert lines == []
        return
    header, rows = _cells(lines[0]), [_cells(line) for line in lines[2:]]
    expected = final_returns(name)
    compared = 0
    for row in rows:
        for label, cell in zip(header, row, strict=True):
            values = expected.get((label, row[0]))
            if values is not None:
                written = cell.replace("*", "").split()[0]
                assert written == f"{sum(values) / len(values):.{decimals}f}", (label, row[0])
                compared += 1
    assert compared == len(expected)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_results_stay_small() -> None:
    tracked = subprocess.run(["git", "ls-files", "results"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode != 0:
        pytest.skip("no checkout")
    sizes = {name: (ROOT / name).stat().st_size for name in tracked.stdout.splitlines() if (ROOT / name).is_file()}
    assert sizes
    assert sum(sizes.values()) < MOST_BYTES, sorted(sizes.items(), key=lambda entry: -entry[1])[:5]


def test_a_page_is_renewed_and_the_rest_of_it_left_alone(tmp_path: Path) -> None:
    write_training(tmp_path / "results", "main", {("revalued", "dog-walk"): 80.0, ("decqn", "dog-walk"): 100.0})
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text("\n".join(["# Mine", "", place("front", "old\n"), "", "Other words.", place("state"), ""]))
    found = chapters(load_results(tmp_path / "results"))
    blocks.write_into(page, found, tmp_path / "results")
    text = page.read_text()
    assert text.startswith("# Mine\n\n<!-- results: front -->\n![")
    assert "(../results/figures/main-curves.png)" in text
    assert "| dog-walk | 38 | 80 ± 5 | **100** ± 5 | 2 |" in text
    assert "old" not in text
    assert "\n\nOther words.\n" in text
    assert "| `main` | REValueD, DecQN and BDQ on the control suite | 4 of 190 |" in text
    assert "| `beta` | Sensitivity to β | not run | – |" in text
    blocks.write_into(page, found, tmp_path / "results")
    assert page.read_text() == text


def test_every_piece_can_be_made_of_nothing_and_of_something(tmp_path: Path) -> None:
    write_training(tmp_path, "regulariser", {("revalued", "dog-walk"): 80.0, ("decqn", "dog-walk"): 100.0})
    found = chapters(load_results(tmp_path))
    page = "\n".join(place(name) for name in [*blocks.BLOCKS, "experiment main", "experiment regulariser"])
    text = blocks.with_results(page, found, "results")
    assert "Not run yet: `revalued reproduce main`, or `revalued reproduce all`." in text
    assert "![Title of regulariser](results/figures/regulariser-curves.png)" in text
    assert "- What do an ensemble and the regulariser add? `revalued reproduce regulariser`\n" in text
    assert "- How strong a regulariser? `revalued reproduce beta`\n" in text


def test_mistakes_are_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no place for results: put '<!-- results: front -->'"):
        blocks.with_results("# Nothing\n", [], "results")
    with pytest.raises(UserError, match="did you mean verdicts"):
        blocks.with_results(place("verdict"), [], "results", "page.md")
    page = tmp_path / "page.md"
    page.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=r"page\.md cannot be used"):
        blocks.write_into(page, [], tmp_path)
    with pytest.raises(UserError, match="cannot be used"):
        blocks.write_into(tmp_path / "nowhere.md", [], tmp_path)


def test_the_command_renews_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_training(tmp_path / "results", "sum", {("revalued", "dog-walk"): 80.0}, seeds=1)
    page = tmp_path / "page.md"
    page.write_text(place("state"))
    assert report([str(tmp_path / "results"), "--into", str(page)]) == 0
    assert "1 of 18" in page.read_text(), "three variants on three tasks with two seeds, whatever was asked for"
    assert f"renewed {page}" in capsys.readouterr().err
