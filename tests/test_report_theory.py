"""Verdicts on theorems and on the tabular problem, from rows worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from report_data import outcomes, theorem_row, write_tabular, write_theorems
from revalued.report import results, tables, theory, theory_figures
from revalued.report.verdicts import Decision, Finding, Verdict


def theorem_findings(tmp_path: Path, *rows: Mapping[str, Any]) -> dict[str, Finding]:
    write_theorems(tmp_path, rows)
    found = theory.theorem_findings(results.load_results(tmp_path)["theorems"])
    return {finding.statement.split(":")[0]: finding for finding in found}


def test_closed_forms_may_be_five_standard_errors_away(tmp_path: Path) -> None:
    near = theorem_row("decqn", "bias", 0.5, closed_form=0.5049)
    far = theorem_row("decqn", "variance", 0.5, closed_form=0.5051, theorem="theorem-2")
    none = theorem_row("dqn", "bias", 9.0, theorem="theorem-3")
    finding = theorem_findings(tmp_path, near, far, none)["Closed forms equal the simulation"]
    assert outcomes(finding) == {"Theorem 1": "holds", "Theorem 2": "does not hold"}
    assert finding.verdicts[0].detail == "1 of 1 within 5 standard errors, the farthest 4.9 away"


def test_theorem_1_compares_dqn_with_decqn(tmp_path: Path) -> None:
    rows = [
        theorem_row("dqn", "bias", 0.8),
        theorem_row("decqn", "bias", 0.5),
        theorem_row("dqn", "variance", 0.2),
        theorem_row("decqn", "variance", 0.1),
    ]
    found = theorem_findings(tmp_path, *rows)["Theorem 1"]
    assert outcomes(found) == {"bias": "holds", "variance": "does not hold"}
    # a simulation that violates it by less than its error does not count
    close = [{**row, "monte_carlo": 0.1004} if row["monte_carlo"] == 0.2 else row for row in rows]
    assert outcomes(theorem_findings(tmp_path, *close)["Theorem 1"]) == {"bias": "holds", "variance": "holds"}


def test_theorem_2_holds_as_proved_and_not_as_stated(tmp_path: Path) -> None:
    # N = 6, n = 3, K = 10 with uniform noise: the numbers of docs/algorithms.md
    common = {"N": 6, "n": 3, "theorem": "theorem-2"}
    rows = [
        theorem_row("decqn", "bias", 0.495, closed_form=0.495, **common),
        theorem_row("decqn", "variance", 0.02, closed_form=0.02, **common),
        theorem_row("mean-of-max", "bias", 0.4951, K=10, **common),
        theorem_row("mean-of-max", "variance", 0.00199, K=10, **common | {"standard_error": 0.00001}),
        theorem_row("max-of-mean", "bias", 0.153, K=10, **common),
        theorem_row("max-of-mean", "variance", 0.00242, K=10, **common | {"standard_error": 0.00001}),
        theorem_row("max-of-mean", "bias", 0.9, K=1, **common),  # says nothing about ensembles
    ]
    found = theorem_findings(tmp_path, *rows)
    assert outcomes(found["Theorem 2 as proved (mean of the maxima)"]) == {"bias": "holds", "variance": "holds"}
    stated = found["Theorem 2 as stated (equation 5, maximum of the mean)"]
    assert outcomes(stated) == {"bias": "does not hold", "variance": "does not hold"}
    expected = "in 0 of 1 cases; farthest: 0.153 where the theorem says 0.495 (N = 6, n = 3, K = 10)"
    assert stated.verdicts[0].detail == expected
    assert not stated.is_question
    table = tables.theorem_2_table(results.load_results(tmp_path)["theorems"], 6, 10)
    assert table.rows == (("Uniform", "3", "0.495", "0.495", "0.153", "0.99", "1.21"),)


def test_other_noise_than_the_papers_is_a_question(tmp_path: Path) -> None:
    rows = [
        theorem_row(target, quantity, value, noise="gaussian", theorem="theorem-3")
        for target, value in (("dqn", 0.5), ("sum", 0.9))
        for quantity in ("bias", "variance")
    ]
    found = theorem_findings(tmp_path, *rows)
    (statement,) = (name for name in found if "Theorem 3" in name)
    assert statement == "Does Theorem 3 hold for Gaussian noise as well"
    assert found[statement].is_question
    assert outcomes(found[statement]) == {"bias": "holds", "variance": "holds"}


def test_no_rows_are_not_enough(tmp_path: Path) -> None:
    (only,) = theorem_findings(tmp_path).values()
    assert outcomes(only) == {"": "not enough data"}
    assert theory_figures.theorem_figures(results.load_results(tmp_path)["theorems"]) == []


def test_the_tabular_problem_is_judged_by_its_mean_frequency(tmp_path: Path) -> None:
    frequencies = {
        ("decqn", 2, 3): 90.0,
        ("revalued", 2, 3): 91.0,
        ("decqn", 5, 10): 20.0,
        ("revalued", 5, 10): 80.0,
        ("decqn", 10, 10): 80.0,
        ("revalued", 10, 10): 20.0,
        ("revalued-mean", 10, 10): 40.0,
    }
    write_tabular(tmp_path, frequencies)
    claim, question = theory.tabular_findings(results.load_results(tmp_path)["tabular"])
    expected = {"N = 2, n = 3": "undecided", "N = 5, n = 10": "holds", "N = 10, n = 10": "does not hold"}
    assert outcomes(claim) == expected
    # means over 50% and the last frequency; 1.96 · √(1 + 1) = 2.8
    assert claim.verdicts[1].detail == "65.0% against 35.0%; difference +30.0 [+27.2, +32.8]"
    assert (claim.is_question, question.is_question) == (False, True)
    assert outcomes(question) == {"N = 10, n = 10": "holds"}


def test_one_word_for_several_verdicts() -> None:
    def word(*outcomes: Decision) -> str:
        return tables.headline(Finding("s", "x", tuple(Verdict("w", outcome, "d") for outcome in outcomes)))

    assert word("holds", "holds", "not enough data") == "holds"
    assert word("not enough data") == "not enough data"
    assert word("perhaps", "not enough data") == "perhaps"
    assert word("perhaps", "perhaps not") == "mixed"
    assert word("does not hold", "perhaps") == "does not hold"  # single seeds change no verdict
    assert word("holds", "undecided") == "holds in part"
    assert word("does not hold", "undecided", "not enough data") == "fails in part"
    assert word("holds", "does not hold", "undecided") == "mixed"
    assert tables.answer("holds in part", is_question=True) == "partly yes"
    assert tables.answer("holds in part", is_question=False) == "holds in part"


def test_mean_frequencies_take_the_mean_error(tmp_path: Path) -> None:
    write_tabular(tmp_path, {("decqn", 2, 3): 90.0}, standard_error=2.0)
    found = theory.mean_frequencies(results.load_results(tmp_path)["tabular"].rows, "decqn")
    assert found[2, 3].value == pytest.approx(70)
    assert found[2, 3].error == pytest.approx(2)
