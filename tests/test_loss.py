"""The loss of every algorithm: one small example by hand, then all of the family against a slow twin."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from naive import Numbers, naive_categorical_target, naive_loss, naive_target, random_numbers
from revalued.actions import FactorisedActions
from revalued.algorithms.loss import LossTerms, categorical_target, loss_terms, utility_target
from revalued.algorithms.presets import PRESETS, preset
from revalued.config import AlgorithmConfig, TrainConfig
from revalued.validation import validate

# ---------------------------------------------------------------------------------------------------------------------
# By hand: K = 2, B = 2, N = 2, A = 2. The first transition goes on (R = 1, Γ = 0.5), the second terminated (R = −2).
# Chosen utilities U_k,i: first (2, 3) and (4, 2), second (−1.5, −0.5) and (1, 2); 9s are never chosen.
# The target critics' own values of the same choices: (2.5, 1) and (4, 5), then (−1.5, 1.5) and (2, 2).
# The next state's utilities are those of test_ops_targets: 3.5 + 2 by max-of-mean, 2.5 + 1 with double Q,
# 4.5 + 3 by mean-of-max, 1.5 + 0 with double Q. After the termination they are 77 and must not matter.
EXAMPLE = Numbers(
    online=np.array(
        [[[[9.0, 2.0], [3.0, 9.0]], [[-1.5, 9.0], [9.0, -0.5]]], [[[9.0, 4.0], [2.0, 9.0]], [[1.0, 9.0], [9.0, 2.0]]]]
    ),
    target_next=np.array(
        [[[[1.0, 5.0], [2.0, 0.0]], [[77.0, 77.0]] * 2], [[[4.0, 2.0], [0.0, 4.0]], [[77.0, 77.0]] * 2]]
    ),
    target=np.array(
        [[[[9.0, 2.5], [1.0, 9.0]], [[-1.5, 9.0], [9.0, 1.5]]], [[[9.0, 4.0], [5.0, 9.0]], [[2.0, 9.0], [9.0, 2.0]]]]
    ),
    online_next=np.array(
        [[[[3.0, 0.0], [0.0, 1.0]], [[77.0, 77.0]] * 2], [[[0.0, 1.0], [4.0, 2.0]], [[77.0, 77.0]] * 2]]
    ),
    actions=np.array([[1, 0], [0, 1]]),
    returns=np.array([1.0, -2.0]),
    discounts=np.array([0.5, 0.0]),
    weights=np.array([1.0, 0.5]),
    sizes=(2, 2),
)
ENSEMBLE = AlgorithmConfig(critics=2, beta=0.0)


def terms_of(algorithm: AlgorithmConfig, numbers: Numbers) -> LossTerms:
    return _terms_and_gradient(algorithm, numbers)[0]


def gradient_of(algorithm: AlgorithmConfig, numbers: Numbers) -> torch.Tensor:
    """Return the loss's gradient with respect to the online predictions."""
    return _terms_and_gradient(algorithm, numbers)[1]


def _terms_and_gradient(algorithm: AlgorithmConfig, numbers: Numbers) -> tuple[LossTerms, torch.Tensor]:
    support = None if numbers.support is None else torch.tensor(numbers.support)
    predictions = numbers.predictions(algorithm)
    terms = loss_terms(algorithm, predictions, numbers.batch(), numbers.exists(), support)
    (gradient,) = torch.autograd.grad(terms.loss, predictions.online)
    return terms, gradient


def target_of(algorithm: AlgorithmConfig, numbers: Numbers) -> list[float]:
    y = utility_target(algorithm, numbers.predictions(algorithm), numbers.batch(), numbers.exists())
    values: list[float] = y.tolist()
    return values


@pytest.mark.parametrize(
    ("algorithm", "y"),
    [
        (ENSEMBLE, 2.375),  # 1 + 0.5 · (3.5 + 2)/2
        (replace(ENSEMBLE, double_q=True), 1.875),  # 1 + 0.5 · (2.5 + 1)/2
        (replace(ENSEMBLE, ensemble_target="mean-of-max"), 2.875),  # 1 + 0.5 · (4.5 + 3)/2
        (replace(ENSEMBLE, ensemble_target="mean-of-max", double_q=True), 1.375),  # 1 + 0.5 · (1.5 + 0)/2
        (replace(ENSEMBLE, decomposition="sum"), 3.75),  # 1 + 0.5 · (3.5 + 2)
        (replace(ENSEMBLE, decomposition="sum", ensemble_target="mean-of-max"), 4.75),  # 1 + 0.5 · (4.5 + 3)
        (replace(ENSEMBLE, decomposition="branch", double_q=True), 1.875),  # BDQ: mean over branches
    ],
)
def test_target(algorithm: AlgorithmConfig, y: float) -> None:
    assert target_of(algorithm, EXAMPLE) == [y, -2.0]


