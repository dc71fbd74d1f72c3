"""Statistics of repeated measurements: medians and quartiles, ratios of alternating rounds, straight-line fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Sample:
    """Many measurements of one quantity in three numbers."""

    median: float
    lower_quartile: float
    upper_quartile: float

    def __str__(self) -> str:
        return f"{self.median:.3g} [{self.lower_quartile:.3g}, {self.upper_quartile:.3g}]"


def summarise(values: Sequence[float]) -> Sample:
    """Return median and quartiles."""
    if len(values) == 0:
        raise ValueError("there is nothing to summarise")
    lower, median, upper = np.percentile(np.asarray(values, np.float64), [25, 50, 75]).tolist()
    return Sample(median, lower, upper)


def paired_ratio(numerators: Sequence[Sequence[float]], denominators: Sequence[Sequence[float]]) -> Sample:
    """Return the ratio of two things that were measured in alternating rounds.

    The two medians of one round were taken within a second or so of each other, so a machine that slows down for a
    while slows both; the median over rounds then leaves out rounds in which something else got in between.
    """
    pairs = zip(numerators, denominators, strict=True)
    return summarise([float(np.median(above)) / float(np.median(below)) for above, below in pairs])


@dataclass(frozen=True)
class Line:
    """y = intercept + slope · x, fitted by least relative squares."""

    intercept: float
    slope: float
    largest_deviation: float
    """Of any point from the line, as a fraction of the line's value there."""


def fit_line(x: Sequence[float], y: Sequence[float]) -> Line:
    """Fit a straight line; errors count relative to y, so that small values are fitted as well as large ones."""
    xs, ys = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if len(xs) < 2:
        raise ValueError("a line needs two points")
    design = np.stack([np.ones_like(xs), xs], axis=1) / ys[:, None]
    (intercept, slope), *_ = np.linalg.lstsq(design, np.ones_like(ys), rcond=None)
    fitted = intercept + slope * xs
    return Line(float(intercept), float(slope), float(np.abs(ys / fitted - 1).max()))
