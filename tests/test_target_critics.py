"""The target as the smallest value among m critics that are drawn in every update, in both engines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import tensor

from learner_twin import CPU, ENGINES, FAMILY, NEEDS_NATIVE, NaiveLearner, batch_for, learner_for, same_bits
from naive import naive_target, random_numbers
from revalued.algorithms.loss import Predictions, utility_target
from revalued.algorithms.presets import preset
from revalued.config import AlgorithmConfig, EngineName
from revalued.errors import UserError
from revalued.learner.engine import NonFiniteError
from revalued.ops.targets import min_of_drawn
from revalued.ops.utilities import mean_decomposition, sum_decomposition
from revalued.replay import Batch
from revalued.run.start import resume, start
from revalued.seeding import drawn_critics
from revalued.validation import validate
from run_helpers import assert_same_run, evolve, quick_config, stop_after, train
from test_native_engine import assert_same_learning, pair
from test_ops_targets import ONLINE, TARGET

ALGORITHM = replace(preset("decqn-ensemble"), critics=5, target_critics=2)


def test_the_smallest_value_by_hand() -> None:
    # the target critics' mean is [[2.5, 3.5], [1, 2]]: choices 1 and 1, worth (5 + 0)/2 to critic 0, (2 + 4)/2 to 1
    for drawn, expected in (([0], 2.5), ([1], 3.0), ([0, 1], 2.5)):
        assert min_of_drawn(TARGET, None, None, tensor(drawn), mean_decomposition).tolist() == [expected]
        assert min_of_drawn(TARGET, None, None, tensor(drawn), sum_decomposition).tolist() == [2 * expected]
    # the online critics' mean prefers 0 and 0, worth (1 + 2)/2 and (4 + 0)/2
    for drawn, expected in (([0], 1.5), ([1], 2.0), ([0, 1], 1.5)):
        assert min_of_drawn(TARGET, ONLINE, None, tensor(drawn), mean_decomposition).tolist() == [expected]
    # with choice 1 of the first dimension forbidden: (1 + 0)/2 and (4 + 4)/2
    legal = tensor([[True, False], [True, True]])
    assert min_of_drawn(TARGET, None, legal, tensor([0, 1]), mean_decomposition).tolist() == [0.5]


@pytest.mark.parametrize("decomposition", ["mean", "sum", "branch"])
@pytest.mark.parametrize("double_q", [False, True])
def test_targets_against_a_slow_twin(decomposition: str, double_q: bool) -> None:
    algorithm = AlgorithmConfig(decomposition, critics=4, beta=0.0, double_q=double_q, target_critics=2)
    numbers = random_numbers(4, 20, (3, 2, 4), None, seed=5, padding=1e9)
    drawn = [1, 3]
    # each critic's own value of the action that all four prefer together: that of a twin whose critics are all the same
    own = []
    for k in drawn:
        alone = replace(numbers, target_next=numbers.target_next.copy(), online_next=numbers.online_next.copy())
        if not double_q:
            alone.online_next[:] = numbers.target_next
        alone.target_next[:] = numbers.target_next[k]
        own.append(naive_target(replace(algorithm, double_q=True), alone))
    predictions = replace(numbers.predictions(algorithm), drawn=tensor(drawn))
    found = utility_target(algorithm, predictions, numbers.batch(), numbers.exists())
    np.testing.assert_allclose(found.numpy(), np.min(own, axis=0), rtol=1e-12)
    assert (np.argmin(own, axis=0) == 0).any()
    assert (np.argmin(own, axis=0) == 1).any()


def test_one_of_one_would_be_the_usual_target() -> None:
    numbers = random_numbers(1, 20, (3, 2, 4), None, seed=5)
    algorithm = replace(preset("decqn"), beta=0.0)
    plain = numbers.predictions(algorithm)
    drawn = replace(plain, drawn=tensor([0]))
    targets = [utility_target(algorithm, each, numbers.batch(), numbers.exists()) for each in (plain, drawn)]
    assert torch.equal(*targets)


def test_draws_are_uniform_subsets_that_follow_from_the_update() -> None:
    draws = [tuple(drawn_critics(7, updates, 2, 4).tolist()) for updates in range(6_000)]
    assert all(first < second for first, second in draws)
    pairs, counts = np.unique(draws, axis=0, return_counts=True)
    assert len(pairs) == 6
    # the standard deviation of each frequency is √(1/6 · 5/6 / 6,000) = 0.005
    np.testing.assert_allclose(counts / 6_000, 1 / 6, atol=0.018)
    assert draws[:4] == [tuple(drawn_critics(7, updates, 2, 4).tolist()) for updates in range(4)]
    assert draws != [tuple(drawn_critics(8, updates, 2, 4).tolist()) for updates in range(6_000)]
    assert drawn_critics(7, 3, 4, 4).tolist() == [0, 1, 2, 3]


class _Twin(NaiveLearner):
    """Knows which critics were drawn."""

    drawn: torch.Tensor

    def predictions(self, batch: Batch) -> Predictions:
        return replace(super().predictions(batch), drawn=self.drawn)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("double_q", [False, True])
def test_every_update_learns_from_its_own_draw(engine: EngineName, double_q: bool) -> None:
    learner = learner_for(replace(ALGORITHM, double_q=double_q), engine=engine)
    twin = _Twin(learner)
    for number in range(4):
        batch = batch_for(learner, number)
        drawn = learner.drawn_critics(number)
        assert drawn is not None
        twin.drawn = torch.from_numpy(drawn)
        np.testing.assert_allclose(learner.update(batch)[0], twin.update(batch).numpy(), rtol=2e-5, atol=2e-6)


@NEEDS_NATIVE
@pytest.mark.parametrize(
    "algorithm",
    [
        ALGORITHM,
        replace(ALGORITHM, target_critics=5, double_q=True, beta=0.5),
        replace(ALGORITHM, decomposition="sum", target_critics=1),
        replace(FAMILY["bdq-ensemble"], target_critics=2),
        replace(preset("dqn"), critics=3, target_critics=2),
    ],
)
def test_both_engines_learn_alike(algorithm: AlgorithmConfig) -> None:
    native, plain = pair(algorithm)
    assert_same_learning(native, plain, [batch_for(native, seed) for seed in range(4)])


@NEEDS_NATIVE
@pytest.mark.parametrize("critic", range(3))
def test_what_is_not_a_number_is_noticed_wherever_it_is(critic: int) -> None:
    learner = learner_for(replace(ALGORITHM, critics=3, target_critics=3), engine="native")
    learner.target["head.bias"][critic] = torch.nan
    with pytest.raises(NonFiniteError):
        learner.update(batch_for(learner, 0))


@pytest.mark.parametrize("engine", ENGINES)
def test_state_goes_on_bit_for_bit(engine: EngineName) -> None:
    learner, other = (learner_for(ALGORITHM, engine=engine) for _ in range(2))
    batches = [batch_for(learner, seed) for seed in range(6)]
    for batch in batches[:3]:
        learner.update(batch)
    other.load_tensors({name: tensor.clone() for name, tensor in learner.tensors().items()}, updates=3)
    for batch in batches[3:]:
        learner.update(batch)
        other.update(batch)
    assert same_bits(learner, other)
    assert learner.device == CPU


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    config = quick_config("toy-counting", "decqn-ensemble", critics=3, target_critics=2)
    expected = train(config, tmp_path / "expected")
    start(config, tmp_path / "run", should_stop=stop_after(41))
    assert resume(tmp_path / "run").finished
    assert_same_run(expected, tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"critics": 1}, "with one critic there are none to draw from"),
        ({"target_critics": 6}, "target_critics = 6 .* at most critics = 5"),
        ({"target_critics": 0}, "target_critics = 0 .* at least 1"),
        ({"ensemble_target": "mean-of-max"}, "has no such action: use max-of-mean"),
        ({"head": "categorical", "decomposition": "logit-mean"}, "distributions have no smallest one"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, object], reason: str) -> None:
    config = quick_config("toy-levers", "decqn-ensemble", critics=5, target_critics=2)
    validate(config)
    with pytest.raises(UserError, match=reason):
        validate(evolve(config, **changes))
