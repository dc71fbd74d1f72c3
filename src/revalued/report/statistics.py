"""Statistics over seeds: final performance, standard errors, bootstrap intervals, interquartile means, curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from revalued.experiments.recorded import FINAL_EVALUATIONS
from revalued.experiments.scales import PAPER_TIMED_ENV_STEPS
from revalued.report.results import ExperimentResults, Floats, RunResults
from revalued.seeding import stream_rng

RESAMPLES = 10_000
CURVE_RESAMPLES = 1_000
LEVEL = 0.95
SEED = 0
"""The bootstrap's seed: the same files give the same intervals."""
CURVE_POINTS = 120

Interval = tuple[float, float]
Groups = Sequence[Sequence[float] | Floats]
"""Numbers of several groups, such as returns of several tasks, one per seed."""


@dataclass(frozen=True)
class Summary:
    """A mean over seeds; no standard error and no interval with a single seed."""

    mean: float
    standard_error: float | None
    interval: Interval | None
    seeds: int


@dataclass(frozen=True)
class Timing:
    """How long training takes: until the first test episode, and for every interaction after it."""

    first_s: float
    first_env_steps: float
    seconds_per_env_step: float

    def minutes(self, env_steps: Floats) -> Floats:
        """Return when a run with this pace has made so many interactions."""
        return (self.first_s + (env_steps - self.first_env_steps) * self.seconds_per_env_step) / 60


@dataclass(frozen=True)
class Curve:
    """A mean learning curve, over interactions unless said otherwise; with a bootstrap band over several seeds."""

    xs: Floats
    mean: Floats
    band: tuple[Floats, Floats] | None
    finished: bool


def final_performance(run: RunResults, last: int = FINAL_EVALUATIONS) -> float:
    """Return the mean of a run's last evaluations, of all where there are fewer."""
    return float(run.returns[-last:].mean())


def recent_means(returns: Floats, last: int = FINAL_EVALUATIONS) -> Floats:
    """Return at every evaluation the mean of the last ones: what a curve shows, and where it ends, a table says."""
    sums = np.concatenate([[0.0], np.cumsum(returns)])
    ends = np.arange(1, len(returns) + 1)
    begins = np.maximum(ends - last, 0)
    return np.asarray((sums[ends] - sums[begins]) / (ends - begins))


def mean_over_run(run: RunResults) -> float:
    """Return the mean return from the first interaction to the last: the normalised area under the learning curve."""
    if len(run.env_steps) < 2:
        return float(run.returns.mean())
    return float(np.trapezoid(run.returns, run.env_steps) / (run.env_steps[-1] - run.env_steps[0]))


def summarise(values: Sequence[float], seed: int = SEED) -> Summary:
    """Return mean, standard error (sample deviation over √seeds) and bootstrap interval of one number per seed."""
    sample = np.asarray(values, dtype=np.float64)
    if len(sample) < 2:
        return Summary(float(sample.mean()), None, None, len(sample))
    error = float(sample.std(ddof=1) / np.sqrt(len(sample)))
    return Summary(float(sample.mean()), error, bootstrap([sample], lambda drawn: _mean(drawn[0]), seed), len(sample))


def final_success(run: RunResults, last: int = FINAL_EVALUATIONS) -> float | None:
    """Return how often a run's last evaluations reached the goal, None where the task does not say."""
    known = run.success[~np.isnan(run.success)][-last:]
    return float(known.mean()) if len(known) else None


def final_summary(experiment: ExperimentResults, variant: str, task: str) -> Summary | None:
    """Return the final performance of a variant on a task, None where no run is finished."""
    runs = experiment.of(variant, task)
    return summarise([final_performance(run) for run in runs]) if runs else None