def test_td_loss_of_the_mean_decomposition() -> None:
    terms = terms_of(ENSEMBLE, EXAMPLE)
    # Q = 2.5 and 3, then −1 and 1.5; y − Q = −0.125 and −0.625, then −1 and −3.5
    # Huber: 0.0078125 and 0.1953125, then 0.5 and 3
    # critic 0: (1·0.0078125 + 0.5·0.5)/2 = 0.12890625; critic 1: (1·0.1953125 + 0.5·3)/2 = 0.84765625
    assert terms.loss.item() == 0.9765625
    # (0.125 + 0.625)/2, (1 + 3.5)/2: importance weights do not enter
    assert terms.priorities.tolist() == [0.375, 2.25]
    assert {name: value.item() for name, value in terms.metrics.items()} == {
        "td_loss": 0.92578125,  # (0.0078125 + 0.1953125 + 0.5 + 3)/4
        "mean_q": 1.5,  # (2.5 + 3 − 1 + 1.5)/4
        "mean_target": 0.1875,  # (2.375 − 2)/2
        "td_error": 1.3125,  # (0.125 + 0.625 + 1 + 3.5)/4
    }


def test_td_loss_of_the_sum_decomposition() -> None:
    terms = terms_of(replace(ENSEMBLE, decomposition="sum"), EXAMPLE)
    # Q = 5 and 6, then −2 and 3; y = 3.75 and −2: errors −1.25 and −2.25, then 0 and −5
    # Huber: 0.75 and 1.75, then 0 and 4.5; (0.75 + 0)/2 + (1.75 + 0.5·4.5)/2
    assert terms.loss.item() == 2.375
    assert terms.priorities.tolist() == [1.75, 2.5]


def test_td_loss_of_branches() -> None:
    terms = terms_of(replace(ENSEMBLE, decomposition="branch", double_q=True), EXAMPLE)
    # y = 1.875 and −2. First: errors (−0.125, −1.125) and (−2.125, −0.125), Huber (0.0078125, 0.625) and
    # (1.625, 0.0078125), means 0.31640625 and 0.81640625. Second: errors (−0.5, −1.5) and (−3, −4), Huber (0.125, 1)
    # and (2.5, 3.5), means 0.5625 and 3. Loss: (0.31640625 + 0.28125)/2 + (0.81640625 + 1.5)/2
    assert terms.loss.item() == 1.45703125
    # first: (0.625 + 1.125)/2; second: (1 + 3.5)/2
    assert terms.priorities.tolist() == [0.875, 2.25]


def test_errors_of_branches_do_not_cancel_in_the_priority() -> None:
    numbers = replace(
        EXAMPLE,
        online=np.full((2, 1, 2, 2), 0.0) + np.array([[1.0], [-3.0]]),
        actions=np.array([[0, 0]]),
        returns=np.array([-1.0]),
        discounts=np.array([0.0]),
        weights=np.array([1.0]),
        target_next=EXAMPLE.target_next[:, :1],
    )
    branch, together = replace(ENSEMBLE, decomposition="branch"), ENSEMBLE
    # −1 − 1 = −2 and −1 + 3 = 2 for both critics: 2 each, while the mean Q of −1 is right
    assert terms_of(branch, numbers).priorities.tolist() == [2.0]
    assert terms_of(together, numbers).priorities.tolist() == [0.0]


