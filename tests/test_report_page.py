"""The report as a whole: the page, its figures' files, Markdown, the command line, a browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from browser import Browser, needs_browser
from report_data import theorem_row, write_csv, write_cvar, write_tabular, write_theorems, write_training
from revalued.cli import main
from revalued.experiments.result_files import RESULT_COLUMNS
from revalued.report import builder


def small_results(out: Path) -> Path:
    """Write a little of everything."""
    levels = {
        ("revalued", "dog-walk"): 600.0,
        ("decqn", "dog-walk"): 500.0,
        ("bdq", "dog-walk"): 300.0,
        ("revalued", "walker-walk"): 500.0,
        ("decqn", "walker-walk"): 600.0,
        ("bdq", "walker-walk"): 590.0,
    }
    write_training(out, "main", levels, unfinished={("bdq", "walker-walk", 1): "failed"})
    write_training(out, "regulariser-reduction", {("revalued", "a<b"): 400.0, ("revalued-mean", "a<b"): 700.0})
    rows = [
        theorem_row(target, quantity, 0.5, closed_form=0.5)
        for target in ("dqn", "decqn")
        for quantity in ("bias", "variance")
    ]
    write_theorems(out, rows)
    return out


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_results(tmp_path_factory.mktemp("report") / "results")


@pytest.fixture(scope="module")
def page(results: Path) -> str:
    target = results.parent / "page" / "report.html"
    builder.write_report(results, target)
    return target.read_text(encoding="utf-8")


def text_of(page: str) -> str:
    """Return what a reader sees, in one line."""
    body = re.sub(r"<style>.*?</style>|<svg.*?</svg>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))


def test_the_page_opens_with_what_was_found(page: str) -> None:
    text = text_of(page)
    tiles = ("claims that hold 3", "that do not hold 0", "training runs finished 15 of 16", "scale laptop")
    assert [tile for tile in tiles if tile not in text] == []
    assert "a verdict here speaks about the scale beside it" in text
    assert "Not run: bins, regulariser," in text


def test_every_verdict_has_its_scale(page: str) -> None:
    text = text_of(page)
    scale = "At laptop scale: K = 3, 120,000 interactions, 2 seeds"
    main = scale.replace("2 seeds", "1 to 2 seeds")
    claim = f"REValueD beats DecQN All tasks together: undecided; one by one: 1 × holds, 1 × does not hold . {main}"
    assert claim.replace(" . ", ". ") in text
    assert f"Is averaging the regulariser better than its sum? Tested on a&lt;b. {scale}. yes" in text
    assert text.count(scale) + text.count(main) >= 6


def test_a_section_has_figure_table_and_verdicts(page: str) -> None:
    section = page[page.index('<section id="main">') : page.index('<section id="regulariser-reduction">')]
    # two tasks, over interactions and over minutes, the interquartile means, and dog-walk beside others
    assert section.count("<svg") == 6
    text = text_of(section)
    assert "Laptop scale: 120,000 interactions per run (paper: 500,000)" in text
    assert "Not counted in tables and verdicts: 1 failed (BDQ on walker-walk, seed 1)." in text
    # ours, interval, seeds, the paper's, difference
    assert "dog-walk REValueD 600.0 ± 5.0 595.0 to 605.0 2 862.3 ± 12.0 -262.3" in text
    assert "walker-walk BDQ 585.0 (1 seed) – 1 – –" in text
    assert "dog-walk 600.0 against 500.0; difference +100.0 [+90.0, +110.0]; 2 and 2 seeds holds" in text
    assert "; finished seeds: 2 and 1; 2 of each are needed perhaps" in text


def test_method_and_provenance_close_the_page(page: str) -> None:
    text = text_of(page)
    assert "mean of its last 3 evaluations" in text
    # 2 · 2! · 2! / 4!
    assert "with 2 seeds each lie wholly apart by chance in 33% of comparisons" in text
    assert "main laptop scale: K = 3, 120,000 interactions, 1 to 2 seeds 11 of 12 2024-05-06 07:08 0123456789" in text
    assert "torch 2.13.0" in text
    assert "BDQ walker-walk 1 failed 60,000" in text


def test_the_page_needs_nothing_from_elsewhere(page: str) -> None:
    assert "<script" not in page
    assert re.findall(r'(?:src|href)="(?!#)', page) == []
    names = re.findall(r' id="([^"]+)"', page)
    links = re.findall(r'href="#([^"]+)"', page)
    assert set(links) <= set(names)
    assert len(set(names)) == len(names)


@pytest.mark.slow
def test_the_same_files_give_the_same_bytes(results: Path, page: str, tmp_path: Path) -> None:
    written = builder.write_report(results, tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page
    first = results.parent / "page" / "figures"
    assert sorted(path.name for path in first.iterdir()) == sorted(path.name for path in written[1:])
    for path in written[1:]:
        assert path.read_bytes() == (first / path.name).read_bytes()


def test_markdown_has_verdicts_and_the_main_table(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(results), "--markdown"]) == 0
    text = capsys.readouterr().out
    assert "| Claim | Verdict | Where | Scale |\n|---|---|---|---|\n" in text
    scale = "laptop scale: K = 3, 120,000 interactions, 1 to 2 seeds"
    where = "All tasks together: undecided; one by one: 1 × holds, 1 × does not hold"
    assert f"| REValueD beats DecQN | undecided | {where} | {scale} |" in text
    assert "| Question | Verdict |" in text
    scale = scale.replace("1 to 2", "2")
    assert f"| Is averaging the regulariser better than its sum? | yes | Tested on a<b | {scale} |" in text
    assert "| dog-walk | 600.0 ± 5.0 (862) | 500.0 ± 5.0 (641) | 300.0 ± 5.0 |" in text
    assert "| walker-walk | 500.0 ± 5.0 | 600.0 ± 5.0 | 585.0 (1 seed) |" in text
    assert "<svg" not in text


def test_the_command_writes_and_regenerates_but_replaces_nothing_else(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(results), "--markdown", "-o", "summary.md"]) == 0
    assert main(["report", str(results), "--markdown", "-o", "summary.md"]) == 0
    assert Path("summary.md").read_text().startswith("<!-- written by")
    assert main(["report", str(results), "-o", "summary.md"]) == 2
    assert "summary.md exists and was not written by this command" in capsys.readouterr().err
    assert main(["report", str(results), "--markdown", "-o", "summary.html"]) == 2
    assert "should end in .md" in capsys.readouterr().err
    Path("mine.html").write_text("mine")
    assert main(["report", str(results), "-o", "mine.html"]) == 2
    assert Path("mine.html").read_text() == "mine"
    assert not Path("figures").exists()


def test_mistakes_get_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([str(tmp_path)], [str(tmp_path / "nowhere")], []):
        assert main(["report", *arguments]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        (line,) = captured.err.splitlines()
        assert line.startswith("revalued: ")
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_is_shown_without_verdicts(tmp_path: Path) -> None:
    write_training(tmp_path, "my-sweep", {("critics=1", "walker-walk"): 300.0, ("critics=5", "walker-walk"): 400.0})
    (tmp_path / "my-sweep" / "provenance.json").unlink()
    written = builder.write_report(tmp_path, tmp_path / "report.html")
    text = text_of((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "Runs of our own" in text
    assert "claims that hold" not in text
    assert "walker-walk 300.0 ± 5.0 400.0 ± 5.0" in text
    assert (tmp_path / "figures" / "my-sweep-curves.png") in written


def test_an_experiment_that_has_only_begun(tmp_path: Path) -> None:
    levels = {("revalued", "dog-walk"): 1.0, ("decqn", "dog-walk"): 1.0}
    unfinished = {(variant, "dog-walk", seed): "missing" for variant, _ in levels for seed in (0, 1)}
    write_training(tmp_path, "main", levels, unfinished=unfinished)
    write_csv(tmp_path / "stability" / "results.csv", RESULT_COLUMNS, [])
    assert builder.write_report(tmp_path, tmp_path / "report.html") == [tmp_path / "report.html"]
    text = text_of((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "without enough data 1" in text
    assert "4 missing" in text


@needs_browser
@pytest.mark.slow
def test_a_full_report_in_a_browser(tmp_path: Path) -> None:
    out = small_results(tmp_path / "results")
    tasks = ("fish-swim", "fish-swim@30", "fish-swim@100")
    write_training(out, "bins", {(v, t): 500.0 for v in ("revalued", "decqn", "bdq") for t in tasks})
    write_training(out, "ensemble-size", {(f"revalued-k{k}", "dog-run"): 100.0 * k for k in (1, 3, 5)})
    write_training(out, "wall-time", {("revalued", "walker-walk"): 1.0, ("decqn", "walker-walk"): 1.0})
    write_cvar(out, {("decqn", "dog-walk"): [1.0, 3.0], ("revalued", "dog-walk"): [0.5, 0.6]})
    write_tabular(out, {(v, n, 3): 50.0 for v in ("decqn", "revalued", "revalued-mean") for n in (2, 5)})
    report = out / "report.html"
    assert main(["report", str(out)]) == 0
    with Browser() as browser:
        for width in (390, 1280):
            browser.open(report, width)
            assert browser.evaluate("innerWidth") == width
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
            sizes = browser.evaluate(
                "Array.from(document.querySelectorAll('svg'), svg => svg.getBoundingClientRect())"
                ".map(box => [box.width, box.height])"
            )
            assert len(sizes) > 15
            assert all(size[0] > 200 and size[1] > 100 for size in sizes)
            # no panel may be so small that its text cannot be read
            scales = browser.evaluate(
                "Array.from(document.querySelectorAll('svg'), svg => svg.clientWidth / svg.viewBox.baseVal.width)"
            )
            assert min(scales) > 0.9
        browser.open(report, 1280, dark=True)
        colour = browser.evaluate("getComputedStyle(document.querySelector('svg text')).fill")
        assert colour == browser.evaluate("getComputedStyle(document.body).color")
        browser.print_pdf(tmp_path / "report.pdf")
        browser.screenshot(tmp_path / "top.png", whole=False)
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "top.png").read_bytes().startswith(b"\x89PNG")
