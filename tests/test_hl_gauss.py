"""Values as classes: smoothed histograms by hand, their targets against a slow twin, and whole runs."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import tensor

from learner_twin import NEEDS_NATIVE, batch_for
from naive import bootstrap, expectation, mean, random_numbers, softmax
from revalued.algorithms.loss import categorical_target
from revalued.algorithms.presets import preset
from revalued.config import AlgorithmConfig, EnsembleTarget
from revalued.errors import UserError
from revalued.ops.categorical import gaussian_histogram
from revalued.run.start import resume, start
from revalued.validation import validate
from run_helpers import assert_same_run, evolve, quick_config, stop_after, train
from test_native_engine import assert_same_learning, pair

ALGORITHM = replace(preset("decqn-c51"), categorical_target="hl-gauss")


def test_histograms_by_hand() -> None:
    """Atoms 0, 1, 2 with edges −0.5, 0.5, 1.5, 2.5 and σ = 0.75."""
    found = gaussian_histogram(
        tensor([1.0, 0.0, -5.0, 2.0, 99.0], dtype=torch.float64), tensor([0.0, 1.0, 2.0]).double()
    )
    # y = 1: Φ(2/3) = 0.7475075, Φ(2) = 0.9772499; masses 0.2297424, 0.4950150, 0.2297424 of 0.9544997
    middle = [0.2406941, 0.5186119, 0.2406941]
    # y = 0: Φ(10/3) = 0.9995709; masses 0.4950150, 0.2297424, 0.0223211 of 0.7470784
    end = [0.6626011, 0.3075211, 0.0298778]
    expected = [middle, end, end, end[::-1], end[::-1]]
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-7)


def naive_histogram(y: float, support: list[float]) -> list[float]:
    spacing = support[1] - support[0]
    y = min(max(y, support[0]), support[-1])

    def below(edge: float) -> float:
        return (1 + math.erf((edge - y) / (0.75 * spacing) / math.sqrt(2))) / 2

    masses = [below(atom + spacing / 2) - below(atom - spacing / 2) for atom in support]
    return [mass / sum(masses) for mass in masses]


def test_histograms_against_a_slow_twin() -> None:
    support = np.linspace(-3, 4, 101)
    values = np.concatenate([np.linspace(-4, 5, 50), support[:3]])
    found = gaussian_histogram(torch.tensor(values), torch.tensor(support))
    np.testing.assert_allclose(found.numpy(), [naive_histogram(y, support.tolist()) for y in values], atol=1e-12)
    single = gaussian_histogram(torch.tensor(values).float(), torch.tensor(support).float())
    np.testing.assert_allclose(single.sum(dim=1).numpy(), 1.0, atol=1e-6)
    # away from the ends the mean of the histogram is the value itself
    inner = np.abs(values - 0.5) < 3
    means = (single * torch.tensor(support).float()).sum(dim=1).numpy()
    np.testing.assert_allclose(means[inner], values[inner], atol=1e-3)


@pytest.mark.parametrize("double_q", [False, True])
@pytest.mark.parametrize("ensemble_target", ["max-of-mean", "mean-of-max"])
def test_targets_against_a_slow_twin(ensemble_target: EnsembleTarget, double_q: bool) -> None:
    algorithm = replace(ALGORITHM, critics=3, ensemble_target=ensemble_target, double_q=double_q)
    support = np.linspace(-3, 4, 11)
    numbers = random_numbers(3, 12, (3, 2, 4), support, seed=2)
    atoms: list[float] = support.tolist()
    choices = bootstrap(algorithm, numbers, lambda logits: expectation(softmax(logits.tolist()), atoms))

    def q_value(k: int, b: int) -> float:
        chosen = [numbers.target_next[k, b, i, choice[k]] for i, choice in enumerate(choices[b])]
        return expectation(softmax([mean([float(logits[z]) for logits in chosen]) for z in range(11)]), atoms)

    def histograms(drawn: list[int] | None) -> list[list[float]]:
        own = [[q_value(k, b) for k in drawn or range(3)] for b in range(12)]
        following = [mean(each) if drawn is None else min(each) for each in own]
        targets = [r + d * v for r, d, v in zip(numbers.returns, numbers.discounts, following, strict=True)]
        return [naive_histogram(float(y), atoms) for y in targets]

    predictions, batch = numbers.predictions(algorithm), numbers.batch()
    found = categorical_target(algorithm, predictions, batch, numbers.exists(), torch.tensor(support))
    np.testing.assert_allclose(found.numpy(), histograms(None), atol=1e-12)
    drawn = replace(predictions, drawn=tensor([0, 2]))
    found = categorical_target(algorithm, drawn, batch, numbers.exists(), torch.tensor(support))
    np.testing.assert_allclose(found.numpy(), histograms([0, 2]), atol=1e-12)


@NEEDS_NATIVE
@pytest.mark.parametrize(
    "algorithm",
    [
        ALGORITHM,
        replace(ALGORITHM, critics=3, target_critics=2, double_q=True),
        replace(ALGORITHM, decomposition="atomic"),
    ],
)
def test_both_engines_learn_alike(algorithm: AlgorithmConfig) -> None:
    native, plain = pair(algorithm)
    assert_same_learning(native, plain, [batch_for(native, seed) for seed in range(4)])


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    config = quick_config("toy-levers", "decqn-c51", critics=2, categorical_target="hl-gauss", target_critics=1)
    expected = train(config, tmp_path / "expected")
    start(config, tmp_path / "run", should_stop=stop_after(41))
    assert resume(tmp_path / "run").finished
    assert_same_run(expected, tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"head": "utilities", "decomposition": "mean"}, "the utilities head has no atoms to classify values with"),
        ({"head": "dueling", "decomposition": "branch"}, "the dueling head has no atoms"),
        ({"beta": 0.5}, "regulariser acts on utilities"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, Any], reason: str) -> None:
    config = quick_config("toy-levers", "decqn-c51", categorical_target="hl-gauss")
    validate(config)
    validate(evolve(config, critics=3, target_critics=2))
    with pytest.raises(UserError, match=reason):
        validate(evolve(config, **changes))
