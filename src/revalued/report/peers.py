"""What other agents reach on dog and humanoid after as many environment steps: published means, with their sources.

They act in continuous actions and repeat each for two environment steps; steps are counted, not decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from revalued.report.results import Floats

TABLE_SOURCE = "SimbaV2 (arXiv 2502.15280), tables dmc_hard_results of github.com/dojeon-ai/SimbaV2"
CURVE_SOURCE = "github.com/nicklashansen/tdmpc2, results/TASK.csv, mean of its 3 seeds"
TABLE_ENV_STEPS = 1_000_000
CURVE_PEER = "TD-MPC2"

_NAMES = ("SimbaV2", "SimBa", "BRO", CURVE_PEER)
_ROWS = {
    "dog-walk": (935, 916, 931, 493),
    "dog-trot": (861, 824, 783, 500),
    "dog-run": (562, 544, 374, 169),
    "humanoid-stand": (916, 846, 920, 663),
    "humanoid-walk": (651, 668, 672, 628),
    "humanoid-run": (194, 181, 204, 184),
}
AT_A_MILLION: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {task: dict(zip(_NAMES, map(float, row), strict=True)) for task, row in _ROWS.items()}
)
"""Mean returns after 1,000,000 environment steps, by task and agent."""

_CURVES = {  # after 100,000, 200,000 … 1,000,000 environment steps, seed by seed
    "dog-walk": (
        (36.2, 110.3, 349.0, 453.6, 554.0, 568.2, 692.7, 714.1, 793.3, 787.0),
        (48.6, 232.3, 334.4, 405.7, 439.7, 658.5, 628.2, 638.0, 558.6, 632.0),
        (19.1, 280.5, 427.0, 436.3, 454.2, 707.7, 43.9, 31.1, 139.8, 62.8),
    ),
    "dog-trot": (
        (5.0, 89.2, 205.5, 237.0, 66.2, 283.3, 319.7, 400.3, 342.8, 481.2),
        (10.4, 97.2, 100.9, 180.2, 319.2, 330.5, 385.9, 55.9, 364.9, 512.7),
        (21.3, 26.6, 110.6, 27.2, 11.3, 18.4, 307.3, 348.9, 483.2, 506.2),
    ),
    "dog-run": (
        (7.6, 86.8, 143.8, 161.9, 142.0, 133.2, 153.9, 159.3, 172.7, 234.7),
        (39.1, 100.9, 138.2, 136.8, 130.1, 181.4, 153.1, 196.1, 207.1, 247.7),
        (33.1, 13.0, 141.7, 140.0, 126.3, 204.0, 182.4, 21.6, 27.7, 27.2),
    ),
    "humanoid-stand": (
        (6.1, 7.3, 39.4, 344.6, 357.2, 491.0, 483.6, 522.8, 564.9, 628.3),
        (6.2, 6.5, 160.2, 423.9, 428.8, 417.8, 588.7, 644.2, 634.1, 670.7),
        (5.3, 96.9, 281.8, 437.1, 480.7, 518.7, 554.6, 561.9, 518.7, 692.2),
    ),
    "humanoid-walk": (
        (1.4, 1.7, 1.4, 188.7, 389.8, 459.7, 493.2, 520.0, 555.7, 610.4),
        (1.4, 1.2, 3.6, 203.0, 26.6, 391.5, 461.6, 577.9, 590.6, 642.3),
        (1.6, 1.9, 4.0, 174.7, 417.8, 459.4, 497.4, 522.2, 570.0, 632.0),
    ),
}
CURVE_ENV_STEPS: Floats = np.arange(100_000, 1_000_001, 100_000, dtype=np.float64)


def peer_curve(task: str) -> Floats | None:
    """Return TD-MPC2's mean returns at `CURVE_ENV_STEPS`, None where its files do not have the task."""
    return np.array(_CURVES[task], dtype=np.float64).mean(axis=0) if task in _CURVES else None


def peer_at(task: str, env_steps: float) -> float | None:
    """Return TD-MPC2's mean return after so many environment steps, interpolated; None where nothing is published."""
    means = peer_curve(task)
    if means is None or not CURVE_ENV_STEPS[0] <= env_steps <= CURVE_ENV_STEPS[-1]:
        return None
    return float(np.interp(env_steps, CURVE_ENV_STEPS, means))
