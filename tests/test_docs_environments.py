"""The examples of docs/environments.md work as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium

from revalued import runs
from run_helpers import quick_config

TEXT = (Path(__file__).parents[1] / "docs" / "environments.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_your_own_environment_in_twenty_lines(tmp_path: Path) -> None:
    own = EXAMPLES[0]
    assert len([line for line in own.splitlines() if line.strip()]) <= 20
    *code, last = own.rstrip().splitlines()
    assert last == 'path, outcome = runs.start(TrainConfig("custom:thermostat"), env=Thermostat)'
    names: dict[str, Any] = {}
    exec("\n".join(code), names)
    path, outcome = runs.start(quick_config("custom:thermostat"), tmp_path / "run", env=names["Thermostat"])
    assert outcome.finished
    assert [episode.length for episode in runs.evaluate(path, 2, 0, env=names["Thermostat"])] == [100, 100]


def test_registered_ids() -> None:
    example = next(example for example in EXAMPLES if "gymnasium.make" in example)
    first, second, *_ = re.findall(r'gymnasium.make\("([^"]+)"', example)
    assert str(gymnasium.make(first, bins=3).action_space) == "MultiDiscrete([3 3 3 3 3 3])"
    assert second in gymnasium.registry