def bootstrap(
    groups: Groups,
    statistic: Callable[[list[Floats]], Floats],
    seed: int = SEED,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> Interval:
    """Return the percentile bootstrap interval of a statistic; every group is resampled within itself (stratified).

    The statistic gets, for each group, an array [resamples, size of the group] and returns one number per resample.
    """
    rng = stream_rng(seed)
    drawn = []
    for group in groups:
        sample = np.asarray(group, dtype=np.float64)
        drawn.append(sample[rng.integers(len(sample), size=(resamples, len(sample)))])
    low, high = np.quantile(statistic(drawn), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def difference(first: Sequence[float], second: Sequence[float]) -> tuple[float, Interval]:
    """Return the difference of two means over seeds, first minus second, with its bootstrap interval."""
    value = float(np.mean(first) - np.mean(second))
    return value, bootstrap([first, second], lambda drawn: _mean(drawn[0]) - _mean(drawn[1]))


def ratio(first: Sequence[float], second: Sequence[float]) -> tuple[float, Interval]:
    """Return the ratio of two means over seeds, first over second, with its bootstrap interval."""
    value = float(np.mean(first) / np.mean(second))
    return value, bootstrap([first, second], lambda drawn: _mean(drawn[0]) / _mean(drawn[1]))


def interquartile_mean(values: Floats) -> Floats:
    """Return the mean of the middle half along the last axis: a quarter is cut off at either end, rounded down."""
    ordered = np.sort(values, axis=-1)
    size = ordered.shape[-1]
    cut = int(0.25 * size)
    return np.asarray(ordered[..., cut : size - cut].mean(axis=-1))


def interquartile_summary(tasks: Groups) -> Summary:
    """Return the interquartile mean over tasks × seeds; seeds are resampled within each task."""
    value = float(interquartile_mean(np.concatenate([np.asarray(task, dtype=np.float64) for task in tasks])))
    seeds = min(len(task) for task in tasks)
    if seeds < 2:
        return Summary(value, None, None, seeds)
    interval = bootstrap(tasks, lambda drawn: interquartile_mean(np.concatenate(drawn, axis=1)))
    return Summary(value, None, interval, seeds)


def interquartile_difference(first: Groups, second: Groups) -> tuple[float, Interval]:
    """Return the difference of two interquartile means over the same tasks, with its stratified bootstrap interval."""

    def statistic(drawn: list[Floats]) -> Floats:
        ours, theirs = drawn[: len(first)], drawn[len(first) :]
        return interquartile_mean(np.concatenate(ours, axis=1)) - interquartile_mean(np.concatenate(theirs, axis=1))

    value = float(statistic([np.asarray(task, dtype=np.float64)[None] for task in (*first, *second)])[0])
    return value, bootstrap([*first, *second], statistic)


def difference_over_tasks(first: Groups, second: Groups) -> tuple[float, Interval]:
    """Return the mean over tasks of the difference of two means over seeds; tasks are resampled, not seeds.

    That is what single seeds allow: chance within a task is part of what differs from task to task.
    """
    found = [float(np.mean(ours) - np.mean(theirs)) for ours, theirs in zip(first, second, strict=True)]
    return float(np.mean(found)), bootstrap([found], lambda drawn: _mean(drawn[0]))


def curve(runs: Sequence[RunResults]) -> Curve:
    """Return the mean curve of several seeds, interpolated on what all of them cover.

    Single test episodes jump, so every point is the mean of the last few.
    """
    lines = [run.env_steps for run in runs]
    start, end = max(xs[0] for xs in lines), min(xs[-1] for xs in lines)
    evaluations = max(len(xs) for xs in lines)  # no more points than there is anything to see
    grid = np.linspace(start, max(start, end), min(CURVE_POINTS, evaluations))
    values = np.stack([np.interp(grid, xs, recent_means(run.returns)) for xs, run in zip(lines, runs, strict=True)])
    band = None
    if len(runs) > 1:
        chosen = stream_rng(SEED).integers(len(runs), size=(CURVE_RESAMPLES, len(runs)))
        low, high = np.quantile(values[chosen].mean(axis=1), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        band = low, high
    return Curve(grid, values.mean(axis=0), band, all(run.finished for run in runs))


def pace(runs: Sequence[RunResults]) -> Timing | None:
    """Return the median pace of several runs; None where their times are unknown.

    A run's own pace is the median between two test episodes: that it was halted, or had to share its core for a while,
    does not move it.
    """
    found = []
    for run in runs:
        known = ~np.isnan(run.wall_s)
        steps, wall = run.env_steps[known], run.wall_s[known]
        if len(steps) > 1:
            found.append((wall[0], steps[0], np.median(np.diff(wall) / np.diff(steps))))
    return Timing(*(float(value) for value in np.median(found, axis=0))) if found else None


def projected_minutes(run: RunResults, target_env_steps: int = PAPER_TIMED_ENV_STEPS) -> tuple[float, bool] | None:
    """Return the minutes a run takes to the target, and whether that is a projection from a shorter run.

    The pace is that after the first evaluation, so that start-up and the interactions before the first update do not
    count as training. None where the times do not say.
    """
    found = pace([run])
    if found is None or found.seconds_per_env_step <= 0:
        return None
    return float(found.minutes(np.array(target_env_steps))), bool(run.env_steps[-1] < 0.99 * target_env_steps)


def separation_by_chance(seeds: int) -> float:
    """Return how often all seeds of one of two equal algorithms, so many seeds each, lie above all of the other."""
    return 2 / math.comb(2 * seeds, seeds)  # either may be the upper one: 2 · n! n! / (2n)!


def _mean(drawn: Floats) -> Floats:
    return np.asarray(drawn.mean(axis=1))
