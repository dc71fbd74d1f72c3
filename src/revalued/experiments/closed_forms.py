"""Bias and variance of a target under independent noise, without sampling: Lemma 1 and Theorems 1 to 3.

A utility is its true value, here 0, plus noise: Uniform(−b, b), or Gaussian with the same variance b²/3, so that the
two can be compared. Everything follows from one quantity, the maximum of n independent draws. For uniform draws it has
the closed form of Lemma 1. For Gaussian draws and for means of K uniform draws its moments are integrals of F(x)ⁿ, F
the distribution function of one draw, computed here to about ten digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[np.float64]
Noise = Literal["uniform", "gaussian"]
Target = Literal["maximum", "dqn", "decqn", "mean-of-max", "max-of-mean", "sum"]

NODES_PER_PANEL = 32
PANELS_PER_UNIT = 8
HALVINGS = 30
GAUSSIAN_TAIL = 10.0  # standard deviations beyond which nothing reaches the tenth digit: P(X > 10σ) < 1e-23


@dataclass(frozen=True)
class Moments:
    """Mean and variance of a random variable."""

    mean: float
    variance: float

    def scaled(self, factor: float) -> Moments:
        """Return the moments of `factor` times the variable."""
        return Moments(factor * self.mean, factor**2 * self.variance)

    def averaged(self, count: int) -> Moments:
        """Return the moments of the mean of `count` independent copies."""
        return Moments(self.mean, self.variance / count)


def gaussian_scale(bound: float) -> float:
    """Return the standard deviation of Uniform(−b, b), b/√3, which the Gaussian noise shares."""
    return bound / math.sqrt(3.0)


def maximum_of_uniforms(count: int, bound: float) -> Moments:
    """Lemma 1: the maximum of n draws from Uniform(−b, b)."""
    n = float(count)
    # divided step by step: n may be the number of joint actions, and n³ would overflow long before n does
    return Moments(bound * (n - 1) / (n + 1), 4 * bound**2 * (n / (n + 1)) / (n + 1) / (n + 2))


def maximum_of_gaussians(count: int, scale: float) -> Moments:
    """Return the moments of the maximum of n draws from a Gaussian of mean 0 and standard deviation `scale`."""
    upper = math.sqrt(2.0 * math.log(count)) + GAUSSIAN_TAIL  # the maximum itself grows like √(2 log n)
    shortfall, weights = _quadrature(upper + GAUSSIAN_TAIL)
    log_cdf = torch.special.log_ndtr(torch.from_numpy(upper - shortfall)).numpy()
    return _from_shortfall(shortfall, weights, np.exp(float(count) * log_cdf), upper).scaled(scale)


def maximum_of_uniform_means(count: int, critics: int, bound: float) -> Moments:
    """Return the moments of the maximum of n independent means of K draws from Uniform(−b, b)."""
    # in units where the sum of the K draws runs from 0 to K; a sum falls short of K by less than t with probability
    # irwin_hall_cdf(t), by symmetry, so that the tail which decides the maximum is computed without cancellation
    shortfall, weights = _quadrature(float(critics))
    not_reached = (1.0 - irwin_hall_cdf(shortfall, critics)).clip(0.0, 1.0) ** count
    return _from_shortfall(shortfall, weights, not_reached, critics / 2).scaled(2 * bound / critics)


def irwin_hall_cdf(x: Array, count: int) -> Array:
    """Return P(sum of `count` draws from Uniform(0, 1) ≤ x) for 0 ≤ x ≤ count.

    The density of a sum of m draws is the cardinal B-spline of order m, and the distribution function of K draws is
    the sum of the splines of order K + 1 shifted by 0, 1, …. Their recursion adds positive terms only; the textbook
    formula alternates in sign and loses its digits in the tails.
    """
    distance = x[:, None] - np.arange(count + 1)  # to each shifted spline's left end
    splines = ((distance >= 0) & (distance < 1)).astype(np.float64)
    for order in range(1, count + 1):
        shifted = np.pad(splines[:, 1:], ((0, 0), (0, 1)))
        splines = (distance * splines + (order + 1 - distance) * shifted) / order
    return np.asarray(splines.sum(axis=1))


def target_difference(
    target: Target, noise: Noise, dimensions: int, choices: int, critics: int, gamma: float, bound: float
) -> Moments:
    """Return bias and variance of a target: Theorem 1 (dqn, decqn), 2 (mean-of-max, max-of-mean), 3 (sum).

    `mean-of-max` averages the K critics' maxima, which is what the proof of Theorem 2 does; `max-of-mean` takes the
    maximum of the K critics' mean, which is equation 5. `maximum` is Lemma 1 by itself: one dimension, no discount.
    """
    if target == "maximum":
        return _maximum(noise, choices, bound)
    if target == "dqn":
        return _maximum(noise, choices**dimensions, bound).scaled(gamma)
    maximum = _maximum(noise, choices, bound, critics if target == "max-of-mean" else 1)
    mean = maximum.averaged(dimensions).scaled(gamma)
    if target == "mean-of-max":
        return mean.averaged(critics)
    return mean.scaled(dimensions) if target == "sum" else mean


def _maximum(noise: Noise, count: int, bound: float, critics: int = 1) -> Moments:
    """Return the moments of the maximum of n means of K draws."""
    if noise == "gaussian":
        # the mean of K Gaussians is a Gaussian, √K times narrower: the bias falls as 1/√K, the variance as 1/K
        return maximum_of_gaussians(count, gaussian_scale(bound) / math.sqrt(critics))
    return maximum_of_uniforms(count, bound) if critics == 1 else maximum_of_uniform_means(count, critics, bound)


def _quadrature(length: float) -> tuple[Array, Array]:
    """Return nodes and weights of a composite Gauss rule from 0 to `length`, rounded up to a whole number.

    Whole numbers are ends of panels, because the distribution of a sum of uniforms is a polynomial between them. Panels
    halve towards 0, because the maximum of n draws keeps a distance from its bound that shrinks without end as n grows.
    """
    nodes, weights = np.polynomial.legendre.leggauss(NODES_PER_PANEL)
    first_unit = np.concatenate([[0.0], 0.5 ** np.arange(HALVINGS, -1, -1)])
    rest = 1.0 + np.arange(1, (math.ceil(length) - 1) * PANELS_PER_UNIT + 1) / PANELS_PER_UNIT
    edges = np.concatenate([first_unit, rest])
    widths = np.diff(edges)[:, None]
    return (edges[:-1, None] + 0.5 * widths * (nodes + 1.0)).ravel(), (0.5 * widths * weights).ravel()


def _from_shortfall(shortfall: Array, weights: Array, beyond: Array, upper: float) -> Moments:
    """Return the moments of X = upper − T, given P(T ≥ t) at the nodes t: E T = ∫ P, E T² = 2 ∫ t P."""
    first = float(weights @ beyond)
    second = 2.0 * float(weights @ (shortfall * beyond))
    return Moments(upper - first, second - first**2)
