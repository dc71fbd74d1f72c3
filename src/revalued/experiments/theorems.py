"""Experiment `theorems`: Lemma 1 and Theorems 1 to 3, closed form beside Monte Carlo, for both readings of Theorem 2.

Each theorem's rows hold both sides of its claim: theorem-1 compares dqn with decqn, theorem-2 decqn with the two
ensemble targets, theorem-3 dqn with sum. dqn, decqn and sum have one critic, so their K is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import torch

from revalued.experiments.closed_forms import Array, Noise, Target, gaussian_scale, target_difference
from revalued.experiments.result_files import THEOREM_COLUMNS
from revalued.seeding import stream_rng

GAMMA = 0.99
BOUND = 1.0
SEED = 0
"""Each point of the grid has a generator of its own, whichever other points there are."""
CHUNK_DRAWS = 1_000_000
"""Noise drawn at a time: 8 MB, whatever the grid."""


@dataclass(frozen=True)
class TheoremGrid:
    """The points of the experiment and how many draws each may cost."""

    dimensions: tuple[int, ...]
    choices: tuple[int, ...]
    critics: tuple[int, ...]
    draws: int
    fewest_samples: int
    most_samples: int

    def samples(self, dimensions: int, choices: int, critics: int) -> int:
        """Return how many targets are sampled where each takes N·n·K draws of noise."""
        affordable = self.draws // (dimensions * choices * critics)
        return min(max(affordable, self.fewest_samples), self.most_samples)


_FULL = TheoremGrid((2, 6, 38), (2, 3, 5, 10, 30, 100), (3, 5, 10, 20), 20_000_000, 2_000, 200_000)
GRIDS: dict[str, TheoremGrid] = {
    "smoke": TheoremGrid((2, 6), (3, 30), (5, 10), 2_000_000, 1_000, 20_000),
    "laptop": _FULL,
    "paper": _FULL,
}


@dataclass(frozen=True)
class Sample:
    """Independent copies of a variable, written as distances from a fixed number.

    The maximum over 3³⁸ uniform draws lies within 1e-16 of its bound, where a floating-point number near 1 has no
    digits left; its distance from the bound has all of them.
    """

    reference: float
    deviations: Array


def estimate(sample: Sample, scale: float) -> dict[str, tuple[float, float]]:
    """Estimate mean and variance of `scale` times the sampled variable, each with its standard error."""
    deviations = sample.deviations * scale
    count = len(deviations)
    mean = float(deviations.mean())
    deviation = float(deviations.std(ddof=1))
    fourth_moment = float((((deviations - mean) / deviation) ** 4).mean())
    # Var(s²) = σ⁴ (kurtosis − (S − 3)/(S − 1)) / S
    spread = max(fourth_moment - (count - 3) / (count - 1), 0.0)
    return {
        "bias": (scale * sample.reference + mean, deviation / count**0.5),
        "variance": (deviation**2, deviation**2 * (spread / count) ** 0.5),
    }


def sample_maximum(rng: np.random.Generator, noise: Noise, count: int, samples: int, bound: float) -> Sample:
    """Sample the maximum of `count` draws through its distribution function Fⁿ, so that `count` may be astronomical."""
    # U^(1/n) is the value of F at the maximum; 1 − U^(1/n) is computed without cancellation
    upper_tail = -np.expm1(-rng.standard_exponential(samples) / float(count))
    if noise == "uniform":
        return Sample(bound, -2.0 * bound * upper_tail)
    quantiles: Array = torch.special.ndtri(torch.from_numpy(upper_tail)).numpy()
    return Sample(0.0, -gaussian_scale(bound) * quantiles)


def sample_factorised(
    rng: np.random.Generator, noise: Noise, dimensions: int, choices: int, critics: tuple[int, ...], samples: int
) -> dict[tuple[Target, int], Sample]:
    """Sample every factorised target, before the discount, from the same noise; keys are target and K.

    An ensemble of K critics is the first K of the largest one, so estimates for different K are correlated.
    """
    most = max(critics)
    chunk = max(1, CHUNK_DRAWS // (choices * most * dimensions))
    parts: dict[tuple[Target, int], list[Array]] = {}
    for start in range(0, samples, chunk):
        # the axes that are reduced come first: numpy then works on long contiguous rows
        draws = draw_noise(rng, noise, (choices, most, min(chunk, samples - start), dimensions))
        for key, values in factorised_targets(draws, critics).items():
            parts.setdefault(key, []).append(values)
    return {key: Sample(0.0, np.concatenate(values)) for key, values in parts.items()}


def factorised_targets(draws: Array, critics: tuple[int, ...]) -> dict[tuple[Target, int], Array]:
    """Turn noise [n, K, S, N] into S copies of each target, before the discount."""
    maxima = draws.max(axis=0)  # [K, S, N]
    targets: dict[tuple[Target, int], Array] = {
        ("decqn", 1): maxima[0].mean(axis=-1),
        ("sum", 1): maxima[0].sum(axis=-1),
    }
    for count in critics:
        targets["mean-of-max", count] = maxima[:count].mean(axis=(0, -1))
        targets["max-of-mean", count] = draws[:, :count].mean(axis=1).max(axis=0).mean(axis=-1)
    return targets


def draw_noise(rng: np.random.Generator, noise: Noise, shape: tuple[int, ...]) -> Array:
    """Draw Uniform(−b, b), or Gaussian noise of the same variance."""
    if noise == "uniform":
        return rng.uniform(-BOUND, BOUND, shape)
    return rng.normal(0.0, gaussian_scale(BOUND), shape)


def theorem_rows(scale: str, report: Callable[[float], None]) -> list[dict[str, Any]]:
    """Compute all rows; `report` is told the fraction done."""
    grid = GRIDS[scale]
    rows: list[dict[str, Any]] = []
    for choices in grid.choices:
        samples = grid.samples(1, choices, 1)
        maxima = draw_noise(stream_rng(SEED, 1, choices), "uniform", (choices, samples)).max(axis=0)
        rows += _rows("lemma-1", "uniform", (1, choices, 1), "maximum", Sample(0.0, maxima))
    cells = [(noise, N, n) for noise in get_args(Noise) for N in grid.dimensions for n in grid.choices]
    for done, (noise, dimensions, choices) in enumerate(cells, start=1):
        rows += _theorem_rows(grid, noise, dimensions, choices)
        report(done / len(cells))
    return rows


def _theorem_rows(grid: TheoremGrid, noise: Noise, dimensions: int, choices: int) -> Iterator[dict[str, Any]]:
    rng = stream_rng(SEED, 2, get_args(Noise).index(noise), dimensions, choices)
    samples = grid.samples(dimensions, choices, max(grid.critics))
    drawn = sample_factorised(rng, noise, dimensions, choices, grid.critics, samples)
    drawn["dqn", 1] = sample_maximum(rng, noise, choices**dimensions, samples, BOUND)
    ensembles: list[tuple[Target, int]] = [key for key in drawn if key[1] > 1]
    claims: dict[str, list[tuple[Target, int]]] = {
        "theorem-1": [("dqn", 1), ("decqn", 1)],
        "theorem-2": [("decqn", 1), *ensembles],
        "theorem-3": [("dqn", 1), ("sum", 1)],
    }
    for theorem, keys in claims.items():
        for target, critics in keys:
            yield from _rows(theorem, noise, (dimensions, choices, critics), target, drawn[target, critics])


def _rows(
    theorem: str, noise: Noise, point: tuple[int, int, int], target: Target, sample: Sample
) -> Iterator[dict[str, Any]]:
    exact = target_difference(target, noise, *point, GAMMA, BOUND)
    estimates = estimate(sample, 1.0 if target == "maximum" else GAMMA)
    for quantity, closed_form in (("bias", exact.mean), ("variance", exact.variance)):
        names = ("theorems", theorem, noise, *point, target, quantity)
        values = (*names, closed_form, *estimates[quantity], len(sample.deviations))
        yield dict(zip(THEOREM_COLUMNS, values, strict=True))
