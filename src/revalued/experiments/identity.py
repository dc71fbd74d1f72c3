"""What makes two runs the same run, and where a run of an experiment lives.

Experiments share runs: DecQN on walker-walk with seed 0 is trained once, whichever experiments ask for it. So a run's
folder is named after the configuration that determines its results.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from revalued.config import TrainConfig, to_dict

_WITHOUT_EFFECT = ("algo", "execution.workers", "execution.checkpoint_every")
"""The preset's name is only where the numbers came from; the others never change results."""
_HASH_DIGITS = 8


def run_hash(config: TrainConfig | Mapping[str, Any]) -> str:
    """Return 8 hex digits that are equal for configurations with equal results.

    Only what differs from the defaults is hashed, so that runs keep their names when a later version has more fields.
    """
    text = json.dumps(significant_entries(config), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]


def significant_entries(config: TrainConfig | Mapping[str, Any]) -> dict[str, Any]:
    """Return what tells a configuration from the default one, by dotted names; numbers as floats, so that 1 is 1.0."""
    data = to_dict(config) if isinstance(config, TrainConfig) else config
    entries, defaults = _flat(data), _flat(to_dict(TrainConfig(task="")))
    return {
        name: _plain(value)
        for name, value in entries.items()
        if name not in _WITHOUT_EFFECT and (name not in defaults or value != defaults[name])
    }


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in data.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return found


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def run_path(out: Path, config: TrainConfig) -> Path:
    """Return the folder of a run: the one it already has under whatever preset's name, or the one it will get."""
    folder = out / "runs" / config.task.replace(":", "-").replace("/", "-")
    digest = run_hash(config)
    existing = sorted(folder.glob(f"*-{digest}"))
    return existing[0] if existing else folder / f"{config.algo}-seed{config.seed}-{digest}"
