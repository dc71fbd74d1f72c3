"""Figures: what is drawn, in which colours, the same bytes every time."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.axes import Axes

from report_data import theorem_row, write_cvar, write_tabular, write_theorems, write_training
from revalued.errors import UserError
from revalued.experiments.catalogue import EXPERIMENTS
from revalued.experiments.plan import Experiment
from revalued.report import curves, drawing, figures, results, theory_figures
from revalued.report.drawing import COLOURS, Figure, Panel, colours_of
from revalued.report.results import ExperimentResults


def draw_title(axes: Axes) -> None:
    axes.set_title("number 0")


SIMPLE = Figure("simple", "caption", (Panel("a panel", draw_title),), (("REValueD", COLOURS["revalued"]),))


def loaded(tmp_path: Path, name: str) -> ExperimentResults:
    return results.load_results(tmp_path)[name]


def svgs(figure: Figure | None) -> list[str]:
    assert figure is not None
    return [drawing.panel_svg(panel) for panel in figure.panels]


@pytest.mark.parametrize(
    "experiment", [each for each in EXPERIMENTS.values() if isinstance(each, Experiment)], ids=lambda each: each.name
)
def test_no_experiment_has_two_variants_of_a_colour(experiment: Experiment) -> None:
    names = [variant.id for variant in experiment.variants]
    assert len(set(colours_of(names).values())) == len(names)


def test_a_picture_on_a_page_has_no_more_than_it_needs() -> None:
    def draw(axes: Axes) -> None:
        axes.plot([0.123456, 1.234567], [2.0, 3.0])
        axes.set_title("number 0.123456")

    text = drawing.panel_svg(Panel("a panel", draw))
    root = ElementTree.fromstring(text)  # still a whole picture
    assert "number 0.123456" in ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    numbers = [number for place in re.findall(r' (?:d|x|y|transform)="([^"]*)"', text) for number in place.split()]
    assert len(numbers) > 20
    assert not [number for number in numbers if re.search(r"\.\d{3}", number)]
    assert "rotate(-0" not in text
    assert not re.findall(r' id="(?:line2d|text|xtick)_', text)


def test_colours_stay_with_an_algorithm() -> None:
    assert colours_of(["decqn", "revalued"])["revalued"] == colours_of(["revalued", "bdq"])["revalued"] == "#0072b2"
    mixed = colours_of(["revalued", "revalued-mean", "revalued-quadratic"])
    assert len(set(mixed.values())) == 3
    assert len(set(colours_of([f"revalued-k{k}" for k in (1, 3, 5, 10, 15, 20)]).values())) == 6
    assert len(colours_of([f"v{n}" for n in range(30)])) == 30  # more than there are: some share


def test_a_panel_on_a_page_takes_the_pages_colour_and_font() -> None:
    text = drawing.panel_svg(SIMPLE.panels[0])
    assert "currentColor" in text
    assert drawing.INK not in text
    assert "number 0" in text  # text is text
    assert "system-ui" in text
    assert re.search(r' d="[^"]*\.\d{3}', text) is None
    assert re.search(r' d="[^"]*\n', text) is None  # a path is one line, however many points it has


def test_the_same_data_gives_the_same_bytes(tmp_path: Path) -> None:
    first = drawing.write_files(SIMPLE, tmp_path / "first")
    second = drawing.write_files(SIMPLE, tmp_path / "second")
    assert [path.name for path in first] == ["simple.png", "simple.svg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert drawing.panel_svg(SIMPLE.panels[0]) == drawing.panel_svg(SIMPLE.panels[0])
    assert b"<dc:date>" not in first[1].read_bytes()


def test_only_own_figures_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "simple.png").write_bytes(b"\x89PNG ... revalued report ...")
    (tmp_path / "simple.svg").write_text("somebody's own picture")
    with pytest.raises(UserError, match=r"simple\.svg exists and was not written by this command"):
        drawing.write_files(SIMPLE, tmp_path)
    assert (tmp_path / "simple.svg").read_text() == "somebody's own picture"
    assert (tmp_path / "simple.png").stat().st_size < 100  # nothing was written at all
    drawing.write_files(SIMPLE, tmp_path, force=True)
    drawing.write_files(SIMPLE, tmp_path)
    assert (tmp_path / "simple.png").stat().st_size > 100
    assert b"revalued report" in (tmp_path / "simple.svg").read_bytes()


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r"pip install 'revalued\[report\]'"):
        drawing.require_matplotlib()


def test_learning_curves_have_a_panel_per_task_that_was_run(tmp_path: Path) -> None:
    levels = {(v, t): 500.0 for v in ("revalued", "decqn") for t in ("walker-walk", "dog-walk", "fish-swim")}
    missing = {(v, "fish-swim", s): "missing" for v in ("revalued", "decqn") for s in range(2)}
    write_training(tmp_path, "main", levels, unfinished={**missing, ("decqn", "dog-walk", 1): "missing"})
    figure = curves.learning_curves(loaded(tmp_path, "main"))
    assert figure is not None
    assert [panel.description.split(":")[0] for panel in figure.panels] == [
        "Learning curves on walker-walk",
        "Learning curves on dog-walk",
    ]
    assert figure.legend == (("REValueD", COLOURS["revalued"]), ("DecQN", COLOURS["decqn"]))
    assert "1 to 2 seeds" in figure.caption
    walker, dog = svgs(figure)
    assert "walker-walk" in walker
    # a band for either variant on walker-walk, only for the one with two seeds on dog-walk
    assert [text.count("FillBetween") for text in (walker, dog)] == [2, 1]


def test_a_single_seed_is_said_plainly(tmp_path: Path) -> None:
    write_training(tmp_path, "main", {("decqn", "walker-walk"): 500.0}, seeds=1)
    figure = curves.learning_curves(loaded(tmp_path, "main"))
    assert figure is not None
    assert "a single seed each, so no interval can be given" in figure.caption
    assert "FillBetween" not in svgs(figure)[0]


def test_unfinished_runs_are_dotted(tmp_path: Path) -> None:
    levels = {("revalued", "walker-walk"): 500.0, ("decqn", "walker-walk"): 400.0}
    write_training(tmp_path, "main", levels, seeds=1, unfinished={("decqn", "walker-walk", 0): "unfinished"})
    figure = curves.learning_curves(loaded(tmp_path, "main"))
    assert figure is not None
    assert "Dotted" in figure.caption
    assert svgs(figure)[0].count("stroke-dasharray") == 1


def test_interquartile_means_need_tasks_that_all_have_finished(tmp_path: Path) -> None:
    levels = {("revalued", "a"): 100.0, ("decqn", "a"): 200.0, ("revalued", "b"): 300.0, ("decqn", "b"): 400.0}
    write_training(tmp_path / "all", "main", levels)
    figure = figures.interquartile(loaded(tmp_path / "all", "main"))
    assert figure is not None
    assert figure.panels[0].description == "Interquartile means: REValueD 200, DecQN 300."
    unfinished = {("decqn", "b", seed): "missing" for seed in (0, 1)}
    write_training(tmp_path / "some", "main", levels, unfinished=unfinished)
    assert figures.interquartile(loaded(tmp_path / "some", "main")) is None


def test_settings_stand_beside_the_papers(tmp_path: Path) -> None:
    write_training(tmp_path, "ensemble-size", {(f"revalued-k{k}", "dog-run"): 100.0 * k for k in (1, 3, 5)})
    write_training(tmp_path, "beta", {("revalued-beta0.5", "dog-walk"): 100.0, ("revalued-beta0", "dog-walk"): 90.0})
    figure = figures.against_setting(loaded(tmp_path, "ensemble-size"))
    assert figure is not None
    assert figure.panels[0].description == "Final return on dog-run by K, critics: 1: 100, 3: 300, 5: 500."
    assert [name for name, _ in figure.legend] == ["here", "paper"]
    text = svgs(figure)[0]
    assert ">20<" in text  # the paper's largest ensemble is on the axis
    assert svgs(figures.against_setting(loaded(tmp_path, "beta")))[0].count(">β<") == 1


def test_bins_are_one_line_per_variant(tmp_path: Path) -> None:
    tasks = ("fish-swim", "fish-swim@30", "dog-walk@10")
    write_training(tmp_path, "bins", {(v, t): 500.0 for v in ("revalued", "decqn") for t in tasks})
    figure = figures.against_bins(loaded(tmp_path, "bins"))
    assert figure is not None
    assert len(figure.panels) == 2
    text = drawing.panel_svg(figure.panels[0])
    assert ">3<" in text
    assert ">30<" in text


def test_wall_time_and_stability_are_bars(tmp_path: Path) -> None:
    levels = {("revalued", "walker-walk"): 1.0, ("decqn", "walker-walk"): 1.0}
    write_training(tmp_path, "wall-time", levels, minutes={"decqn": 10.0, "revalued": 20.0}, env_steps=15_000)
    (figure,) = figures.training_figures(loaded(tmp_path, "wall-time"))
    expected = "Minutes on walker-walk: REValueD, here 20, REValueD, paper 37, DecQN, here 10, DecQN, paper 30."
    assert figure.panels[0].description == expected
    assert "url(#" in svgs(figure)[0]  # hatched, because projected
    write_cvar(tmp_path, {("decqn", "a"): [1.0, 3.0], ("revalued", "a"): [0.5]})
    (bars,) = figures.training_figures(loaded(tmp_path, "stability"))
    assert bars.panels[0].description == "CVaR on a: DecQN 2, REValueD 0.5."
    assert len(svgs(bars)) == 1


def test_theory_has_figures_too(tmp_path: Path) -> None:
    rows = [
        theorem_row(target, quantity, 0.5, closed_form=0.5, noise=noise, n=n, N=5, K=critics)
        for target, critics in (("dqn", 1), ("decqn", 1), ("max-of-mean", 8), ("max-of-mean", 30))
        for quantity in ("bias", "variance")
        for noise in ("uniform", "gaussian")
        for n in (3, 30)
    ]
    write_theorems(tmp_path, rows)
    figure, ensembles = theory_figures.theorem_figures(loaded(tmp_path, "theorems"))
    assert "N = 5 dimensions, K = 8 critics" in figure.caption
    assert len(figure.panels) == 4
    assert [name for name, _ in figure.legend] == ["DQN", "DecQN", "ensemble, maximum of the mean (as used)"]
    assert "bias, uniform noise" in drawing.panel_svg(figure.panels[0])
    assert [name for name, _ in ensembles.legend] == [
        "mean of maxima, any K", "maximum of the mean, K = 8", "maximum of the mean, K = 30",
    ]  # fmt: skip
    assert ["K · Var / Var of one critic" in text for text in svgs(ensembles)] == [False, True]
    write_tabular(tmp_path, {(v, n, 3): 50.0 for v in ("decqn", "revalued") for n in (2, 5)})
    (grid,) = theory_figures.tabular_figures(loaded(tmp_path, "tabular"))
    assert len(grid.panels) == 2
    assert "1,000 trials" in grid.caption
    assert "N = 2, n = 3" in drawing.panel_svg(grid.panels[0])
