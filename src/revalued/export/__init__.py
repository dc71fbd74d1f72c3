"""A run's greedy policy as one ONNX file that needs neither this package nor torch to run."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from revalued.envs import EnvSource
from revalued.envs.spaces.actions import action_codec
from revalued.envs.spaces.choice_table import ChoiceTable, choices_in
from revalued.errors import UserError
from revalued.export.graph import onnx_package, policy_model
from revalued.run.files import check_target, replace_file
from revalued.run.load import SavedRun, load_run
from revalued.run.provenance import versions

__all__ = ["FORMAT_VERSION", "export_run", "metadata_of", "policy_model"]

FORMAT_VERSION = 1
"""Of names, shapes and metadata; a reader may refuse a file whose number it does not know."""

_LARGEST_BYTES = 2**31 - 1  # of one protobuf message, and so of a model in one file


def export_run(
    path: Path,
    out: Path,
    warn: Callable[[str], None] = lambda text: None,
    *,
    force: bool = False,
    env: EnvSource | None = None,
    trust_modules: Collection[str] = (),
) -> dict[str, str]:
    """Write the newest policy of a run to an ONNX file and return its metadata; a file is replaced only by `force`.

    The environment is not built, except for a checkpoint of an older version, which does not describe it.
    """
    check_target(out, ".onnx", "policy")
    if out.exists() and not force:
        raise UserError(f"{out} already exists: choose another name, or replace it with --force")
    onnx = onnx_package()
    run = load_run(path, warn, env, trust_modules=trust_modules, needs_env=False)
    known = run.task.info.spaces
    assert known is not None, "tasks are described by an environment or by a checkpoint"
    choices = choices_in(known.own_action, action_codec(known.own_action, run.config.bins), known.action_names)
    size = sum(tensor.numel() * tensor.element_size() for tensor in run.policy.parameters.values())
    if size > _LARGEST_BYTES:
        raise UserError(f"the parameters take {size / 2**30:.1f} GiB, an ONNX file holds at most 2 GiB")
    model = policy_model(run.policy, choices, masked=run.task.info.masked)
    metadata = metadata_of(run, choices)
    onnx.helper.set_model_props(model, metadata)
    onnx.checker.check_model(model, full_check=True)  # with shape inference
    replace_file(out, model.SerializeToString())
    return metadata


def metadata_of(run: SavedRun, choices: ChoiceTable) -> dict[str, str]:
    """Return what the file says about itself; everything but plain words and numbers is JSON."""
    values = choices.values()
    facts: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "task": run.config.task,
        "algo": run.config.algo,
        "seed": run.config.seed,
        "updates": run.meta["updates"],
        "env_steps": run.meta["env_steps"],
        "critics": run.config.algorithm.critics,
        "observation_size": run.task.info.observation_size,
        "bins": run.config.bins,
        "action_repeat": run.config.action_repeat,
        "names": choices.names,
        "sizes": choices.sizes,
        "bounds": [[row[0], row[-1]] for row in values],
        "values": values,
        "masked": run.task.info.masked,
        "versions": {**versions(), "onnx": onnx_package().__version__},
    }
    return {name: fact if isinstance(fact, str) else json.dumps(fact) for name, fact in facts.items()}
