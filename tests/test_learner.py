"""The learner: its gradients, clipping, Adam and target updates against plain PyTorch, one critic at a time."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from learner_twin import (
    CPU,
    ENGINES,
    FAMILY,
    FEW_OBSERVATIONS,
    MANY_OBSERVATIONS,
    SIZES,
    NaiveLearner,
    applied_gradients,
    assert_close,
    batch_for,
    group,
    learner_for,
    same_bits,
)
from naive import Numbers, naive_loss, naive_predict
from revalued.actions import FactorisedActions
from revalued.algorithms.presets import preset
from revalued.config import AlgorithmConfig, EngineName, LearnerConfig
from revalued.learner.learner import Learner
from revalued.networks import NetworkShape


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("observation_size", [FEW_OBSERVATIONS, MANY_OBSERVATIONS])
@pytest.mark.parametrize("algorithm", FAMILY.values(), ids=FAMILY)
def test_the_gradient_is_that_of_automatic_differentiation(
    algorithm: AlgorithmConfig, observation_size: int, engine: EngineName
) -> None:
    learner = learner_for(algorithm, observation_size=observation_size, engine=engine)
    batch = batch_for(learner, seed=0)
    twin = NaiveLearner(learner)
    twin.gradients(batch)
    expected = twin.stacked(twin.online, gradients=True)
    assert_close(applied_gradients(learner, batch), expected, rtol=1e-4, atol=2e-6)
    assert all(gradient.ne(0).any() for gradient in expected.values())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["revalued", "decqn-sum", "bdq-ensemble", "decqn-c51", "dueling, mean, regularised"])
def test_the_gradient_is_that_of_finite_differences(name: str, engine: EngineName) -> None:
    algorithm = FAMILY[name]
    learner = learner_for(algorithm, engine=engine)
    batch = batch_for(learner, seed=0)
    twin = NaiveLearner(learner)
    found = applied_gradients(learner, batch)
    with torch.no_grad():
        first = twin.predictions(batch)
    unused = np.zeros(0)
    numbers = Numbers(
        online=first.online.numpy(),
        target_next=first.target_next.numpy(),
        target=unused if first.target is None else first.target.numpy(),
        online_next=unused if first.online_next is None else first.online_next.numpy(),
        actions=batch.actions,
        returns=batch.returns.astype(np.float64),
        discounts=batch.discounts.astype(np.float64),
        weights=batch.weights.astype(np.float64),
        sizes=learner.shape.actions.sizes,
        support=None if twin.support is None else twin.support.numpy(),
    )
    if first.target is None:
        numbers.target = numbers.online

    def loss() -> float:
        with torch.no_grad():
            online = naive_predict(twin.online, torch.tensor(batch.observations)).numpy()
        return naive_loss(algorithm, replace(numbers, online=online), weighing=numbers.online)[0]

    step = 1e-6
    for parameter, gradient in found.items():
        k = zlib.crc32(parameter.encode()) % algorithm.critics
        # BDQ scales what flows into the trunk: three branches and a value
        scale = 0.25 if algorithm.head == "dueling" and not parameter.startswith("head") else 1.0
        place = np.unravel_index(int(gradient[k].abs().argmax()), gradient[k].shape)
        ends = []
        for sign in (1, -1):
            twin.online[k].stacked()[parameter][place] += sign * step
            ends.append(loss())
            twin.online[k].stacked()[parameter][place] -= sign * step
        difference = scale * (ends[0] - ends[1]) / (2 * step)
        assert abs(difference) > 1e-4
        assert gradient[k][place].item() == pytest.approx(difference, rel=1e-3), parameter


@pytest.mark.parametrize("engine", ENGINES)
def test_gradients_into_bdqs_trunk_are_scaled_down(engine: EngineName) -> None:
    learner = learner_for(FAMILY["bdq-ensemble"], engine=engine)
    batch = batch_for(learner, seed=0)
    unscaled = NaiveLearner(learner, scale_trunk=False)
    unscaled.gradients(batch)
    expected = unscaled.stacked(unscaled.online, gradients=True)
    for name, gradient in applied_gradients(learner, batch).items():
        # N = 3 branches and one value share the trunk
        factor = 1.0 if name.startswith("head") else 1 / 4
        torch.testing.assert_close(gradient.double(), expected[name] * factor, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("batch_size", [16, 5])
@pytest.mark.parametrize("algorithm", FAMILY.values(), ids=FAMILY)
def test_several_updates_agree_with_torchs_adam_on_plain_critics(
    algorithm: AlgorithmConfig, batch_size: int, engine: EngineName
) -> None:
    # clipped in some updates and not in others
    learner = learner_for(algorithm, batch_size=batch_size, gradient_clip=1.0, engine=engine)
    twin = NaiveLearner(learner)
    for seed in range(4):
        batch = batch_for(learner, seed)
        priorities, _ = learner.update(batch)
        np.testing.assert_allclose(priorities, twin.update(batch).detach(), rtol=1e-3, atol=1e-4)
    assert learner.updates == 4
    # A step is at most about 1e-3 a parameter; where a gradient is nearly 0 its rounding decides Adam's direction.
    assert_close(group(learner, "online"), twin.stacked(twin.online), rtol=0, atol=1e-5)
    assert_close(group(learner, "target"), twin.stacked(twin.target), rtol=0, atol=1e-5)


@pytest.mark.parametrize("critics", [1, 2, 3])
def test_a_batch_of_one_is_one_update(critics: int) -> None:
    learner = learner_for(replace(preset("revalued"), critics=critics), batch_size=1)
    twin = NaiveLearner(learner)
    for seed in range(3):
        batch = batch_for(learner, seed)
        learner.update(batch)
        twin.update(batch)
    assert_close(group(learner, "online"), twin.stacked(twin.online), rtol=0, atol=1e-5)
    assert_close(group(learner, "target"), twin.stacked(twin.target), rtol=0, atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_first_adam_step_by_hand(engine: EngineName) -> None:
    learner = learner_for(preset("decqn"), learning_rate=0.01, engine=engine)
    before = group(learner, "online")
    gradients = applied_gradients(learner, batch_for(learner, seed=0))
    for name, after in group(learner, "online").items():
        # both bias corrections cancel in the first step: lr · g / (|g| + 1e-8)
        step = 0.01 * gradients[name] / (gradients[name].abs() + 1e-8)
        torch.testing.assert_close(after, before[name] - step, rtol=0, atol=1e-6)
    for name, second in group(learner, "adam.second_moment").items():
        torch.testing.assert_close(second, 0.001 * gradients[name].square(), rtol=1e-4, atol=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
def test_targets_move_by_the_polyak_rate_towards_the_updated_critics(engine: EngineName) -> None:
    learner = learner_for(preset("decqn-ensemble"), target_update_rate=0.25, engine=engine)
    before = group(learner, "target")
    learner.update(batch_for(learner, seed=0))
    online, target = group(learner, "online"), group(learner, "target")
    for name in before:
        torch.testing.assert_close(target[name], before[name] + 0.25 * (online[name] - before[name]))
    complete = learner_for(preset("decqn-ensemble"), target_update_rate=1.0, engine=engine)
    complete.update(batch_for(complete, seed=0))
    assert_close(group(complete, "target"), group(complete, "online"), rtol=0, atol=0)


@pytest.mark.parametrize("engine", ENGINES)
def test_weights_decay_as_in_adamw_and_biases_and_norms_do_not(engine: EngineName) -> None:
    learner = learner_for(preset("revalued"), weight_decay=3.0, engine=engine)
    plain = learner_for(preset("revalued"), engine=engine)
    twin = NaiveLearner(learner)
    for seed in range(4):
        batch = batch_for(learner, seed)
        learner.update(batch)
        plain.update(batch)
        twin.update(batch)
    assert_close(group(learner, "online"), twin.stacked(twin.online), rtol=0, atol=1e-5)
    assert (learner.online["block2.weight"].abs().mean() < 0.995 * plain.online["block2.weight"].abs().mean()).item()


def test_the_automatic_target_rate_by_hand() -> None:
    # β = 0.5, N = 3, w = 0.6: 0.005 (1 + 0.5 · 3 · 0.6) and 0.005 (1 + 0.5 · 0.6)
    assert learner_for(preset("revalued"), target_update_rate="auto").target_rate == pytest.approx(0.0095)
    averaged = replace(preset("revalued"), regulariser_reduction="mean")
    assert learner_for(averaged, target_update_rate="auto").target_rate == pytest.approx(0.0065)
    assert learner_for(preset("decqn"), target_update_rate="auto").target_rate == 0.005
    assert learner_for(preset("decqn"), target_update_rate=0.3).target_rate == 0.3


def test_a_new_learners_targets_equal_its_critics() -> None:
    shape = NetworkShape(3, 12, FactorisedActions(SIZES), 2, "utilities")
    learner = Learner(AlgorithmConfig(critics=2), LearnerConfig(12), shape, None, 0, CPU)
    assert_close(group(learner, "target"), group(learner, "online"), rtol=0, atol=0)
    assert all(tensor.eq(0).all() for name, tensor in learner.tensors().items() if name.startswith("adam."))


def alone(learner: Learner, k: int, engine: EngineName = "auto") -> Learner:
    """Return a learner of one critic that starts as critic k of another."""
    shape = replace(learner.shape, critics=1)
    single = Learner(replace(learner.algorithm, critics=1), learner.config, shape, None, 0, CPU, engine=engine)
    single.load_tensors({name: tensor[k : k + 1] for name, tensor in learner.tensors().items()}, learner.updates)
    return single


def norm_by_critic(stacked: dict[str, Tensor]) -> Tensor:
    return torch.cat([tensor.flatten(1) for tensor in stacked.values()], dim=1).square().sum(dim=1).sqrt()


@pytest.mark.parametrize("engine", ENGINES)
def test_ten_critics_learn_as_each_would_alone_clipping_included(engine: EngineName) -> None:
    algorithm = preset("revalued")
    unclipped = learner_for(algorithm, engine=engine)
    first = batch_for(unclipped, seed=0, discount=0.0)
    norms = norm_by_critic(applied_gradients(unclipped, first))
    clip = float(norms.median())
    assert norms.min() < 0.9 * clip < 1.1 * clip < norms.max()

    together = learner_for(algorithm, gradient_clip=clip, engine=engine)
    singles = [alone(together, k, engine) for k in range(10)]
    for seed in range(4):
        # Γ = 0, so that y = R whoever is asked
        batch = batch_for(together, seed, discount=0.0)
        priorities, metrics = together.update(batch)
        results = [single.update(batch) for single in singles]
        np.testing.assert_allclose(priorities, np.mean([result[0] for result in results], axis=0), rtol=1e-5)
        assert metrics["loss"] == pytest.approx(sum(result[1]["loss"] for result in results), rel=1e-5)
        if seed == 0:
            # what Adam was given is cut to the clip for large gradients, and whole for small ones
            given = norm_by_critic(group(together, "adam.first_moment")) / 0.1
            torch.testing.assert_close(given, norms.clamp(max=clip), rtol=1e-5, atol=0)
    for k, single in enumerate(singles):
        mine = {name: tensor[k : k + 1] for name, tensor in together.tensors().items()}
        assert_close(mine, single.tensors(), rtol=1e-5, atol=1e-6)


def test_critics_that_share_a_target_learn_as_each_would_alone() -> None:
    together = learner_for(replace(preset("revalued"), critics=4))
    state = {name: tensor.clone() for name, tensor in together.tensors().items()}
    for name, tensor in state.items():
        if name.startswith("target."):
            tensor[:] = tensor[:1].clone()  # then the ensemble's mean is every critic's own
    together.load_tensors(state, updates=0)
    singles = [alone(together, k) for k in range(4)]
    batch = batch_for(together, seed=0)
    together.update(batch)
    for k, single in enumerate(singles):
        single.update(batch)
        mine = {name: tensor[k : k + 1] for name, tensor in together.tensors().items()}
        assert_close(mine, single.tensors(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("ensemble_target", ["max-of-mean", "mean-of-max"])
def test_revalued_of_one_critic_without_regulariser_is_decqn_to_the_bit(ensemble_target: str) -> None:
    reduced = replace(preset("revalued"), critics=1, beta=0.0, ensemble_target=ensemble_target)  # type: ignore[arg-type]
    one, other = learner_for(reduced), learner_for(preset("decqn"))
    for seed in range(5):
        batch = batch_for(one, seed)
        (mine, _), (theirs, _) = one.update(batch), other.update(batch)
        assert mine.tolist() == theirs.tolist()
        assert same_bits(one, other)


def test_a_single_choice_per_dimension_makes_dqn_and_decqn_the_same() -> None:
    # one dimension: its mean, its sum and the atomic enumeration are one and the same
    names = ("decqn", "decqn-sum", "dqn")
    learners = [learner_for(preset(name), sizes=(5,)) for name in names]
    for seed in range(3):
        for learner in learners:
            learner.update(batch_for(learner, seed))
    assert same_bits(learners[0], learners[1])
    assert same_bits(learners[0], learners[2])


def test_metrics_for_the_log() -> None:
    learner = learner_for(FAMILY["revalued"])
    twin = NaiveLearner(learner)
    batch = batch_for(learner, seed=0)
    priorities, metrics = learner.update(batch)
    twin.gradients(batch)
    norms = [
        torch.cat([gradient.flatten() for gradient in critic.gradients().values()]).norm() for critic in twin.online
    ]
    assert metrics["gradient_norm"] == pytest.approx(torch.stack(norms).mean().item(), rel=1e-5)
    assert metrics["td_error"] == pytest.approx(priorities.mean(), rel=1e-5)
    assert metrics.keys() >= {"loss", "td_loss", "regulariser", "mean_q", "mean_target"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the compiler's own dependencies
@pytest.mark.parametrize("name", ["revalued", "bdq", "decqn-c51"])
def test_a_compiled_update_is_the_same_update(name: str) -> None:
    plain = learner_for(FAMILY[name])
    support = None if plain.support is None else (-3.0, 4.0)
    compiled = Learner(plain.algorithm, plain.config, plain.shape, support, 0, CPU, compile_update=True)
    compiled.load_tensors(plain.tensors(), updates=0)
    for seed in range(2):
        batch = batch_for(plain, seed)
        (mine, _), (theirs, _) = compiled.update(batch), plain.update(batch)
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    assert_close(compiled.tensors(), plain.tensors(), rtol=1e-4, atol=1e-5)
