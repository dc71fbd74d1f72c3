"""The exported graph chooses what the policy chooses, for every head, size and mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch
from numpy.typing import NDArray

from export_helpers import plain_choices, random_masks, random_policy, session_of
from revalued.acting.normalisation import ObservationNormaliser
from revalued.acting.policy import Policy
from revalued.actions import FactorisedActions
from revalued.export import policy_model
from revalued.ops.utilities import hide_illegal

OBSERVATIONS = np.random.default_rng(0).standard_normal((10_000, 7)).astype(np.float32)
UNEQUAL = (2, 5, 3)


def expected_utilities(policy: Policy, masks: NDArray[np.bool_] | None) -> NDArray[np.float32]:
    """Mean utilities with −∞ at padding and at what the masks forbid."""
    legal = None if masks is None else policy.shape.actions.legal(masks)
    allowed = policy.exists if legal is None else torch.from_numpy(legal)
    utilities = hide_illegal(policy.utilities(OBSERVATIONS).mean(dim=0), allowed)
    result: NDArray[np.float32] = utilities.numpy()
    return result


def assert_same_choices(policy: Policy, chosen: NDArray[np.int64], masks: NDArray[np.bool_] | None) -> None:
    """Equal wherever the best choice is best by more than rounding, and in 999 of 1000 cases at least."""
    own = policy.shape.actions.to_environment(policy.greedy(OBSERVATIONS, masks))
    best = np.partition(expected_utilities(policy, masks), -2, axis=-1)
    clear = best[..., -1] - best[..., -2] > 1e-4
    assert clear.mean() > 0.9
    # an atomic choice decides all sub-actions
    assert (chosen == own)[np.broadcast_to(clear, own.shape)].all()
    assert (chosen == own).mean() >= 0.999


CASES: dict[str, dict[str, Any]] = {
    "decqn": {},
    "revalued": {"critics": 10},
    "bdq": {"head": "dueling"},
    "bdq-ensemble": {"head": "dueling", "critics": 3},
    "decqn-c51": {"head": "categorical"},
    "c51-ensemble": {"head": "categorical", "critics": 3},
    "wide-observations": {"hidden": 7, "critics": 2},
    "prenorm": {"torso": "prenorm", "blocks": 2, "critics": 2},
}


@pytest.mark.parametrize(
    ("sizes", "masked"),
    [
        ((3,) * 4, False),
        (UNEQUAL, True),
        pytest.param((3,) * 4, True, marks=pytest.mark.slow),
        pytest.param(UNEQUAL, False, marks=pytest.mark.slow),
    ],
    ids=["equal", "unequal-masked", "equal-masked", "unequal"],
)
@pytest.mark.parametrize("case", CASES)
def test_it_chooses_as_the_policy(case: str, sizes: tuple[int, ...], masked: bool) -> None:
    check(random_policy(FactorisedActions(sizes), **CASES[case]), sizes, masked)


@pytest.mark.parametrize("masked", [False, True], ids=["unmasked", "masked"])
@pytest.mark.parametrize("head", ["utilities", "dueling", "categorical"])
def test_an_atomic_choice_becomes_sub_actions(head: str, masked: bool) -> None:
    check(random_policy(FactorisedActions.atomic(UNEQUAL), head=head), UNEQUAL, masked)


def check(policy: Policy, sizes: tuple[int, ...], masked: bool) -> None:
    model = policy_model(policy, plain_choices(sizes), masked=masked)
    onnx.checker.check_model(model, full_check=True)
    session = session_of(model)
    masks = random_masks(sizes, len(OBSERVATIONS), np.random.default_rng(1)) if masked else None
    given = {"observation": OBSERVATIONS} | ({} if masks is None else {"mask": masks})
    chosen, action, utilities = session.run(["sub_actions", "action", "utilities"], given)
    assert_same_choices(policy, chosen, masks)
    assert chosen.dtype == np.int64
    assert np.array_equal(action, chosen)
    np.testing.assert_allclose(utilities, expected_utilities(policy, masks), atol=2e-5)
    if masks is not None:
        places = np.cumsum([0, *sizes[:-1]]) + chosen
        assert masks[np.arange(len(masks))[:, None], places].all()


def test_the_mask_may_be_left_out() -> None:
    policy = random_policy(FactorisedActions(UNEQUAL))
    session = session_of(policy_model(policy, plain_choices(UNEQUAL), masked=True))
    (without,) = session.run(["sub_actions"], {"observation": OBSERVATIONS})
    (all_true,) = session.run(
        ["sub_actions"], {"observation": OBSERVATIONS, "mask": np.ones((10_000, sum(UNEQUAL)), np.bool_)}
    )
    assert np.array_equal(without, all_true)
    assert_same_choices(policy, without, None)
    # one row for the whole batch
    mask = np.array([[True, False, False, True, False, False, False, True, True, True]])
    (chosen,) = session.run(["sub_actions"], {"observation": OBSERVATIONS, "mask": mask})
    assert (chosen[:, :2] == [0, 1]).all()


def test_inputs_outputs_and_their_shapes() -> None:
    policy = random_policy(FactorisedActions(UNEQUAL), critics=2)
    session = session_of(policy_model(policy, plain_choices(UNEQUAL), masked=True))
    assert [(value.name, value.shape, value.type) for value in session.get_inputs()] == [
        ("observation", ["batch", 7], "tensor(float)")
    ]
    assert [value.name for value in session.get_overridable_initializers()] == ["mask"]
    assert [(value.name, value.shape, value.type) for value in session.get_outputs()] == [
        ("sub_actions", ["batch", 3], "tensor(int64)"),
        ("action", ["batch", 3], "tensor(int64)"),
        ("utilities", ["batch", 3, 5], "tensor(float)"),
    ]
    assert session.run(["sub_actions"], {"observation": OBSERVATIONS[:1]})[0].shape == (1, 3)
    assert "mask" not in str(policy_model(policy, plain_choices(UNEQUAL)).graph.input)


def test_merged_layers_give_the_numbers_of_separate_ones() -> None:
    """h = x W0 + b0; relu(h W1 + b1) = relu(x (W0 W1) + (b0 W1 + b1)), by hand on a network of width 2."""
    policy = random_policy(FactorisedActions((2,)), observation_size=1, hidden=2)
    for name, value in {
        "input": [[1.0, -2.0], [0.5, 1.0]],
        "block1.weight": [[1.0, 0.0], [2.0, 1.0]],
        "block1.bias": [[0.0, 3.0]],
        "block2.weight": [[1.0, 0.0], [0.0, 1.0]],
        "block2.bias": [[0.0, 0.0]],
        "norm.scale": [[2.0, 1.0]],
        "norm.shift": [[0.0, 1.0]],
        "head.weight": [[1.0, 0.0], [0.0, 1.0]],
        "head.bias": [[0.0, 10.0]],
    }.items():
        policy.parameters[name][0] = policy.parameters[name].new_tensor(value)
    session = session_of(policy_model(policy, plain_choices((2,))))
    (utilities,) = session.run(["utilities"], {"observation": np.array([[1.0]], np.float32)})
    # h = (1.5, -1); block1 = relu(1.5 - 2, -1 + 3) = (0, 2); sum = (1.5, 1), normal = (1, -1) up to epsilon
    np.testing.assert_allclose(utilities, [[[2.0, 10.0]]], atol=1e-3)


def test_a_policy_of_another_action_space_is_refused() -> None:
    with pytest.raises(ValueError, match="environment has"):
        policy_model(random_policy(FactorisedActions((2, 2))), plain_choices((2, 3)))


def test_observations_are_normalised_in_the_graph() -> None:
    policy = random_policy(FactorisedActions(UNEQUAL), critics=2)
    raw = policy.utilities(OBSERVATIONS).mean(dim=0)
    policy.normaliser = ObservationNormaliser(7)
    policy.normaliser.observe(np.arange(21, dtype=np.float32).reshape(3, 7) ** 2)
    policy.normaliser.observe(OBSERVATIONS[:5])
    model = policy_model(policy, plain_choices(UNEQUAL))
    chosen, utilities = session_of(model).run(["sub_actions", "utilities"], {"observation": OBSERVATIONS})
    np.testing.assert_allclose(utilities, expected_utilities(policy, None), rtol=1e-4, atol=1e-5)
    assert_same_choices(policy, chosen, None)
    assert not np.allclose(policy.utilities(OBSERVATIONS).mean(dim=0), raw, atol=0.01)
