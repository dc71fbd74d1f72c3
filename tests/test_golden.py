"""A tiny run whose results are on record: a refactor that changes them has changed what is computed.

Twice on one machine, a run is equal to the bit. Between machines, matrix products round differently, so the record
holds plain figures and allows for rounding; and it does not depend on how the parameters are cut into tensors. After a
change that is meant to change results, write the record anew:

    .venv/bin/python tests/test_golden.py
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from run_helpers import assert_same_run, newest, quick_config, rows, train

RECORD = Path(__file__).with_name("test_golden.json")
CONFIGS = {
    algo: quick_config("toy-levers", algo, env_steps=200, learning_rate=1e-3, seed=5)
    for algo in ("revalued", "decqn-sum-ensemble", "bdq", "decqn-c51", "dqn")
}
# Few updates, so that rounding has no time to grow: an error of 1e-7 stays far below this.
RELATIVE_TOLERANCE = 1e-3


def figures(path: Path) -> dict[str, Any]:
    """Return what is on record of a run."""
    checkpoint = newest(path)
    tensors = checkpoint.tensors
    names = [name.removeprefix("online.") for name in tensors if name.startswith("online.")]

    def size(of: Callable[[str], Tensor]) -> float:
        return sum(float(of(name).double().abs().sum()) for name in names)

    return {
        "parameters": {
            "online": size(lambda name: tensors[f"online.{name}"]),
            "online - target": size(lambda name: tensors[f"online.{name}"] - tensors[f"target.{name}"]),
            "first moment": size(lambda name: tensors[f"adam.first_moment.{name}"]),
            "second moment": size(lambda name: tensors[f"adam.second_moment.{name}"]),
        },
        "replay": {
            name: float(checkpoint.arrays[f"replay.{name}"].astype(float).mean())
            for name in ("observations", "actions", "returns", "discounts", "leaves")
        },
        "returns": [float(row["return"]) for row in rows(path, "eval.csv")],
        "losses": [float(row["loss"]) for row in rows(path, "metrics.csv")],
        "next random numbers": checkpoint.meta["rng"]["exploration"]["state"]["state"] % 2**32,
    }


@pytest.mark.parametrize("algo", CONFIGS)
def test_a_run_is_what_it_was(algo: str, tmp_path: Path) -> None:
    expected = json.loads(RECORD.read_text())[algo]
    found = figures(train(CONFIGS[algo], tmp_path / "run"))
    assert found.keys() == expected.keys()
    assert found["next random numbers"] == expected["next random numbers"]
    for part in ("parameters", "replay", "returns", "losses"):
        assert found[part] == pytest.approx(expected[part], rel=RELATIVE_TOLERANCE), part


def test_a_run_is_a_function_of_its_seed(tmp_path: Path) -> None:
    first, second = (train(CONFIGS["revalued"], tmp_path / name) for name in ("first", "second"))
    assert_same_run(first, second)


def write_record() -> None:
    """Replace the record by what the runs give now."""
    with tempfile.TemporaryDirectory() as folder:
        record = {algo: figures(train(config, Path(folder) / algo)) for algo, config in CONFIGS.items()}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    write_record()
