"""Closed forms against exact numbers, Monte Carlo against closed forms, and what the theorems claim."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from revalued.experiments.closed_forms import (
    Noise,
    Target,
    irwin_hall_cdf,
    maximum_of_gaussians,
    maximum_of_uniform_means,
    maximum_of_uniforms,
    target_difference,
)
from revalued.experiments.result_files import THEOREM_COLUMNS
from revalued.experiments.theorems import (
    GRIDS,
    Sample,
    estimate,
    factorised_targets,
    sample_factorised,
    sample_maximum,
    theorem_rows,
)

GAMMA = 0.99


def difference(target: Target, noise: Noise, dimensions: int, choices: int, critics: int) -> tuple[float, float]:
    moments = target_difference(target, noise, dimensions, choices, critics, GAMMA, 1.0)
    return moments.mean, moments.variance


def exact_irwin_hall(x: Fraction, count: int) -> Fraction:
    """The textbook formula in exact arithmetic, where its alternating signs do no harm."""
    terms = ((-1) ** j * math.comb(count, j) * (x - j) ** count for j in range(math.floor(x) + 1))
    return Fraction(sum(terms), math.factorial(count))


def test_lemma_1_by_hand() -> None:
    # two draws from Uniform(−1, 1): mean 1/3, variance 4·2 / (9·4); b scales the mean by b and the variance by b²
    assert maximum_of_uniforms(2, 1.0).mean == pytest.approx(1 / 3, rel=1e-15)
    assert maximum_of_uniforms(2, 1.0).variance == pytest.approx(2 / 9, rel=1e-15)
    assert maximum_of_uniforms(3, 2.0).mean == pytest.approx(1.0, rel=1e-15)
    assert maximum_of_uniforms(3, 2.0).variance == pytest.approx(0.6, rel=1e-15)


def test_lemma_1_does_not_overflow_for_the_joint_actions_of_100_dimensions() -> None:
    count = 30**100
    assert maximum_of_uniforms(count, 1.0).mean == 1.0
    assert maximum_of_uniforms(count, 1.0).variance == pytest.approx(4 / count**2, rel=1e-12)


@pytest.mark.parametrize("count", [1, 2, 3, 10, 25])
def test_the_distribution_of_a_sum_of_uniforms_is_exact_also_in_its_tail(count: int) -> None:
    points = [Fraction(count * i, 97) for i in range(1, 97)]
    expected = np.array([float(exact_irwin_hall(point, count)) for point in points])
    actual = irwin_hall_cdf(np.array([float(point) for point in points]), count)
    np.testing.assert_allclose(actual, expected, rtol=1e-11)  # relative: the first is 1e-40 for 25 draws


@pytest.mark.parametrize("count", [1, 2, 3, 30, 1000, 1_000_000])
def test_one_critic_is_lemma_1(count: int) -> None:
    exact = maximum_of_uniforms(count, 1.0)
    integrated = maximum_of_uniform_means(count, 1, 1.0)
    assert integrated.mean == pytest.approx(exact.mean, rel=1e-12, abs=1e-13)
    assert 1 - integrated.mean == pytest.approx(1 - exact.mean, rel=1e-9)
    assert integrated.variance == pytest.approx(exact.variance, rel=1e-9 if count <= 1000 else 1e-6)


def test_means_of_uniforms_by_hand() -> None:
    # one choice: the mean of K draws has variance b²/(3K)
    for critics in (1, 2, 7, 40):
        alone = maximum_of_uniform_means(1, critics, 2.0)
        assert alone.mean == pytest.approx(0.0, abs=1e-13)
        assert alone.variance == pytest.approx(4 / (3 * critics), rel=1e-12)
    # two choices, two critics: the mean of two draws is triangular on [−1, 1], and E max = E|X − Y| / 2 = 7/30
    assert maximum_of_uniform_means(2, 2, 1.0).mean == pytest.approx(7 / 30, rel=1e-12)


def test_maximum_of_gaussians_by_hand() -> None:
    # known values: E max of 2 is 1/√π, of 3 is 3/(2√π); Var max of 2 is 1 − 1/π
    assert maximum_of_gaussians(1, 3.0).mean == pytest.approx(0.0, abs=1e-12)
    assert maximum_of_gaussians(1, 3.0).variance == pytest.approx(9.0, rel=1e-12)
    assert maximum_of_gaussians(2, 1.0).mean == pytest.approx(1 / math.sqrt(math.pi), rel=1e-12)
    assert maximum_of_gaussians(2, 1.0).variance == pytest.approx(1 - 1 / math.pi, rel=1e-11)
    assert maximum_of_gaussians(3, 1.0).mean == pytest.approx(1.5 / math.sqrt(math.pi), rel=1e-12)


@pytest.mark.parametrize(
    ("point", "decqn_bias", "eq5_bias", "eq5_ratio"),
    [((6, 3, 10), 0.495, 0.1534, 1.227), ((6, 30, 5), 0.9261, 0.5110, 15.74)],
)
def test_both_readings_of_theorem_2(
    point: tuple[int, int, int], decqn_bias: float, eq5_bias: float, eq5_ratio: float
) -> None:
    bias, variance = difference("decqn", "uniform", point[0], point[1], 1)
    assert bias == pytest.approx(decqn_bias, abs=5e-5)
    proof_bias, proof_variance = difference("mean-of-max", "uniform", *point)
    assert proof_bias == bias
    assert proof_variance * point[2] == pytest.approx(variance, rel=1e-12)
    algorithm_bias, algorithm_variance = difference("max-of-mean", "uniform", *point)
    assert algorithm_bias == pytest.approx(eq5_bias, abs=5e-5)
    assert algorithm_variance * point[2] / variance == pytest.approx(eq5_ratio, rel=5e-4)


def test_gaussian_noise_shrinks_by_the_square_root_of_the_critics() -> None:
    bias, variance = difference("decqn", "gaussian", 6, 3, 1)
    ensemble_bias, ensemble_variance = difference("max-of-mean", "gaussian", 6, 3, 10)
    assert ensemble_bias == pytest.approx(bias / math.sqrt(10), rel=1e-10)
    assert ensemble_variance == pytest.approx(variance / 10, rel=1e-10)


@pytest.mark.parametrize("choices", [2, 3, 10, 30])
@pytest.mark.parametrize("dimensions", [1, 2, 6, 38])
def test_theorems_1_and_3_hold_for_uniform_noise(dimensions: int, choices: int) -> None:
    dqn_bias, dqn_variance = difference("dqn", "uniform", dimensions, choices, 1)
    bias, variance = difference("decqn", "uniform", dimensions, choices, 1)
    sum_bias, sum_variance = difference("sum", "uniform", dimensions, choices, 1)
    assert bias <= dqn_bias <= sum_bias * (1 + 1e-12)
    assert dqn_variance <= variance * (1 + 1e-12)
    assert sum_bias == pytest.approx(dimensions * bias)
    assert sum_variance == pytest.approx(dimensions**2 * variance)


def test_the_variance_claim_of_theorem_1_needs_bounded_noise() -> None:
    _, dqn_variance = difference("dqn", "gaussian", 6, 3, 1)
    _, variance = difference("decqn", "gaussian", 6, 3, 1)
    assert variance < 0.75 * dqn_variance


def test_factorised_targets_against_loops() -> None:
    draws = np.random.default_rng(0).uniform(-1, 1, (4, 5, 7, 3))  # n, K, S, N
    targets = factorised_targets(draws, (2, 5))
    assert set(targets) == {("decqn", 1), ("sum", 1)} | {(t, k) for t in ("mean-of-max", "max-of-mean") for k in (2, 5)}
    for s in range(7):
        first = [max(draws[a, 0, s, i] for a in range(4)) for i in range(3)]
        assert targets["decqn", 1][s] == pytest.approx(sum(first) / 3)
        assert targets["sum", 1][s] == pytest.approx(sum(first))
        for count in (2, 5):
            maxima = [[max(draws[a, k, s, i] for a in range(4)) for k in range(count)] for i in range(3)]
            means = [[sum(draws[a, k, s, i] for k in range(count)) / count for a in range(4)] for i in range(3)]
            assert targets["mean-of-max", count][s] == pytest.approx(sum(map(sum, maxima)) / (3 * count))
            assert targets["max-of-mean", count][s] == pytest.approx(sum(map(max, means)) / 3)


def test_chunks_add_up_to_the_samples_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("revalued.experiments.theorems.CHUNK_DRAWS", 100)
    drawn = sample_factorised(np.random.default_rng(0), "uniform", 2, 3, (2, 4), 23)
    assert {len(sample.deviations) for sample in drawn.values()} == {23}
    assert len(np.unique(drawn["decqn", 1].deviations)) == 23


@pytest.mark.parametrize("noise", ["uniform", "gaussian"])
def test_sampling_a_maximum_by_its_distribution_equals_taking_maxima(noise: Noise) -> None:
    exact = target_difference("maximum", noise, 1, 9, 1, 1.0, 2.0)
    estimates = estimate(sample_maximum(np.random.default_rng(1), noise, 9, 50_000, 2.0), 1.0)
    for quantity, expected in (("bias", exact.mean), ("variance", exact.variance)):
        value, error = estimates[quantity]
        assert abs(value - expected) < 5 * error


def test_the_variance_of_a_maximum_over_all_joint_actions_of_dog_keeps_its_digits() -> None:
    estimates = estimate(sample_maximum(np.random.default_rng(2), "uniform", 3**38, 20_000, 1.0), GAMMA)
    exact = target_difference("dqn", "uniform", 38, 3, 1, GAMMA, 1.0)
    assert exact.variance < 1e-35
    value, error = estimates["variance"]
    assert abs(value - exact.variance) < 5 * error


def test_estimate_by_hand() -> None:
    # deviations ±1 from 10, times 2: mean 20, s² = 4·4/3, kurtosis about the mean with s: (3/4)² = 9/16
    estimates = estimate(Sample(10.0, np.array([1.0, -1.0, 1.0, -1.0])), 2.0)
    bias, error = estimates["bias"]
    assert bias == 20.0
    assert error == pytest.approx(math.sqrt(16 / 3 / 4))
    assert estimates["variance"] == pytest.approx((16 / 3, 16 / 3 * math.sqrt((9 / 16 - 1 / 3) / 4)))


def test_standard_errors_describe_the_spread_of_estimates() -> None:
    rng = np.random.default_rng(3)
    repeats = [estimate(Sample(0.0, rng.uniform(-1, 1, 400)), 1.0) for _ in range(2000)]
    for quantity in ("bias", "variance"):
        values, errors = zip(*(repeat[quantity] for repeat in repeats), strict=True)
        spread, claimed = np.std(values), np.mean(errors)
        assert claimed == pytest.approx(spread, rel=0.06)  # the spread of 2000 has a relative error of 1.6%


@pytest.fixture(scope="module")
def smoke() -> tuple[list[dict[str, Any]], list[float]]:
    fractions: list[float] = []
    return theorem_rows("smoke", fractions.append), fractions


def test_monte_carlo_agrees_with_the_closed_forms(smoke: tuple[list[dict[str, Any]], list[float]]) -> None:
    rows, _ = smoke
    distances = [abs(row["monte_carlo"] - row["closed_form"]) / row["standard_error"] for row in rows]
    assert max(distances) < 5
    assert 0.5 < np.sqrt(np.mean(np.square(distances))) < 1.5  # errors neither exaggerated nor played down


def test_rows_cover_the_grid_and_each_theorem_has_both_sides(smoke: tuple[list[dict[str, Any]], list[float]]) -> None:
    rows, fractions = smoke
    assert all(tuple(row) == THEOREM_COLUMNS for row in rows)
    targets = {name: {row["target"] for row in rows if row["theorem"] == name} for name in {r["theorem"] for r in rows}}
    assert targets == {
        "lemma-1": {"maximum"},
        "theorem-1": {"dqn", "decqn"},
        "theorem-2": {"decqn", "mean-of-max", "max-of-mean"},
        "theorem-3": {"dqn", "sum"},
    }
    keys = [tuple(row[name] for name in THEOREM_COLUMNS[1:8]) for row in rows]
    assert len(set(keys)) == len(keys) == 2 * (2 + 2 * 2 * 2 * (2 + 5 + 2))
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0


def test_the_same_numbers_every_time(smoke: tuple[list[dict[str, Any]], list[float]]) -> None:
    assert theorem_rows("smoke", lambda _: None) == smoke[0]


def test_full_scale_includes_the_points_of_the_documentation() -> None:
    for scale in ("laptop", "paper"):
        grid = GRIDS[scale]
        assert 6 in grid.dimensions
        assert {3, 30} <= set(grid.choices)
        assert {5, 10} <= set(grid.critics)


def test_the_page_on_theory_quotes_the_closed_forms() -> None:
    page = (Path(__file__).parents[1] / "docs/theory.md").read_text(encoding="utf-8")
    number = r"([\d.]+) \| "
    rows = re.findall(rf"^\| {4 * number}[\d.]+ ± [\d.]+ \| 1.00 \| {number}", page, re.M)
    assert len(rows) == 5
    for n, K, decqn_bias, eq5_bias, eq5_ratio in rows:
        bias, variance = difference("decqn", "uniform", 6, int(n), 1)
        ensemble_bias, ensemble_variance = difference("max-of-mean", "uniform", 6, int(n), int(K))
        assert f"{bias:.4f}" == decqn_bias
        assert f"{ensemble_bias:.4f}" == eq5_bias
        assert f"{int(K) * ensemble_variance / variance:.2f}" == eq5_ratio
