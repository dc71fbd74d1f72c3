"""The examples of docs/python.md work as they stand there; only their long runs are shortened."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

TEXT = (Path(__file__).parents[1] / "docs" / "python.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
SHORTER = {
    'REValueD("walker-walk", critics=5, seed=0)': 'REValueD("toy-levers", critics=2, hidden_size=8, seed=0)',
    "200_000": "20",
    "6_000": "60",
    "2_000": "20",
    "seed=1)": "seed=1, hidden_size=8)",
    "critics=3)": "critics=3, hidden_size=8)",
    "hidden_size=64, eval_every=100": "hidden_size=8, batch_size=8, eval_every=100, warmup_env_steps=40",
}


def shortened(code: str) -> str:
    for long, short in SHORTER.items():
        code = code.replace(long, short)
    return code


def test_every_replacement_is_needed() -> None:
    assert len(EXAMPLES) == 5
    assert all(long in "".join(EXAMPLES) for long in SHORTER)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_examples(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "stable_baselines3" in EXAMPLES[number]:
        pytest.importorskip("stable_baselines3")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(shortened(EXAMPLES[number]), names)
    found = [names["agent"].env_steps] if "agent" in names else [names["result"].summary["env_steps"]]
    assert found == [{0: 20, 1: 80, 2: 500, 3: 60, 4: 60}[number]]
