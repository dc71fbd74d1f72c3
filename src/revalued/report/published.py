"""The numbers that the paper prints, as data: its four tables of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

_Key = TypeVar("_Key", float, str)


@dataclass(frozen=True)
class Published:
    """A mean of the paper with what stands behind its ± sign; over 10 seeds, or 3 where it is a time."""

    mean: float
    spread: float


def _table(
    keys: Sequence[_Key], rows: Mapping[str, Sequence[tuple[float, float]]]
) -> Mapping[str, Mapping[_Key, Published]]:
    """Return what stands in each row, a task's, under each key."""
    return MappingProxyType(
        {task: {key: Published(*pair) for key, pair in zip(keys, row, strict=True)} for task, row in rows.items()}
    )


_REGULARISER_ROWS = {
    "humanoid-stand": ((604.82, 85.1), (832.99, 11.3), (915.80, 6.12)),
    "humanoid-walk": ((670.62, 34.1), (817.63, 7.66), (874.33, 3.63)),
    "humanoid-run": ((416.81, 8.77), (478.11, 4.59), (534.81, 10.8)),
    "dog-walk": ((641.13, 28.8), (819.95, 22.0), (862.31, 12.0)),
    "dog-trot": ((856.48, 12.2), (878.47, 6.33), (902.01, 7.65)),
    "dog-run": ((625.68, 12.5), (750.73, 11.2), (821.17, 8.10)),
}
_ENSEMBLE_ROWS = {
    "walker-run": ((763.97, 4.75), (779.40, 1.29), (769.25, 2.59), (761.74, 2.30), (762.32, 4.95), (755.86, 7.35)),
    "cheetah-run": ((759.01, 12.5), (843.46, 16.3), (781.30, 14.3), (828.60, 25.9), (883.55, 2.99), (807.75, 9.94)),
    "quadruped-run": ((911.01, 13.4), (927.34, 5.14), (927.32, 8.17), (924.52, 3.92), (926.79, 4.27), (922.33, 7.56)),
    "dog-walk": ((838.39, 8.40), (914.51, 4.01), (904.47, 2.11), (886.73, 7.38), (899.77, 7.90), (878.40, 8.81)),
    "dog-trot": ((843.61, 19.8), (915.67, 4.14), (912.97, 5.09), (910.24, 10.4), (915.63, 3.59), (897.34, 5.16)),
    "dog-run": ((675.51, 9.10), (771.25, 11.6), (815.29, 15.9), (821.17, 8.10), (834.77, 4.16), (823.20, 7.29)),
}
_BETA_ROWS = {
    "finger-spin": ((947.80, 10.6), (847.15, 20.3), (905.86, 16.1), (849.26, 20.3), (927.39, 25.9)),
    "walker-run": ((755.72, 3.25), (750.91, 2.95), (761.74, 2.30), (768.60, 1.62), (758.87, 3.66)),
    "cheetah-run": ((756.71, 20.1), (802.80, 18.3), (828.60, 25.9), (814.62, 19.5), (792.52, 16.9)),
    "quadruped-run": ((885.91, 5.88), (910.16, 8.86), (924.52, 3.92), (922.57, 12.3), (927.21, 5.35)),
    "dog-walk": ((838.81, 14.3), (870.75, 9.99), (886.73, 7.38), (895.54, 9.94), (880.50, 9.96)),
}
_WALL_TIME_ROWS = {"walker-walk": ((30.47, 0.00), (37.05, 0.32)), "dog-walk": ((55.46, 0.31), (69.55, 0.32))}

REGULARISER = _table(("decqn", "decqn-ensemble", "revalued"), _REGULARISER_ROWS)
"""The contribution of the regulariser, by task and variant; mean and standard error, as in the two that follow."""
ENSEMBLE_SIZE: Mapping[str, Mapping[float, Published]] = _table((1, 3, 5, 10, 15, 20), _ENSEMBLE_ROWS)
"""REValueD by task and number of critics."""
BETA = _table((0.0, 0.25, 0.5, 0.75, 1.0), _BETA_ROWS)
"""REValueD by task and β."""
WALL_TIME = _table(("decqn", "revalued"), _WALL_TIME_ROWS)
"""Minutes for 500,000 interactions by task and variant; the paper gives the *variance* over 3 seeds after ±."""

REMARKS = MappingProxyType(
    {
        "regulariser": "The paper prints two different results of REValueD with its default settings on dog-walk "
        "(862.31 in this table, 886.73 in those on ensemble size and β) and on dog-trot (902.01 and 910.24).",
        "ensemble-size": "On dog-trot the paper prints 15 critics (915.63) in bold as the best, although 3 critics "
        "(915.67) stand above it.",
        "wall-time": "The paper's times are minutes on its authors' machine, ± the variance over 3 seeds.",
    }
)
"""What a reader of the tables should know."""


def reference(experiment: str, variant: str, task: str, setting: float | None = None) -> Published | None:
    """Return what the paper prints for a variant on a task, None where it prints only a picture.

    `setting` is the number of critics in `ensemble-size` and β in `beta`.
    """
    if experiment in ("ensemble-size", "beta"):
        table = ENSEMBLE_SIZE if experiment == "ensemble-size" else BETA
        return table.get(task, {}).get(setting) if setting is not None else None
    if experiment == "wall-time":
        return WALL_TIME.get(task, {}).get(variant)
    if experiment not in ("main", "regulariser"):
        return None
    found = REGULARISER.get(task, {}).get(variant)
    if found is None and variant == "revalued":  # its default settings stand in the other two tables as well
        found = ENSEMBLE_SIZE.get(task, {}).get(10) or BETA.get(task, {}).get(0.5)
    return found
