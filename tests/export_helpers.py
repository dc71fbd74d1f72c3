"""What the tests of exported policies share."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from revalued.acting.policy import Policy
from revalued.actions import FactorisedActions
from revalued.envs.spaces.choice_table import ActionPart, ChoiceTable
from revalued.networks import NetworkShape, initialise


def random_policy(
    actions: FactorisedActions,
    critics: int = 1,
    head: Any = "utilities",
    observation_size: int = 7,
    hidden: int = 16,
    **torso: Any,
) -> Policy:
    """Return a policy whose parameters are all random, those of LayerNorm too."""
    atoms = 11 if head == "categorical" else 1
    shape = NetworkShape(observation_size, hidden, actions, critics, head, atoms, **torso)
    generator = torch.Generator().manual_seed(3)
    parameters = initialise(shape, generator, torch.device("cpu"))
    for name in [name for name in parameters if name.startswith("norm")]:
        parameters[name].add_(0.3 * torch.randn(parameters[name].shape, generator=generator))
    return Policy(shape, parameters, torch.linspace(-2.0, 5.0, atoms) if head == "categorical" else None)


def plain_choices(sizes: tuple[int, ...]) -> ChoiceTable:
    """Return choices that an environment receives as they are."""
    table = np.minimum(np.arange(max(sizes)), np.asarray(sizes)[:, None] - 1)
    part = ActionPart("", 0, (len(sizes),), table)
    return ChoiceTable(tuple(str(number) for number in range(len(sizes))), sizes, (part,))


def random_masks(sizes: tuple[int, ...], rows: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return masks [rows, Σ sizes] that leave something in every dimension."""
    masks = rng.random((rows, sum(sizes))) < 0.4
    for start, size in zip(np.cumsum([0, *sizes[:-1]]), sizes, strict=True):
        masks[np.arange(rows), start + rng.integers(size, size=rows)] = True
    return masks


def session_of(model: Any) -> Any:
    """Return a session of the runtime for a model or a file."""
    onnxruntime: Any = importlib.import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, options)
