"""The engine in C against the one of PyTorch operations, wherever their work is cut up differently."""

from __future__ import annotations

import ctypes
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from learner_twin import (
    CPU,
    FAMILY,
    FEW_OBSERVATIONS,
    MANY_OBSERVATIONS,
    NEEDS_NATIVE,
    assert_close,
    batch_for,
    group,
    learner_for,
    same_bits,
)
from revalued.acting.policy import Policy
from revalued.algorithms.presets import preset
from revalued.config import AlgorithmConfig
from revalued.errors import UserError
from revalued.learner.engine import NonFiniteError
from revalued.learner.learner import Learner
from revalued.learner.native_update import NativeEngine
from revalued.learner.torch_update import TorchEngine
from revalued.native import choice, layout, library, why_missing
from revalued.native.choice import resolve_engine
from revalued.native.merging import merging_pays
from revalued.ops.losses import huber
from revalued.replay import Batch


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.skipif(
    shutil.which("gcc") is None or (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="there is no compiler",
)
def test_the_library_is_there_where_it_could_be_compiled() -> None:
    """Without this, every test of it might be skipped and nobody would know."""
    assert why_missing() is None


def pair(algorithm: AlgorithmConfig, **options: object) -> tuple[Learner, Learner]:
    """Return the same learner twice, updated by C and by PyTorch."""
    return (
        learner_for(algorithm, engine="native", **options),  # type: ignore[arg-type]
        learner_for(algorithm, engine="torch", **options),  # type: ignore[arg-type]
    )


def assert_same_learning(native: Learner, plain: Learner, batches: list[Batch]) -> None:
    for batch in batches:
        (mine, my_metrics), (theirs, their_metrics) = native.update(batch), plain.update(batch)
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
        assert list(my_metrics) == list(their_metrics)
        assert dict(my_metrics) == pytest.approx(dict(their_metrics), rel=1e-4, abs=1e-5)
    # where a gradient is nearly 0, its rounding decides Adam's direction
    for name in ("online", "target"):
        assert_close(group(native, name), group(plain, name), rtol=0, atol=5e-5)
    for name in ("adam.first_moment", "adam.second_moment"):
        assert_close(group(native, name), group(plain, name), rtol=1e-3, atol=2e-6)


@NEEDS_NATIVE
@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize("critics", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("name", ["revalued", "decqn-ensemble", "bdq-ensemble"])
def test_critics_and_threads_in_all_proportions(name: str, critics: int, threads: int) -> None:
    """Threads share a critic, or critics share a thread."""
    torch.set_num_threads(threads)
    native, plain = pair(replace(FAMILY[name], critics=critics), hidden_size=40, gradient_clip=1.0)
    assert_same_learning(native, plain, [batch_for(native, seed) for seed in range(3)])


@NEEDS_NATIVE
@pytest.mark.parametrize("observation_size", [3, 300])
@pytest.mark.parametrize("batch_size", [1, 2, 3, 255, 257, 600])
def test_batches_that_do_not_divide_into_blocks(batch_size: int, observation_size: int) -> None:
    torch.set_num_threads(2)
    algorithm = replace(preset("revalued"), critics=3)
    native, plain = pair(algorithm, batch_size=batch_size, observation_size=observation_size)
    assert_same_learning(native, plain, [batch_for(native, seed) for seed in range(2)])


@NEEDS_NATIVE
@pytest.mark.parametrize("hidden_size", [1, 7, 16, 33, 100])
def test_widths_that_do_not_fill_a_cache_line(hidden_size: int) -> None:
    torch.set_num_threads(4)  # more than there are units to share out
    native, plain = pair(replace(preset("revalued"), critics=2), hidden_size=hidden_size)
    batch = batch_for(native, seed=0)
    (mine, _), (theirs, _) = native.update(batch), plain.update(batch)
    np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-4)
    expected = group(plain, "adam.first_moment")
    # with one hidden unit LayerNorm's output is constant, and the trunk's gradients are nothing but rounding
    names = [name for name in expected if hidden_size > 1 or name.startswith("head")]
    found = group(native, "adam.first_moment")
    assert_close({n: found[n] for n in names}, {n: expected[n] for n in names}, rtol=1e-3, atol=1e-5)


@NEEDS_NATIVE
@pytest.mark.parametrize("weight", ["exponential", "quadratic"])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("decomposition", ["mean", "sum"])
@pytest.mark.parametrize("target", ["max-of-mean", "mean-of-max"])
@pytest.mark.parametrize("double_q", [False, True])
def test_every_loss_that_is_written_in_c(
    weight: str, reduction: str, decomposition: str, target: str, double_q: bool
) -> None:
    algorithm = AlgorithmConfig(
        decomposition=decomposition,
        critics=2,
        regulariser_weight=weight,  # type: ignore[arg-type]
        regulariser_reduction=reduction,  # type: ignore[arg-type]
        regulariser_temperature=0.7,
        ensemble_target=target,  # type: ignore[arg-type]
        double_q=double_q,
    )
    native, plain = pair(algorithm)
    assert native._engine._computes_loss  # type: ignore[attr-defined]
    assert_same_learning(native, plain, [batch_for(native, seed) for seed in range(3)])


@NEEDS_NATIVE
@pytest.mark.parametrize("size", [1e-6, 1e-4, 1e-2, 0.3, 1.0, 5.0, 30.0, 86.0, 88.0, 1e3, 1e6])
def test_the_weight_function_at_all_sizes_of_errors(size: float) -> None:
    """1 − exp(−|δ|) must neither lose small differences nor overflow for large ones."""
    learner = learner_for(replace(preset("revalued"), critics=1), sizes=(5,), engine="native")
    state = {name: tensor.clone() for name, tensor in learner.tensors().items()}
    for name in ("online.head.weight", "online.head.bias"):
        state[name].zero_()  # then every utility is 0, and δ = y = R exactly
    learner.load_tensors(state, updates=0)
    batch = batch_for(learner, seed=0, discount=0.0)
    batch.returns[:] = size
    target = Policy(learner.shape, learner.target, None).utilities(batch.observations)[0, :, 0].double()
    chosen = target.gather(1, torch.from_numpy(batch.actions))
    expected = -np.expm1(-float(np.float32(size))) * huber(chosen).mean().item()
    _, metrics = learner.update(batch)
    assert metrics["regulariser"] == pytest.approx(expected, rel=1e-6)


@NEEDS_NATIVE
def test_masks_of_the_next_state() -> None:
    native, plain = pair(replace(preset("revalued"), critics=2))
    rng = np.random.default_rng(0)
    batches = []
    for seed in range(3):
        masks = rng.random((native.config.batch_size, 9)) < 0.5
        masks[:, [0, 3, 5]] = True  # something is legal in each dimension
        batches.append(batch_for(native, seed)._replace(next_masks=masks))
    assert_same_learning(native, plain, batches)
    free, _ = pair(replace(preset("revalued"), critics=2))
    free.update(batches[0]._replace(next_masks=None))
    masked, _ = pair(replace(preset("revalued"), critics=2))
    masked.update(batches[0])
    assert not same_bits(free, masked)


@NEEDS_NATIVE
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", ["revalued", "bdq", "decqn-c51"])
def test_two_runs_are_equal_to_the_bit(name: str, threads: int) -> None:
    torch.set_num_threads(threads)
    one, other = (learner_for(FAMILY[name], engine="native", hidden_size=64, batch_size=64) for _ in range(2))
    for seed in range(10):
        batch = batch_for(one, seed)
        (mine, my_metrics), (theirs, their_metrics) = one.update(batch), other.update(batch)
        assert mine.tobytes() == theirs.tobytes()
        assert dict(my_metrics) == dict(their_metrics)
    assert same_bits(one, other)


@NEEDS_NATIVE
def test_bits_do_not_depend_on_which_thread_takes_which_critic() -> None:
    """A process that keeps the cores busy makes threads fall behind, at other moments in every update."""
    torch.set_num_threads(2)
    one, other = (
        learner_for(replace(preset("revalued"), critics=6), engine="native", hidden_size=64, batch_size=64)
        for _ in range(2)
    )
    batches = [batch_for(one, seed) for seed in range(20)]
    alone = [one.update(batch) for batch in batches]
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        disturbed = [other.update(batch) for batch in batches]
    finally:
        busy.kill()
        busy.wait()
    for (mine, my_metrics), (theirs, their_metrics) in zip(alone, disturbed, strict=True):
        assert mine.tobytes() == theirs.tobytes()
        assert dict(my_metrics) == dict(their_metrics)
    assert same_bits(one, other)


@NEEDS_NATIVE
@pytest.mark.parametrize("tensor", ["block1.bias", "block2.weight", "head.weight"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_parameters_that_are_not_finite_are_noticed_and_do_not_spread(tensor: str, value: float) -> None:
    """relu must not turn what is not a number into a plain 0."""
    learner = learner_for(replace(preset("revalued"), critics=2), engine="native")
    learner.online[tensor][1].view(-1)[4] = value
    state = {name: tensor.clone() for name, tensor in learner.tensors().items()}
    with pytest.raises(NonFiniteError, match=r"update 1 .*diverged"):
        learner.update(batch_for(learner, seed=0))
    for name, found in learner.tensors().items():
        assert torch.equal(found[1].isfinite(), state[name][1].isfinite()), name


@NEEDS_NATIVE
@pytest.mark.parametrize("name", ["revalued", "bdq"])
def test_a_gradient_that_overflows_is_noticed_and_does_not_spread(name: str) -> None:
    learner = learner_for(FAMILY[name], engine="native")
    state = {name: tensor.clone() for name, tensor in learner.tensors().items()}
    state["online.head.weight"] *= 1e30
    learner.load_tensors(state, updates=0)
    with pytest.raises(NonFiniteError, match="the gradients of update 1 are not finite"):
        learner.update(batch_for(learner, seed=0))
    learner.check_finite()


@NEEDS_NATIVE
def test_what_would_be_read_outside_of_memory_is_refused() -> None:
    learner = learner_for(FAMILY["revalued"], engine="native")
    before = {name: tensor.clone() for name, tensor in learner.tensors().items()}
    good = batch_for(learner, seed=0)
    for wrong in (-1, 4):
        actions = good.actions.copy()
        actions[2, 1] = wrong
        with pytest.raises(IndexError, match="1 sub-actions of the batch are none of the 4 choices"):
            learner.update(good._replace(actions=actions))
    with pytest.raises(ValueError, match="expected 16 transitions, not 15"):
        learner.update(Batch(*(getattr(good, name)[:15] for name in Batch._fields if name != "next_masks")))
    with pytest.raises(TypeError, match="expected contiguous float32, not float64"):
        learner.update(good._replace(returns=good.returns.astype(np.float64)))
    with pytest.raises(TypeError, match="expected contiguous int64"):
        learner.update(good._replace(actions=np.asfortranarray(good.actions)))
    assert all(torch.equal(before[key], tensor) for key, tensor in learner.tensors().items())
    assert learner.updates == 0


@NEEDS_NATIVE
@pytest.mark.parametrize("name", ["target", "online"])
def test_an_update_sees_what_others_have_written(name: str) -> None:
    native, plain = pair(replace(preset("revalued"), critics=2))
    for learner in (native, plain):
        learner.update(batch_for(learner, 0))
        getattr(learner, name)["norm.scale"].mul_(3)
    assert_same_learning(native, plain, [batch_for(native, 1)])


def test_the_engine_of_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = torch.device("cuda")
    monkeypatch.setattr(choice, "why_missing", lambda: None)
    assert resolve_engine("auto", CPU) == "native"
    assert resolve_engine("native", CPU) == "native"
    assert resolve_engine("torch", CPU) == "torch"
    assert resolve_engine("auto", CPU, compiled=True) == "torch"
    assert resolve_engine("auto", cuda) == "torch"
    with pytest.raises(UserError, match="--compile is for PyTorch's operations"):
        resolve_engine("native", CPU, compiled=True)
    with pytest.raises(UserError, match="runs on the CPU, not on cuda"):
        resolve_engine("native", cuda)
    monkeypatch.setattr(choice, "why_missing", lambda: "there is no compiler")
    assert resolve_engine("auto", CPU) == "torch"
    with pytest.raises(UserError, match=r"cannot be used here \(there is no compiler\): use --engine torch"):
        resolve_engine("native", CPU)


def test_a_learner_without_the_library_uses_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "why_missing", lambda: "there is no compiler")
    assert isinstance(learner_for(FAMILY["revalued"])._engine, TorchEngine)


@NEEDS_NATIVE
def test_a_learner_with_the_library_uses_it() -> None:
    assert isinstance(learner_for(FAMILY["revalued"])._engine, NativeEngine)


@NEEDS_NATIVE
def test_a_library_of_other_sources_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_digest", lambda: "another")
    found = library._load.__wrapped__()
    assert isinstance(found, str)
    assert "other sources" in found


@NEEDS_NATIVE
@pytest.mark.parametrize("structure", layout.STRUCTURES)
def test_a_library_with_a_structure_of_another_size_is_not_used(
    structure: type[ctypes.Structure], monkeypatch: pytest.MonkeyPatch
) -> None:
    longer = type(structure.__name__, (structure,), {"_fields_": [("one_more", ctypes.c_void_p)]})
    monkeypatch.setattr(library, "STRUCTURES", [longer])
    name, size = structure.__name__.removesuffix("C"), ctypes.sizeof(structure)
    found = library._load.__wrapped__()
    assert isinstance(found, str)
    assert f"it does not fit this Python code: {name} has {size} bytes in C and {size + 8} here" in found


def test_every_structure_of_the_header_is_checked() -> None:
    header = Path(library.__file__).with_name("kernels.h").read_text()
    shared = set(re.findall(r"^} (\w+);", header, re.MULTILINE)) - {"Place", "Job"}  # which Python never sees
    assert {structure.__name__.removesuffix("C") for structure in layout.STRUCTURES} == shared


def test_a_structure_refuses_names_that_it_has_not() -> None:
    assert layout.StepC(clip=2.0).clip == 2.0
    with pytest.raises(TypeError, match="StepC has no clipp"):
        layout.StepC(clipp=2.0)


def test_a_library_that_was_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_MODULE", "revalued.native._missing")
    found = library._load.__wrapped__()
    assert isinstance(found, str)
    assert "C compiler" in found


@NEEDS_NATIVE
def test_layers_are_merged_where_there_are_few_observations() -> None:
    few, many = (
        learner_for(FAMILY["revalued"], observation_size=size, engine="native")
        for size in (FEW_OBSERVATIONS, MANY_OBSERVATIONS)
    )
    merged = [learner._engine._merged for learner in (few, many)]  # type: ignore[attr-defined]
    assert [layers is not None for layers in merged] == [True, False]
    assert merging_pays(few.shape, few.config.batch_size, backward=True)
    assert not merging_pays(many.shape, many.config.batch_size, backward=True)