@pytest.mark.parametrize(
    ("changes", "regulariser"),
    [
        # δ = (0.375, −0.625) and (−1.625, 0.375), then (−0.5, −1.5) and (−3, −4)
        # Huber(Ū − U) = (0.125, 1.5) and (0, 2.5), then (0, 1.5) and (0.5, 0)
        # w = min(δ², 1): (0.140625, 0.390625) and (1, 0.140625), then (0.25, 1) and (1, 1)
        # sums 0.603515625 and 0.3515625, then 1.5 and 0.5; (0.603515625 + 0.75)/2 + (0.3515625 + 0.25)/2
        ({"regulariser_weight": "quadratic"}, 0.9775390625),
        ({"regulariser_weight": "quadratic", "regulariser_reduction": "mean"}, 0.48876953125),
        # w = min((δ/2)², 1): (0.03515625, 0.09765625) and (0.66015625, 0.03515625), then (0.0625, 0.5625) and (1, 1)
        # sums 0.15087890625 and 0.087890625, then 0.84375 and 0.5
        # (0.15087890625 + 0.421875)/2 + (0.087890625 + 0.25)/2
        ({"regulariser_weight": "quadratic", "regulariser_temperature": 2.0}, 0.455322265625),
        # w = 1 − exp(−|δ|): (0.31271072, 0.46473857) and (·, 0.31271072), then (·, 0.77686984) and (0.95021293, ·)
        # sums 0.73619670 and 0.78177680, then 1.16530476 and 0.47510647
        # (0.73619670 + 0.58265238)/2 + (0.78177680 + 0.23755323)/2
        ({}, 1.16908956),
        # w = 1 − exp(−|δ|/2): (0.17097088, 0.26838437) and (·, 0.17097088), then (·, 0.52763345) and (0.77686984, ·)
        # sums 0.42394792 and 0.42742720, then 0.79145017 and 0.38843492
        # (0.42394792 + 0.39572509)/2 + (0.42742720 + 0.19421746)/2
        ({"regulariser_temperature": 2.0}, 0.72065883),
    ],
)
def test_regulariser(changes: dict[str, object], regulariser: float) -> None:
    algorithm = replace(ENSEMBLE, beta=0.5, **changes)  # type: ignore[arg-type]
    terms = terms_of(algorithm, EXAMPLE)
    # the TD loss as above
    assert terms.loss.item() == pytest.approx(0.9765625 + 0.5 * regulariser, abs=1e-8)
    assert terms.priorities.tolist() == [0.375, 2.25]


def test_no_gradient_flows_through_the_weights() -> None:
    algorithm = replace(ENSEMBLE, beta=0.5, regulariser_weight="quadratic")
    gradient = gradient_of(algorithm, EXAMPLE)
    # Critic 0, first transition. TD: ω/B · −(y − Q)/N = 1/2 · 0.125/2 = 0.03125 for both dimensions. Regulariser, with
    # w held still: ω/B · β · w · −Huber'(Ū − U) = 1/2 · 0.5 · 0.140625 · −0.5 and 1/2 · 0.5 · 0.390625 · 1
    assert gradient[0, 0, 0].tolist() == [0.0, 0.03125 - 0.017578125]
    assert gradient[0, 0, 1].tolist() == [0.03125 + 0.09765625, 0.0]


def test_a_weight_of_zero_mutes_a_transition_but_not_its_priority() -> None:
    algorithm = replace(ENSEMBLE, beta=0.5)
    numbers = replace(EXAMPLE, weights=np.array([1.0, 0.0]))
    terms, gradient = _terms_and_gradient(algorithm, numbers)
    assert gradient[:, 0].ne(0).any()
    assert gradient[:, 1].eq(0).all()
    assert terms.priorities.tolist() == [0.375, 2.25]


