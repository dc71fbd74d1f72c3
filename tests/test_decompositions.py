"""Decompositions of one's own: the loss and its gradient, what is refused, and that a run learns with one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import revalued
from naive import random_numbers
from revalued.algorithms import decompositions
from revalued.algorithms.decompositions import check_decomposition, find_decomposition, register_decomposition
from revalued.algorithms.loss import loss_terms, utility_target
from revalued.algorithms.presets import preset
from revalued.cli import main
from revalued.config import AlgorithmConfig, TrainConfig, from_dict, to_dict
from revalued.envs import LeverGame
from revalued.errors import UserError
from revalued.ops.utilities import chosen_utilities
from revalued.run.start import resume, start
from revalued.validation import validate
from run_helpers import quick_config, stop_after


def bottleneck(utilities: Tensor) -> Tensor:
    """Return half the mean and half the least of the utilities."""
    return 0.5 * utilities.mean(dim=-1) + 0.5 * utilities.amin(dim=-1)


@pytest.fixture(autouse=True)
def _nothing_stays_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompositions, "_REGISTERED", {})


@pytest.fixture
def name() -> str:
    """Register the example."""
    register_decomposition("bottleneck", bottleneck)
    return "bottleneck"


def gradient(combine: decompositions.Combine, utilities: Tensor) -> Tensor:
    """Return ∂Q/∂U_i."""
    leaf = utilities.clone().requires_grad_()
    return torch.autograd.grad(combine(leaf).sum(), leaf)[0]


def test_by_hand(name: str) -> None:
    combine = find_decomposition(name)
    utilities = torch.tensor([[4.0, 1.0, 1.0], [0.0, 3.0, 6.0]])
    # (4 + 1 + 1)/3 = 2 and 1: 1.5; (0 + 3 + 6)/3 = 3 and 0: 1.5
    assert combine(utilities).tolist() == [1.5, 1.5]
    # 1/6 for everybody, and a half for the least, shared by the two that are equal
    sixth, found = pytest.approx(1 / 6), gradient(combine, utilities)
    assert found[0].tolist() == [sixth, pytest.approx(1 / 6 + 0.25), pytest.approx(1 / 6 + 0.25)]
    assert found[1].tolist() == [pytest.approx(1 / 6 + 0.5), sixth, sixth]


@pytest.mark.parametrize(
    ("built_in", "q_value", "each"),
    [("mean", 2.0, 0.25), ("sum", 8.0, 1.0), ("branch", 2.0, 0.25), ("logit-mean", 2.0, 0.25), ("atomic", 2.0, 0.25)],
)
def test_those_built_in(built_in: str, q_value: float, each: float) -> None:
    combine = find_decomposition(built_in)
    utilities = torch.tensor([1.0, 2.0, 4.0, 1.0])
    assert combine(utilities).item() == q_value
    assert gradient(combine, utilities).tolist() == [each] * 4
    assert set(decompositions.BUILT_IN) == {"mean", "sum", "branch", "logit-mean", "atomic"}


@pytest.mark.parametrize("changes", [{"beta": 0.0}, {"beta": 0.5}, {"beta": 0.5, "regulariser_reduction": "mean"}])
def test_the_gradient_is_that_of_the_equations(name: str, changes: dict[str, object]) -> None:
    algorithm = replace(AlgorithmConfig(decomposition=name, critics=3), **changes)  # type: ignore[arg-type]
    numbers = random_numbers(3, 7, (4, 1, 3, 2), None, seed=1)
    predictions = numbers.predictions(algorithm)
    batch = numbers.batch()
    terms = loss_terms(algorithm, predictions, batch, numbers.exists(), None)
    (found,) = torch.autograd.grad(terms.loss, predictions.online)
    y = utility_target(algorithm, predictions, batch, numbers.exists())
    chosen = chosen_utilities(predictions.online.detach(), batch.actions)
    least = chosen == chosen.amin(dim=-1, keepdim=True)
    share = 0.5 / 4 + 0.5 * least / least.sum(dim=-1, keepdim=True)
    step = (y - bottleneck(chosen)).clamp(-1, 1)[..., None] * share
    if predictions.target is not None:
        pull = (chosen_utilities(predictions.target, batch.actions) - chosen).clamp(-1, 1)
        factor = 0.5 if algorithm.regulariser_reduction == "sum" else 0.5 / 4
        step = step + factor * (1 - torch.exp(-(y[:, None] - chosen).abs())) * pull
    expected = -batch.weights[:, None] / 7 * step
    torch.testing.assert_close(chosen_utilities(found, batch.actions), expected, rtol=1e-9, atol=1e-12)
    unchosen = found.clone().scatter_(3, batch.actions[None, ..., None].expand(3, -1, -1, 1), 0.0)
    assert unchosen.eq(0).all()


def test_the_target_combines_the_best_sub_actions(name: str) -> None:
    algorithm = AlgorithmConfig(decomposition=name, critics=1, beta=0.0)
    numbers = random_numbers(1, 2, (2, 2), None, seed=0)
    numbers.target_next[:] = [[[[1.0, 3.0], [2.0, 7.0]]] * 2]
    numbers.returns[:], numbers.discounts[:] = 1.0, [0.5, 0.0]
    terms = loss_terms(algorithm, numbers.predictions(algorithm), numbers.batch(), None, None)
    # maxima 3 and 7: (5 + 3)/2 = 4; y = 1 + 0.5 · 4 = 3, and 1 after the termination
    assert terms.metrics["mean_target"].item() == pytest.approx((3 + 1) / 2)


@pytest.mark.slow
def test_a_run_learns_with_it_and_goes_on(name: str, tmp_path: Path) -> None:
    config = quick_config(
        "toy-levers", "decqn", decomposition=name, hidden_size=64, batch_size=64, env_steps=5_000, warmup_env_steps=500,
        eval_every=200, learning_rate=1e-3, target_update_rate=0.02, epsilon_decay=0.999,
    )  # fmt: skip
    path, outcome = start(config, tmp_path / "run", should_stop=stop_after(200))
    assert not outcome.finished
    assert resume(path).summary["final_return"] == pytest.approx(LeverGame().optimal_return, abs=1e-9)


def test_a_registered_name_is_like_any_other(name: str) -> None:
    config = TrainConfig("toy-levers", algorithm=replace(preset("revalued"), decomposition=name))
    validate(config)
    assert from_dict(to_dict(config)) == config
    check_decomposition(name, 38)
    assert revalued.register_decomposition is register_decomposition


def test_a_run_with_an_unknown_one_says_what_to_do(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start(quick_config("toy-levers", decomposition=name), tmp_path / "run")
    assert main(["evaluate", str(tmp_path / "run"), "--episodes", "1"]) == 0
    monkeypatch.setattr(decompositions, "_REGISTERED", {})
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "run")]) == 2
    assert "unknown decomposition 'bottleneck'" in capsys.readouterr().err


def test_names_are_taken_once(name: str) -> None:
    with pytest.raises(UserError, match="'mean' is built in"):
        register_decomposition("mean", bottleneck, overwrite=True)
    with pytest.raises(UserError, match="registered already: replace it with overwrite=True"):
        register_decomposition(name, bottleneck)
    register_decomposition(name, torch.Tensor.sum, overwrite=True)
    assert find_decomposition(name) is torch.Tensor.sum
    with pytest.raises(UserError, match="needs a name"):
        register_decomposition("", bottleneck)


WEIGHTS = torch.tensor([0.5, 0.3, 0.2])


@pytest.mark.parametrize(
    ("combine", "complaint"),
    [
        (lambda u: u.mean(dim=-1, keepdim=True), "one Q-value of the last axis"),
        (lambda u: u, "one Q-value of the last axis"),
        (lambda u: u.mean(dim=-1) - u.mean(), "mixes rows"),
        (lambda u: u[..., 0] - u[..., 1], "falls as a utility rises"),
        (lambda u: u @ WEIGHTS, "fails with 4 dimensions"),
        (lambda u: u.detach().sum(dim=-1), "fails with 4 dimensions"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(combine: decompositions.Combine, complaint: str) -> None:
    register_decomposition("mine", combine)
    with pytest.raises(UserError, match=complaint):
        check_decomposition("mine", 4)


def test_a_run_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    register_decomposition("weighted", lambda u: u @ WEIGHTS)
    check_decomposition("weighted", 3)
    with pytest.raises(UserError, match="decomposition 'weighted' fails with 5 dimensions"):
        start(quick_config("custom:five", decomposition="weighted"), tmp_path / "run", env=five_levers)
    assert not (tmp_path / "run").exists()


def five_levers() -> LeverGame:
    return LeverGame(sizes=(2,) * 5)
