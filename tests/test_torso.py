"""The pre-normalised residual torso: by hand, against plain PyTorch layers, and in whole runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from revalued import REValueD
from revalued.actions import FactorisedActions
from revalued.errors import UserError
from revalued.learner.torch_update import TorchEngine
from revalued.native.choice import native_critics, resolve_engine
from revalued.networks import NetworkShape, Parameters, decayed_weights, initialise, predict
from revalued.run.start import evaluate, resume, start
from revalued.training.build import agent_shape, make_learner
from revalued.validation import validate
from run_helpers import assert_same_run, evolve, newest, quick_config, stop_after, train
from test_cluster_blocks import make_actor, plan_of, read, weights_of

CPU = torch.device("cpu")
CONFIG = quick_config("toy-counting", torso="prenorm", blocks=2)


def shape_of(blocks: int, critics: int = 3) -> NetworkShape:
    return NetworkShape(5, 16, FactorisedActions((3, 2)), critics, "utilities", torso="prenorm", blocks=blocks)


def drawn(shape: NetworkShape) -> Parameters:
    """Draw parameters, those of the LayerNorms too."""
    generator = torch.Generator().manual_seed(3)
    parameters = initialise(shape, generator, CPU)
    for name, tensor in parameters.items():
        if name.startswith("norm"):
            tensor += 0.5 * torch.randn(tensor.shape, generator=generator)
    return parameters


def plain_layers(parameters: Parameters, critic: int, blocks: int, observations: Tensor) -> Tensor:
    """Return the head's outputs [B, O] of one critic, from layers of PyTorch's own in double precision."""
    own = {name: tensor[critic].double() for name, tensor in parameters.items()}

    def linear(weight: Tensor, bias: Tensor) -> nn.Linear:
        layer = nn.Linear(weight.shape[0], weight.shape[1], dtype=torch.float64)
        layer.weight.data, layer.bias.data = weight.T, bias[0]
        return layer

    def norm(name: str) -> nn.LayerNorm:
        layer = nn.LayerNorm(16, dtype=torch.float64)
        layer.weight.data, layer.bias.data = own[f"{name}.scale"][0], own[f"{name}.shift"][0]
        return layer

    hidden = linear(own["input"][:-1], own["input"][-1:])(observations.double())
    for number in range(1, blocks + 1):
        first, second = (
            linear(own[f"{name}{number}.weight"], own[f"{name}{number}.bias"]) for name in ("first", "second")
        )
        hidden = hidden + nn.Sequential(norm(f"norm{number}"), first, nn.ReLU(), second)(hidden)
    output: Tensor = nn.Sequential(norm("norm"), linear(own["head.weight"], own["head.bias"]))(hidden)
    return output


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_predictions_agree_with_plain_layers(blocks: int) -> None:
    shape = shape_of(blocks)
    parameters = drawn(shape)
    observations = 3 * torch.randn(7, 5, generator=torch.Generator().manual_seed(1))
    predicted = predict(parameters, observations, shape, None)
    expected = torch.stack([plain_layers(parameters, critic, blocks, observations) for critic in range(3)])
    torch.testing.assert_close(predicted.flatten(2).double(), expected, rtol=1e-5, atol=1e-5)


def test_one_block_by_hand() -> None:
    shape = NetworkShape(1, 2, FactorisedActions((2,)), 1, "utilities", torso="prenorm")
    values = {
        "input": [[1.0, 0.0], [2.0, 1.0]],
        "norm1.scale": [[2.0, 1.0]],
        "norm1.shift": [[0.0, 0.5]],
        "first1.weight": [[1.0, 1.0], [0.0, 2.0]],
        "first1.bias": [[1.0, 0.0]],
        "second1.weight": [[1.0, 2.0], [5.0, 5.0]],
        "second1.bias": [[0.0, -3.0]],
        "norm.scale": [[1.0, 1.0]],
        "norm.shift": [[0.0, 0.0]],
        "head.weight": [[1.0, 0.0], [0.0, 3.0]],
        "head.bias": [[0.0, 1.0]],
    }
    assert {name: tuple(np.shape(value)) for name, value in values.items()} == shape.sizes()
    parameters = {name: torch.tensor([value]) for name, value in values.items()}
    # h = (3 + 2, 1); normal (1, −1), scaled (2, −0.5); W1: (2 + 1, 2 − 1) = (3, 1); W2: (3 + 5, 6 + 5 − 3) = (8, 8)
    # h = (13, 9); normal (1, −1); head (1, −3 + 1)
    found = predict(parameters, torch.tensor([[3.0]]), shape, None)
    torch.testing.assert_close(found, torch.tensor([[[[1.0, -2.0]]]]), rtol=0, atol=1e-4)


def test_every_weight_decays_and_starts_within_its_bounds() -> None:
    shape = shape_of(2)
    parameters = initialise(shape, torch.Generator().manual_seed(0), CPU)
    assert [tuple(weight.shape) for weight in decayed_weights(parameters)] == [
        (3, 5, 16),
        *[(3, 16, 16)] * 4,
        (3, 16, 6),
    ]
    for name, tensor in parameters.items():
        if name.startswith("norm"):
            assert tensor.eq(name.endswith("scale")).all()
        else:
            bound = 1 / (5**0.5 if name == "input" else 4)
            assert 0.7 * bound < tensor.abs().max() <= bound


def test_which_engine_takes_it() -> None:
    assert resolve_engine("auto", CPU, torso="prenorm") == resolve_engine("torch", CPU, torso="prenorm") == "torch"
    with pytest.raises(UserError, match="knows the plain torso only, not prenorm: use --engine torch"):
        resolve_engine("native", CPU, torso="prenorm")
    shape = shape_of(1)
    assert native_critics("auto", shape, drawn(shape)) is None
    agent = REValueD("toy-counting", torso="prenorm", critics=2, hidden_size=8)
    assert agent.config.execution.engine == "torch"
    learner = make_learner(agent.config, agent_shape(agent.config, agent._run.task.info), CPU)
    assert isinstance(learner._engine, TorchEngine)


def test_runs_learn_resume_and_act(tmp_path: Path) -> None:
    expected = train(CONFIG, tmp_path / "expected")
    assert newest(expected).tensors["online.second2.weight"].shape == (2, 32, 32)
    start(CONFIG, tmp_path / "run", should_stop=stop_after(45))
    assert resume(tmp_path / "run").finished
    assert_same_run(expected, tmp_path / "run")
    assert len(list(evaluate(tmp_path / "run", 2, 0))) == 2
    with pytest.raises(UserError, match="plain torso only"):
        resume(tmp_path / "run", engine="native", env_steps=400)


def test_actors_act_with_it() -> None:
    plan = plan_of(evolve(CONFIG, num_envs=2))
    block = read(plan, make_actor(plan).collect(weights_of(plan), 0, 3, 10_000, 6))
    assert block.actions.shape == (6, 2, 2)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"blocks": 0}, "blocks = 0 .* at least 1 and at most 3"),
        ({"blocks": 4}, "blocks = 4 .* at least 1 and at most 3"),
        ({"torso": "plain"}, "blocks = 2 is not possible: the plain torso has one, use --torso prenorm"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, Any], reason: str) -> None:
    validate(replace(CONFIG))
    with pytest.raises(UserError, match=reason):
        validate(evolve(CONFIG, **changes))
