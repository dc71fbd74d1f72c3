"""The report's statistics against numbers worked out by hand and slower twins."""

from __future__ import annotations

import importlib
import itertools
import math
from typing import Any

import numpy as np
import pytest

from report_data import make_run
from revalued.experiments.recorded import FINAL_EVALUATIONS
from revalued.report import statistics
from revalued.report.results import RunResults

scipy_stats: Any = importlib.import_module("scipy.stats")


def test_final_performance_is_the_mean_of_the_last_evaluations() -> None:
    run = make_run([0, 100, 200, 300, 600])
    assert FINAL_EVALUATIONS == 3
    assert statistics.final_performance(run) == pytest.approx((200 + 300 + 600) / 3)
    assert statistics.final_performance(run, last=1) == 600
    assert statistics.final_performance(make_run([10, 30])) == 20  # fewer than three: all of them


def test_mean_over_a_run_is_the_area_under_its_curve() -> None:
    assert statistics.mean_over_run(make_run([0, 100, 0])) == pytest.approx(50)
    uneven = RunResults("v", "t", 0, np.array([0.0, 10.0, 40.0]), np.array([0.0, 10.0, 10.0]), np.zeros(3), True)
    assert statistics.mean_over_run(uneven) == pytest.approx((10 * 5 + 30 * 10) / 40)
    assert statistics.mean_over_run(make_run([7])) == 7


def test_mean_and_standard_error_by_hand() -> None:
    summary = statistics.summarise([1.0, 2.0, 6.0])
    assert summary.mean == 3
    # squared deviations 4 + 1 + 9 = 14, over 2, rooted, over √3
    assert summary.standard_error == pytest.approx(math.sqrt(7 / 3))
    assert summary.seeds == 3
    assert summary.interval is not None
    assert 1 <= summary.interval[0] < 3 < summary.interval[1] <= 6


def test_a_single_seed_has_no_interval() -> None:
    summary = statistics.summarise([5.0])
    assert (summary.mean, summary.standard_error, summary.interval, summary.seeds) == (5, None, None, 1)
    curve = statistics.curve([make_run([1, 2, 3])])
    assert curve.band is None
    single = statistics.interquartile_summary([[1.0], [2.0, 3.0]])
    assert single.interval is None


def test_bootstrap_of_two_values_by_hand() -> None:
    # the means of {0, 10} resampled are 0, 5 and 10 with probability 1/4, 1/2 and 1/4
    assert statistics.summarise([0.0, 10.0]).interval == (0, 10)
    interval = statistics.bootstrap([[0.0, 10.0]], lambda drawn: drawn[0].mean(axis=1), level=0.4)
    assert interval == (5, 5)


def test_bootstrap_agrees_with_all_resamples() -> None:
    values = [3.0, 8.0, 1.0, 6.0]
    means = [np.mean(chosen) for chosen in itertools.product(values, repeat=4)]
    expected = np.quantile(means, [0.025, 0.975])
    found = statistics.summarise(values).interval
    assert found == pytest.approx(expected, abs=0.3)


def test_bootstrap_agrees_with_scipy() -> None:
    sample = np.random.default_rng(3).normal(100, 20, size=12)
    theirs = scipy_stats.bootstrap((sample,), np.mean, method="percentile", rng=1).confidence_interval
    assert statistics.summarise(sample.tolist()).interval == pytest.approx(tuple(theirs), abs=0.6)


def test_the_bootstrap_honours_its_seed() -> None:
    values = np.random.default_rng(0).normal(size=9).tolist()
    first = statistics.summarise(values, seed=1).interval
    assert statistics.summarise(values, seed=1).interval == first
    assert statistics.summarise(values, seed=2).interval != first


def test_difference_and_ratio_of_means() -> None:
    value, interval = statistics.difference([10.0, 12.0], [1.0, 3.0])
    assert value == 9
    assert interval == (7, 11)  # from 10 − 3 to 12 − 1
    value, interval = statistics.ratio([10.0, 12.0], [2.0, 3.0])
    assert value == pytest.approx(11 / 2.5)
    assert interval == pytest.approx((10 / 3, 6))


def test_interquartile_mean_by_hand_and_as_in_scipy() -> None:
    assert statistics.interquartile_mean(np.array([100.0, 1.0, 2.0, 3.0])) == 2.5
    assert statistics.interquartile_mean(np.array([0.0, 4.0, 5.0])) == 3  # a quarter of three, rounded down, is none
    rng = np.random.default_rng(1)
    for size in range(1, 12):
        values = rng.normal(size=(3, size))
        assert statistics.interquartile_mean(values) == pytest.approx(scipy_stats.trim_mean(values, 0.25, axis=1))