# ---------------------------------------------------------------------------------------------------------------------
# A categorical ensemble by hand: K = 2, B = 1, N = 1, A = 2, atoms 0, 1, 2; R = 0.5, Γ = 0.5.
# Expected values in the next state: critic 0 (0.3, 1.7), critic 1 (1.5, 0.5), mean (0.9, 1.1).
CATEGORICAL = Numbers(
    online=np.log([[[[[0.25, 0.5, 0.25], [0.9, 0.05, 0.05]]]], [[[[0.5, 0.25, 0.25], [0.9, 0.05, 0.05]]]]]),
    target_next=np.log([[[[[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]]], [[[[0.1, 0.3, 0.6], [0.6, 0.3, 0.1]]]]]),
    target=np.zeros((2, 1, 1, 2, 3)),
    online_next=np.log([[[[[0.1, 0.1, 0.8], [0.8, 0.1, 0.1]]]], [[[[0.4, 0.2, 0.4], [0.3, 0.2, 0.5]]]]]),
    actions=np.array([[0]]),
    returns=np.array([0.5]),
    discounts=np.array([0.5]),
    weights=np.array([1.0]),
    sizes=(2,),
    support=np.array([0.0, 1.0, 2.0]),
)
C51 = AlgorithmConfig(decomposition="logit-mean", head="categorical", critics=2, beta=0.0, atoms=3)


@pytest.mark.parametrize(
    ("algorithm", "mixture"),
    [
        (C51, (0.35, 0.2, 0.45)),  # both critics at choice 1
        (replace(C51, ensemble_target="mean-of-max"), (0.1, 0.2, 0.7)),  # critic 0 at choice 1, critic 1 at choice 0
        (replace(C51, double_q=True), (0.45, 0.2, 0.35)),  # online means (1.7 + 1)/2 and (0.3 + 1.2)/2: choice 0
        # online critic 0 takes choice 0, critic 1 choice 1: (0.8 + 0.6)/2, (0.1 + 0.3)/2, (0.1 + 0.1)/2
        (replace(C51, ensemble_target="mean-of-max", double_q=True), (0.7, 0.2, 0.1)),
    ],
)
def test_the_categorical_target_mixes_the_critics(
    algorithm: AlgorithmConfig, mixture: tuple[float, float, float]
) -> None:
    support = torch.tensor(CATEGORICAL.support)
    predictions = CATEGORICAL.predictions(algorithm)
    target = categorical_target(algorithm, predictions, CATEGORICAL.batch(), None, support)
    # atoms move to 0.5, 1, 1.5: the outer ones give half of their mass to the middle
    low, middle, high = mixture
    assert target[0].tolist() == pytest.approx([low / 2, low / 2 + middle + high / 2, high / 2])


def test_categorical_loss() -> None:
    terms = terms_of(C51, CATEGORICAL)
    # target (0.175, 0.6, 0.225); in units of ln 2 critic 0 pays 0.175·2 + 0.6·1 + 0.225·2 = 1.4
    # and critic 1 pays 0.175·1 + 0.6·2 + 0.225·2 = 1.825
    assert terms.loss.item() == pytest.approx(3.225 * math.log(2))
    # y = 0.6 + 0.45 = 1.05, Q = 1 and 0.75: (0.05 + 0.3)/2
    assert terms.priorities.tolist() == pytest.approx([0.175])
    assert terms.metrics["mean_target"].item() == pytest.approx(1.05)
    assert terms.metrics["mean_q"].item() == pytest.approx(0.875)


# ---------------------------------------------------------------------------------------------------------------------
# The whole family against its naive twin.
FAMILY = {name: PRESETS[name].algorithm for name in PRESETS} | {
    "c51 ensemble": replace(preset("decqn-c51"), critics=3),
    "c51 ensemble, mean of max, double": replace(
        preset("decqn-c51"), critics=3, ensemble_target="mean-of-max", double_q=True
    ),
    "c51 without factorisation": replace(preset("decqn-c51"), decomposition="atomic", critics=2),
    "sum, regularised": replace(preset("decqn-sum-ensemble"), critics=3, beta=0.5),
    "revalued, double": replace(preset("revalued"), critics=5, double_q=True),
    "revalued, mean of max, quadratic": replace(
        preset("revalued"), ensemble_target="mean-of-max", regulariser_weight="quadratic", regulariser_temperature=3.0
    ),
    "revalued, mean reduction, warm": replace(
        preset("revalued"), critics=2, beta=2.0, regulariser_reduction="mean", regulariser_temperature=0.3
    ),
    "mean of max, double": replace(preset("decqn-ensemble"), ensemble_target="mean-of-max", double_q=True),
    "sum, mean of max": replace(preset("decqn-sum-ensemble"), ensemble_target="mean-of-max"),
    "dueling, mean": replace(preset("bdq-ensemble"), decomposition="mean", double_q=False),
    "branches of utilities, regularised": replace(preset("bdq-ensemble"), head="utilities", beta=0.5),
    "branches, mean of max": replace(preset("bdq-ensemble"), ensemble_target="mean-of-max", double_q=False),
    "dqn, regularised ensemble": replace(preset("dqn"), critics=3, beta=0.5, double_q=True),
}
SIZES = [(3, 3, 3), (4, 1, 3, 2)]


def numbers_for(algorithm: AlgorithmConfig, sizes: tuple[int, ...], padding: float = 0.0) -> Numbers:
    # 11 atoms are as good as 101 here; ±3 cuts some of the targets off
    support = np.linspace(-3, 2, 11) if algorithm.head == "categorical" else None
    sizes = FactorisedActions.atomic(sizes).sizes if algorithm.decomposition == "atomic" else sizes
    return random_numbers(algorithm.critics, 5, sizes, support, seed=len(sizes), padding=padding)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("algorithm", FAMILY.values(), ids=FAMILY)
def test_loss_target_and_priorities_agree_with_the_naive_twin(
    algorithm: AlgorithmConfig, sizes: tuple[int, ...]
) -> None:
    validate(TrainConfig("any", algorithm=algorithm))
    numbers = numbers_for(algorithm, sizes)
    terms = terms_of(algorithm, numbers)
    loss, priorities = naive_loss(algorithm, numbers)
    assert terms.loss.item() == pytest.approx(loss, rel=1e-12)
    assert terms.priorities.tolist() == pytest.approx(priorities, rel=1e-12)
    assert not any(value.requires_grad for value in (terms.priorities, *terms.metrics.values()))
    if numbers.support is None:
        assert target_of(algorithm, numbers) == pytest.approx(naive_target(algorithm, numbers), rel=1e-12)
    else:
        arguments = (algorithm, numbers.predictions(algorithm), numbers.batch(), numbers.exists())
        target = categorical_target(*arguments, torch.tensor(numbers.support))
        np.testing.assert_allclose(target, naive_categorical_target(algorithm, numbers), rtol=0, atol=1e-12)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("algorithm", FAMILY.values(), ids=FAMILY)
def test_gradients_agree_with_finite_differences_of_the_naive_twin(
    algorithm: AlgorithmConfig, sizes: tuple[int, ...]
) -> None:
    numbers = numbers_for(algorithm, sizes)
    gradient = gradient_of(algorithm, numbers)
    rng = np.random.default_rng(0)
    fixed, step = numbers.online.copy(), 1e-5
    for _ in range(6):
        k, b, i = rng.integers(algorithm.critics), rng.integers(5), rng.integers(len(numbers.sizes))
        atom = () if numbers.support is None else (rng.integers(len(numbers.support)),)
        index = (k, b, i, numbers.actions[b, i], *atom)
        ends = []
        for sign in (1, -1):
            moved = fixed.copy()
            moved[index] += sign * step
            ends.append(naive_loss(algorithm, replace(numbers, online=moved), weighing=fixed)[0])
        # the error of a central difference across Huber's kink is of the order of the step
        assert gradient[index].item() == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-7)
    # what was not chosen has no part in the loss
    chosen = np.arange(max(numbers.sizes)) == numbers.actions[..., None]
    unchosen = gradient[:, ~torch.from_numpy(chosen)]
    assert unchosen.eq(0).all()
    assert gradient.ne(0).any()


