"""The learner: its gradients, clipping, Adam and target updates against plain PyTorch, one critic at a time."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from naive import NaiveCritic, Numbers, naive_loss, naive_predict, split_input
from revalued.actions import FactorisedActions
from revalued.algorithms.objective import Predictions, TensorBatch, loss_terms
from revalued.algorithms.presets import PRESETS, preset
from revalued.config import AlgorithmConfig, LearnerConfig
from revalued.learner import Learner, NonFiniteError
from revalued.networks import NetworkShape
from revalued.replay import Batch

CPU = torch.device("cpu")
NO_CLIP = 1e6
SIZES = (3, 2, 4)
# few observations let the first two layers be multiplied beforehand, many do not
FEW_OBSERVATIONS, MANY_OBSERVATIONS = 3, 40


def learner_for(
    algorithm: AlgorithmConfig,
    *,
    observation_size: int = FEW_OBSERVATIONS,
    sizes: tuple[int, ...] = SIZES,
    seed: int = 0,
    batch_size: int = 16,
    gradient_clip: float = NO_CLIP,
    target_update_rate: float = 0.1,
    learning_rate: float = 1e-3,
) -> Learner:
    """Return a small learner whose targets and LayerNorms are far enough from where they start to be seen."""
    categorical = algorithm.head == "categorical"
    space = FactorisedActions.atomic(sizes) if algorithm.decomposition == "atomic" else FactorisedActions(sizes)
    atoms = 11 if categorical else 1
    shape = NetworkShape(observation_size, 12, space, algorithm.critics, algorithm.head, atoms)
    config = LearnerConfig(12, learning_rate, batch_size, gradient_clip, target_update_rate)
    learner = Learner(algorithm, config, shape, (-3.0, 4.0) if categorical else None, seed, CPU)
    generator = torch.Generator().manual_seed(seed + 1)
    state = {name: tensor.clone() for name, tensor in learner.tensors().items()}
    for name, tensor in state.items():
        if name.startswith(("target.", "online.norm")):
            tensor += 0.3 * torch.randn(tensor.shape, generator=generator)
    learner.load_tensors(state, updates=0)
    return learner


def batch_for(learner: Learner, seed: int, discount: float = 0.97) -> Batch:
    rng = np.random.default_rng(seed)
    size, space = learner.config.batch_size, learner.shape.actions
    observations = rng.normal(0, 1, (2, size, learner.shape.observation_size)).astype(np.float32)
    return Batch(
        rows=np.arange(size),
        observations=observations[0],
        actions=space.uniform(rng.random((size, space.num_dimensions))),
        returns=rng.normal(0, 2, size).astype(np.float32),
        discounts=np.where(rng.random(size) < 0.2, 0.0, discount).astype(np.float32),
        next_observations=observations[1],
        weights=rng.uniform(0.2, 1, size).astype(np.float32),
    )


def group(learner: Learner, name: str) -> dict[str, Tensor]:
    """Return a copy of one group of the learner's tensors under the parameters' own names."""
    tensors = learner.tensors()
    found = {key.removeprefix(f"{name}."): tensors[key].clone() for key in tensors if key.startswith(f"{name}.")}
    return split_input(found)


def applied_gradients(learner: Learner, batch: Batch) -> dict[str, Tensor]:
    """Do the learner's first update and return the gradients it took: Adam's first moment is then a tenth of them."""
    assert learner.updates == 0
    learner.update(batch)
    return {name: tensor / 0.1 for name, tensor in group(learner, "adam.first_moment").items()}


class NaiveLearner:
    """One plain critic, its target and `torch.optim.Adam` for each k; gradients by automatic differentiation."""

    def __init__(self, learner: Learner, scale_trunk: bool = True) -> None:
        self.algorithm, self.config, self.shape = learner.algorithm, learner.config, learner.shape
        self.support = None if learner.support is None else learner.support.double()
        self.exists = learner.exists
        online, target = group(learner, "online"), group(learner, "target")
        self.online = [NaiveCritic(self.shape, online, k, scale_trunk) for k in range(self.shape.critics)]
        self.target = [NaiveCritic(self.shape, target, k) for k in range(self.shape.critics)]
        self.optimisers = [torch.optim.Adam(critic.parameters(), self.config.learning_rate) for critic in self.online]

    def tensors(self, batch: Batch) -> TensorBatch:
        observations, next_observations = torch.tensor(batch.observations), torch.tensor(batch.next_observations)
        floats = (batch.returns, batch.discounts, batch.weights)
        returns, discounts, weights = (torch.tensor(array, dtype=torch.float64) for array in floats)
        actions = torch.tensor(batch.actions)
        return TensorBatch(observations, actions, returns, discounts, next_observations, weights)

    def predictions(self, batch: Batch) -> Predictions:
        tensors = self.tensors(batch)
        online = naive_predict(self.online, tensors.observations)
        with torch.no_grad():
            next_of_online = naive_predict(self.online, tensors.next_observations)
            return Predictions(
                online,
                naive_predict(self.target, tensors.next_observations),
                naive_predict(self.target, tensors.observations) if self.algorithm.beta > 0 else None,
                next_of_online if self.algorithm.double_q else None,
            )

    def gradients(self, batch: Batch) -> Tensor:
        """Leave gradients in the critics, unclipped; return the priorities."""
        for critic in self.online:
            critic.zero_grad()
        terms = loss_terms(self.algorithm, self.predictions(batch), self.tensors(batch), self.exists, self.support)
        terms.loss.backward()  # type: ignore[no-untyped-call]
        return terms.priorities

    def update(self, batch: Batch) -> Tensor:
        priorities = self.gradients(batch)
        for critic, optimiser in zip(self.online, self.optimisers, strict=True):
            gradients = [tensor.grad for tensor in critic.parameters() if tensor.grad is not None]
            norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
            if norm > self.config.gradient_clip:
                for gradient in gradients:
                    gradient *= self.config.gradient_clip / norm
            optimiser.step()
        rate = self.config.target_update_rate
        for target, online in zip(self.target, self.online, strict=True):
            for mine, theirs in zip(target.parameters(), online.parameters(), strict=True):
                mine.data = mine.data + rate * (theirs.data - mine.data)
        return priorities

    def stacked(self, critics: list[NaiveCritic], gradients: bool = False) -> dict[str, Tensor]:
        each = [critic.gradients() if gradients else critic.stacked() for critic in critics]
        return {name: torch.stack([one[name] for one in each]) for name in each[0]}


def assert_close(found: dict[str, Tensor], expected: dict[str, Tensor], rtol: float, atol: float) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        difference = (tensor.double() - expected[name].double()).abs()
        excess = difference - rtol * expected[name].double().abs() - atol
        assert excess.max() <= 0, f"{name} is off by up to {difference.max().item()}"


FAMILY = {
    **{name: replace(PRESETS[name].algorithm, critics=min(PRESETS[name].algorithm.critics, 3)) for name in PRESETS},
    "c51 ensemble": replace(preset("decqn-c51"), critics=2),
    "sum, regularised": replace(preset("decqn-sum"), critics=2, beta=0.5),
    "dueling, mean, regularised": replace(preset("bdq"), decomposition="mean", beta=0.5, double_q=False),
    "revalued, mean of max, double": replace(
        preset("revalued"), critics=4, double_q=True, ensemble_target="mean-of-max"
    ),
}


@pytest.mark.parametrize("observation_size", [FEW_OBSERVATIONS, MANY_OBSERVATIONS])
@pytest.mark.parametrize("algorithm", FAMILY.values(), ids=FAMILY)
def test_the_gradient_is_that_of_automatic_differentiation(algorithm: AlgorithmConfig, observation_size: int) -> None:
    learner = learner_for(algorithm, observation_size=observation_size)
    batch = batch_for(learner, seed=0)
    twin = NaiveLearner(learner)
    twin.gradients(batch)
    expected = twin.stacked(twin.online, gradients=True)
    assert_close(applied_gradients(learner, batch), expected, rtol=1e-4, atol=2e-6)
    assert all(gradient.ne(0).any() for gradient in expected.values())


@pytest.mark.parametrize("name", ["revalued", "decqn-sum", "bdq-ensemble", "decqn-c51", "dueling, mean, regularised"])
def test_the_gradient_is_that_of_finite_differences(name: str) -> None:
    algorithm = FAMILY[name]
    learner = learner_for(algorithm)
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


def test_gradients_into_bdqs_trunk_are_scaled_down() -> None:
    learner = learner_for(FAMILY["bdq-ensemble"])
    batch = batch_for(learner, seed=0)
    unscaled = NaiveLearner(learner, scale_trunk=False)
    unscaled.gradients(batch)
    expected = unscaled.stacked(unscaled.online, gradients=True)
    for name, gradient in applied_gradients(learner, batch).items():
        # N = 3 branches and one value share the trunk
        factor = 1.0 if name.startswith("head") else 1 / 4
        torch.testing.assert_close(gradient.double(), expected[name] * factor, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("batch_size", [16, 5])
@pytest.mark.parametrize("algorithm", FAMILY.values(), ids=FAMILY)
def test_several_updates_agree_with_torchs_adam_on_plain_critics(algorithm: AlgorithmConfig, batch_size: int) -> None:
    # clipped in some updates and not in others
    learner = learner_for(algorithm, batch_size=batch_size, gradient_clip=1.0)
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


def test_the_first_adam_step_by_hand() -> None:
    learner = learner_for(preset("decqn"), learning_rate=0.01)
    before = group(learner, "online")
    gradients = applied_gradients(learner, batch_for(learner, seed=0))
    for name, after in group(learner, "online").items():
        # both bias corrections cancel in the first step: lr · g / (|g| + 1e-8)
        step = 0.01 * gradients[name] / (gradients[name].abs() + 1e-8)
        torch.testing.assert_close(after, before[name] - step, rtol=0, atol=1e-6)
    for name, second in group(learner, "adam.second_moment").items():
        torch.testing.assert_close(second, 0.001 * gradients[name].square(), rtol=1e-4, atol=1e-12)


def test_targets_move_by_the_polyak_rate_towards_the_updated_critics() -> None:
    learner = learner_for(preset("decqn-ensemble"), target_update_rate=0.25)
    before = group(learner, "target")
    learner.update(batch_for(learner, seed=0))
    online, target = group(learner, "online"), group(learner, "target")
    for name in before:
        torch.testing.assert_close(target[name], before[name] + 0.25 * (online[name] - before[name]))
    complete = learner_for(preset("decqn-ensemble"), target_update_rate=1.0)
    complete.update(batch_for(complete, seed=0))
    assert_close(group(complete, "target"), group(complete, "online"), rtol=0, atol=0)


def test_a_new_learners_targets_equal_its_critics() -> None:
    shape = NetworkShape(3, 12, FactorisedActions(SIZES), 2, "utilities")
    learner = Learner(AlgorithmConfig(critics=2), LearnerConfig(12), shape, None, 0, CPU)
    assert_close(group(learner, "target"), group(learner, "online"), rtol=0, atol=0)
    assert all(tensor.eq(0).all() for name, tensor in learner.tensors().items() if name.startswith("adam."))


def alone(learner: Learner, k: int, config: LearnerConfig) -> Learner:
    """Return a learner of one critic that starts as critic k of another."""
    shape = replace(learner.shape, critics=1)
    single = Learner(replace(learner.algorithm, critics=1), config, shape, None, 0, CPU)
    single.load_tensors({name: tensor[k : k + 1] for name, tensor in learner.tensors().items()}, learner.updates)
    return single


def norm_by_critic(stacked: dict[str, Tensor]) -> Tensor:
    return torch.cat([tensor.flatten(1) for tensor in stacked.values()], dim=1).square().sum(dim=1).sqrt()


def test_ten_critics_learn_as_each_would_alone_clipping_included() -> None:
    algorithm = preset("revalued")
    unclipped = learner_for(algorithm)
    first = batch_for(unclipped, seed=0, discount=0.0)
    norms = norm_by_critic(applied_gradients(unclipped, first))
    clip = float(norms.median())
    assert norms.min() < 0.9 * clip < 1.1 * clip < norms.max()

    together = learner_for(algorithm, gradient_clip=clip)
    singles = [alone(together, k, together.config) for k in range(10)]
    for seed in range(4):
        # Γ = 0, so that y = R whoever is asked
        batch = batch_for(together, seed, discount=0.0)
        priorities, metrics = together.update(batch)
        results = [single.update(batch) for single in singles]
        np.testing.assert_allclose(priorities, np.mean([result[0] for result in results], axis=0), rtol=1e-5)
        losses = torch.stack([result[1]["loss"] for result in results])
        torch.testing.assert_close(metrics["loss"], losses.sum(), rtol=1e-5, atol=0)
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
    singles = [alone(together, k, together.config) for k in range(4)]
    batch = batch_for(together, seed=0)
    together.update(batch)
    for k, single in enumerate(singles):
        single.update(batch)
        mine = {name: tensor[k : k + 1] for name, tensor in together.tensors().items()}
        assert_close(mine, single.tensors(), rtol=1e-5, atol=1e-6)


def same_bits(one: Learner, other: Learner) -> bool:
    mine, theirs = one.tensors(), other.tensors()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


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


def test_figures_for_the_log() -> None:
    learner = learner_for(FAMILY["revalued"])
    twin = NaiveLearner(learner)
    batch = batch_for(learner, seed=0)
    priorities, metrics = learner.update(batch)
    twin.gradients(batch)
    norms = [
        torch.cat([gradient.flatten() for gradient in critic.gradients().values()]).norm() for critic in twin.online
    ]
    assert metrics["gradient_norm"].item() == pytest.approx(torch.stack(norms).mean().item(), rel=1e-5)
    assert metrics["td_error"].item() == pytest.approx(priorities.mean(), rel=1e-5)
    assert metrics.keys() >= {"loss", "td_loss", "regulariser", "mean_q", "mean_target"}
    assert all(not metric.requires_grad for metric in metrics.values())


@pytest.mark.parametrize("name", ["revalued", "bdq", "decqn-c51"])
@pytest.mark.parametrize(
    ("field", "value"),
    [("returns", np.nan), ("observations", np.nan), ("observations", np.inf), ("next_observations", np.inf)],
)
def test_numbers_that_are_not_finite_stop_learning_before_they_spread(name: str, field: str, value: float) -> None:
    learner = learner_for(FAMILY[name])
    before = {name: tensor.clone() for name, tensor in learner.tensors().items()}
    batch = batch_for(learner, seed=0)
    batch.discounts[3] = 0.97
    getattr(batch, field)[3] = value
    with pytest.raises(NonFiniteError, match=r"update 1 .*diverged"):
        learner.update(batch)
    assert all(torch.equal(before[key], tensor) for key, tensor in learner.tensors().items())


def test_a_learner_can_go_on_after_a_batch_that_was_refused() -> None:
    learner, other = learner_for(FAMILY["revalued"]), learner_for(FAMILY["revalued"])
    bad = batch_for(learner, seed=0)
    bad.returns[:] = np.nan
    with pytest.raises(NonFiniteError):
        learner.update(bad)
    for each in (learner, other):
        each.update(batch_for(each, seed=1))
    assert same_bits(learner, other)


def test_parameters_that_are_not_finite_are_found() -> None:
    learner = learner_for(FAMILY["revalued"])
    learner.check_finite()
    state = {name: tensor.clone() for name, tensor in learner.tensors().items()}
    state["online.block2.bias"][2, 0, 5] = np.nan
    learner.load_tensors(state, updates=12)
    with pytest.raises(NonFiniteError, match=r"block2.bias is not finite after update 12"):
        learner.check_finite()


@pytest.mark.parametrize("algorithm", FAMILY.values(), ids=FAMILY)
def test_state_that_was_saved_and_loaded_continues_bit_for_bit(algorithm: AlgorithmConfig) -> None:
    one, other = learner_for(algorithm), learner_for(algorithm, seed=99)
    for seed in range(3):
        one.update(batch_for(one, seed))
    assert not same_bits(one, other)
    saved = {name: tensor.clone() for name, tensor in one.tensors().items()}
    other.load_tensors(saved, updates=3)
    assert same_bits(one, other)
    for seed in range(3, 6):
        batch = batch_for(one, seed)
        (mine, _), (theirs, _) = one.update(batch), other.update(batch)
        assert mine.tolist() == theirs.tolist()
    assert same_bits(one, other)
    assert one.updates == other.updates == 6
    # loading copies: what was saved is not written to afterwards
    assert not torch.equal(saved["online.input"], other.tensors()["online.input"])


def test_state_of_another_shape_is_refused_and_changes_nothing() -> None:
    learner = learner_for(FAMILY["revalued"])
    before = {name: tensor.clone() for name, tensor in learner.tensors().items()}
    other = learner_for(FAMILY["revalued"], seed=5).tensors()
    wider = learner_for(FAMILY["revalued"], sizes=(5, 5)).tensors()
    more_critics = learner_for(replace(FAMILY["revalued"], critics=4)).tensors()
    missing = {name: tensor for name, tensor in other.items() if name != "adam.second_moment.norm.shift"}
    # the last tensor of all does not fit
    late = {**other, "adam.second_moment.norm.shift": torch.zeros(3, 1, 13)}
    for unfit in (wider, more_critics, missing, late):
        with pytest.raises(ValueError, match="does not fit this network"):
            learner.load_tensors(unfit, updates=7)
        assert all(torch.equal(before[name], tensor) for name, tensor in learner.tensors().items())
        assert learner.updates == 0