def test_the_interquartile_bootstrap_stays_within_tasks() -> None:
    # seeds of one task agree, tasks do not: resampling within tasks can change nothing
    summary = statistics.interquartile_summary([[1.0, 1.0], [5.0, 5.0], [9.0, 9.0]])
    assert summary.mean == 5
    assert summary.interval == (5, 5)
    value, interval = statistics.interquartile_difference([[1.0, 1.0], [7.0, 7.0]], [[0.0, 0.0], [2.0, 2.0]])
    # the middle halves of 1 1 7 7 and of 0 0 2 2
    assert value == 4 - 1
    assert interval == (3, 3)


def test_recent_means_by_hand() -> None:
    assert statistics.recent_means(np.array([3.0, 5.0, 10.0, 0.0, 2.0])).tolist() == [3, 4, 6, 5, 4]
    run = make_run([3, 5, 10, 0, 2])
    assert statistics.recent_means(run.returns)[-1] == statistics.final_performance(run)


def test_curves_are_interpolated_where_all_seeds_are_known() -> None:
    slow = RunResults("v", "t", 0, np.array([0.0, 100.0]), np.array([0.0, 100.0]), np.zeros(2), True)
    late = RunResults("v", "t", 1, np.array([20.0, 60.0, 80.0]), np.array([100.0, 100.0, 200.0]), np.zeros(3), False)
    curve = statistics.curve([slow, late])
    assert curve.xs.tolist() == [20, 50, 80]  # no more points than evaluations
    # means of the last three: 0, 50 and 100, 100, 133 1/3
    assert curve.mean == pytest.approx([(10 + 100) / 2, (25 + 100) / 2, (40 + 400 / 3) / 2])
    assert curve.band is not None
    assert curve.band[0] == pytest.approx([10, 25, 40])
    assert curve.band[1] == pytest.approx([100, 100, 400 / 3])
    assert not curve.finished


def test_wall_time_is_projected_from_the_rate_after_the_first_evaluation() -> None:
    # 100 s until the first evaluation after 10,000 interactions, then 20,000 interactions in 100 s
    run = RunResults("v", "t", 0, np.array([1e4, 3e4]), np.zeros(2), np.array([100.0, 200.0]), True)
    found = statistics.projected_minutes(run)
    assert found is not None
    assert found[0] == pytest.approx((100 + 490_000 / 200) / 60)
    assert found[1]
    whole = RunResults("v", "t", 0, np.array([1e4, 5e5]), np.zeros(2), np.array([100.0, 700.0]), True)
    found = statistics.projected_minutes(whole)
    assert found is not None
    assert found[0] == pytest.approx(700 / 60)
    assert not found[1]
    assert statistics.projected_minutes(make_run([1])) is None
    unknown = RunResults("v", "t", 0, np.array([1e4, 5e5]), np.zeros(2), np.array([np.nan, 700.0]), True)
    assert statistics.projected_minutes(unknown) is None


def test_a_halt_does_not_move_the_pace() -> None:
    steps = np.array([10.0, 20.0, 30.0, 40.0])
    halted = RunResults("v", "t", 0, steps, np.zeros(4), np.array([5.0, 10.0, 100.0, 105.0]), True)
    pace = statistics.pace([halted])
    assert pace == statistics.Timing(5.0, 10.0, 0.5)
    assert pace.minutes(np.array([10.0, 130.0])) == pytest.approx([5 / 60, 65 / 60])
    slower = RunResults("v", "t", 1, steps, np.zeros(4), np.array([7.0, 17.0, 27.0, 37.0]), True)
    untimed = RunResults("v", "t", 2, steps, np.zeros(4), np.full(4, np.nan), True)
    assert statistics.pace([halted, slower, untimed]) == statistics.Timing(6.0, 10.0, 0.75)
    assert statistics.pace([untimed, make_run([1])]) is None


def test_how_often_equal_algorithms_lie_apart_by_chance() -> None:
    for seeds in (1, 2, 3, 4):
        orders = list(itertools.combinations(range(2 * seeds), seeds))
        apart = [ranks for ranks in orders if max(ranks) < seeds or min(ranks) >= seeds]
        assert statistics.separation_by_chance(seeds) == pytest.approx(len(apart) / len(orders))


def test_differences_over_tasks_resample_the_tasks() -> None:
    value, (low, high) = statistics.difference_over_tasks([[5.0, 7.0], [2.0]], [[1.0], [4.0]])
    assert value == pytest.approx(1.5)  # 6 - 1 and 2 - 4
    assert (low, high) == (-2.0, 5.0)  # a quarter of all resamples has either task twice
    value, interval = statistics.difference_over_tasks([[3.0]] * 6, [[1.0]] * 6)
    assert (value, interval) == (2.0, (2.0, 2.0))