@pytest.mark.parametrize("algorithm", FAMILY.values(), ids=FAMILY)
@pytest.mark.parametrize("padding", [-1e6, 1e6])
def test_padding_changes_nothing(algorithm: AlgorithmConfig, padding: float) -> None:
    def results(padding: float) -> tuple[float, list[float], torch.Tensor]:
        terms, gradient = _terms_and_gradient(algorithm, numbers_for(algorithm, (4, 1, 3, 2), padding))
        return terms.loss.item(), terms.priorities.tolist(), gradient

    loss, priorities, gradient = results(padding)
    plain_loss, plain_priorities, plain_gradient = results(0.0)
    assert loss == plain_loss
    assert priorities == plain_priorities
    assert torch.equal(gradient, plain_gradient)


@pytest.mark.parametrize("algorithm", FAMILY.values(), ids=FAMILY)
def test_after_termination_the_next_state_is_irrelevant(algorithm: AlgorithmConfig) -> None:
    numbers = numbers_for(algorithm, (3, 3, 3))
    numbers.discounts[:] = 0
    elsewhere = replace(numbers, target_next=-3 * numbers.target_next, online_next=numbers.online_next[:, ::-1].copy())
    assert terms_of(algorithm, numbers).loss.item() == pytest.approx(terms_of(algorithm, elsewhere).loss.item(), 1e-12)


@pytest.mark.parametrize("algorithm", FAMILY.values(), ids=FAMILY)
def test_every_critics_gradient_is_what_it_would_be_alone(algorithm: AlgorithmConfig) -> None:
    numbers = numbers_for(algorithm, (4, 1, 3, 2))
    numbers.discounts[:] = 0  # so that the target, R, is the same whoever is asked

    def gradient(critics: slice) -> torch.Tensor:
        names = ("online", "target_next", "target", "online_next")
        some = replace(numbers, **{name: getattr(numbers, name)[critics] for name in names})
        return gradient_of(algorithm, some)

    together = gradient(slice(None))
    for k in range(algorithm.critics):
        torch.testing.assert_close(together[k : k + 1], gradient(slice(k, k + 1)), rtol=1e-12, atol=1e-15)
