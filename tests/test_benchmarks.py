"""The benchmarks' own arithmetic; nothing here measures time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks import plot
from benchmarks.floor import ARRANGEMENTS, prepare
from benchmarks.measures import fit_line, paired_ratio, summarise
from benchmarks.products import multiply_adds, operand_shape, passes
from benchmarks.quiet import NotQuietError, QuietRounds, busy_between
from benchmarks.report import Figure, Report, load, save
from benchmarks.sizes import TASKS, Size, make_learner, random_batch, task_size
from torch.utils._python_dispatch import TorchDispatchMode

from learner_twin import NEEDS_NATIVE
from revalued.native import library

SMALL = Size(observation_size=5, num_dimensions=3, bins=3, critics=2, batch_size=32, hidden_size=48)
WIDE = Size(observation_size=40, num_dimensions=3, bins=3, critics=2, batch_size=32, hidden_size=48)


@pytest.fixture(autouse=True)
def _one_thread_afterwards() -> Any:
    gradients = torch.is_grad_enabled()
    yield
    torch.set_num_threads(1)
    torch.set_grad_enabled(gradients)


def formula(size: Size, *, merge_online: bool, merge_target: bool) -> int:
    """Multiplications of one update by the algebra on paper."""
    inputs, rows, hidden = size.observation_size + 1, size.batch_size, size.hidden_size
    small, square, fold = rows * inputs * hidden, rows * hidden * hidden, inputs * hidden * hidden
    head = rows * hidden * size.num_dimensions * size.bins

    def forward(merge: bool) -> int:
        return small + (small if merge else square) + square + head

    target_passes = 2 if size.beta > 0 else 1
    target = (fold if merge_target else 0) + target_passes * forward(merge_target)
    online = (fold if merge_online else 0) + forward(merge_online)
    block1 = small + 2 * fold if merge_online else 2 * square
    backward = 2 * head + 2 * square + block1 + small
    return size.critics * (target + online + backward)


@pytest.mark.parametrize("critics", [1, 10])
@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize(
    ("task", "merge_online", "merge_target"),
    [("walker", True, True), ("quadruped", True, True), ("humanoid", True, True)],
)
def test_the_floor_has_the_multiplications_of_the_algebra(
    task: str, merge_online: bool, merge_target: bool, beta: float, critics: int
) -> None:
    size = task_size(task, critics=critics, beta=beta)
    assert multiply_adds(size) == formula(size, merge_online=merge_online, merge_target=merge_target)


@pytest.mark.parametrize(("beta", "merge_target"), [(0.0, False), (0.5, True)])
def test_the_floor_at_dog_sizes_merges_only_what_saves_arithmetic(beta: float, merge_target: bool) -> None:
    size = task_size("dog", beta=beta)
    assert multiply_adds(size) == formula(size, merge_online=False, merge_target=merge_target)


class _CountProducts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the multiplications of all matrix products that are more than a vector times a matrix."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        if name in ("mm", "bmm", "addmm", "baddbmm", "addmm_", "baddbmm_"):
            left, right = args[-2:] if len(args) >= 2 else args
            *stack, rows, inner = left.shape
            if rows > 1 and inner > 1:
                self.total += int(np.prod(stack, dtype=int)) * rows * inner * right.shape[-1]
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize("size", [SMALL, WIDE], ids=["merged", "separate"])
def test_the_plain_update_does_the_products_of_its_layers_and_no_others(size: Size, beta: float) -> None:
    """Those of the floor where it merges no layers."""
    size = Size(**{**size.to_dict(), "beta": beta})
    learner = make_learner(size, "torch")
    torch.set_num_threads(1)
    batch = random_batch(size, np.random.default_rng(0))
    with _CountProducts() as counted:
        learner.update(batch)
    assert counted.total == formula(size, merge_online=False, merge_target=False)
    assert (counted.total == multiply_adds(size)) == (size.observation_size == WIDE.observation_size)


@NEEDS_NATIVE
@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize("size", [SMALL, WIDE], ids=["merged", "separate"])
def test_the_native_engine_does_the_same_products(size: Size, beta: float) -> None:
    """But for the head, which it widens to whole cache lines."""
    size = Size(**{**size.to_dict(), "beta": beta})
    torch.set_num_threads(1)
    learner = make_learner(size, "native")
    update = learner._engine._update  # type: ignore[attr-defined]
    learner.update(random_batch(size, np.random.default_rng(0)))  # the first one folds, for nobody did before it
    update.threads = 1  # a thread counts its own
    before = library.load().revalued_multiply_adds()
    learner.update(random_batch(size, np.random.default_rng(0)))
    total = library.load().revalued_multiply_adds() - before
    num_passes = 5 if beta > 0 else 4
    widened = num_passes * size.critics * size.batch_size * size.hidden_size * (update.width - update.outputs)
    assert total == multiply_adds(size) + widened


@pytest.mark.parametrize("critics", [1, 2])
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("size", [SMALL, WIDE], ids=["merged", "separate"])
def test_every_arrangement_of_the_floor_runs_and_can_be_repeated(size: Size, arrangement: str, critics: int) -> None:
    work: Callable[[], None] = prepare(arrangement, Size(**{**size.to_dict(), "critics": critics}))
    work()
    work()


def test_operands_fit_together() -> None:
    for task in TASKS:
        size = task_size(task)
        for product in (product for listed in passes(size) for product in listed):
            assert all(side > 0 for side in operand_shape(product.out, size))


def test_median_and_quartiles() -> None:
    sample = summarise([4.0, 1.0, 3.0, 2.0, 5.0])
    assert (sample.median, sample.lower_quartile, sample.upper_quartile) == (3.0, 2.0, 4.0)
    with pytest.raises(ValueError, match="nothing"):
        summarise([])


def test_ratios_are_taken_within_rounds() -> None:
    # the machine is ten times slower in the second round: the ratio does not notice
    assert paired_ratio([[2.0], [20.0], [2.0]], [[1.0], [10.0], [1.0]]).median == 2.0
    with pytest.raises(ValueError):
        paired_ratio([[1.0]], [[1.0], [2.0]])


def test_a_straight_line_is_found_and_a_bend_shows() -> None:
    line = fit_line([1, 2, 5], [5.0, 7.0, 13.0])
    assert line.intercept == pytest.approx(3)
    assert line.slope == pytest.approx(2)
    assert line.largest_deviation == pytest.approx(0, abs=1e-9)
    assert fit_line([1, 2, 3, 4], [1.0, 4.0, 9.0, 16.0]).largest_deviation > 0.2


@pytest.mark.parametrize(
    ("figure", "met"),
    [
        (Figure("a", 5.0, "ms"), None),
        (Figure("a", 5.0, "ms", 4.0, 1.25, 1.25), True),
        (Figure("a", 5.0, "ms", 4.0, 1.26, 1.25), False),
        (Figure("a", 0.5, "s", target=0.6), True),
        (Figure("a", 90.0, "/s", 45.0, 2.0, 2.2, at_most=False), False),
    ],
)
def test_targets(figure: Figure, met: bool | None) -> None:
    assert figure.met is met


def test_results_are_saved_and_drawn(tmp_path: Path) -> None:
    report = Report("scaling", "title", ["series"])
    points = [("K", "walker", 1), ("K", "walker", 2), ("bins", "dog", 3), ("N", "walker", 4), ("H", "dog", 160)]
    for series, task, value in points:
        times = {"update ms": 2.0 * value, "update quartiles ms": [1.9 * value, 2.1 * value], "floor ms": 1.0 * value}
        report.rows.append({"series": series, "task": task, "value": value, **times})
    report.figures.append(Figure("a", 5.0, "ms", 4.0, 1.25, 1.3))
    save(report, tmp_path, quick=True)
    saved = load("scaling", tmp_path)
    assert saved["quick"] is True
    assert saved["figures"][0]["met"] is True
    assert {"machine", "versions", "threads", "date", "source"} <= saved.keys()
    assert json.loads((tmp_path / "scaling.json").read_text()) == saved
    labels = {name: [axes.get_ylabel() for axes in figure.axes] for name, figure in plot.draw(saved).items()}
    label = "time per update (ms)"
    assert labels == {
        "update-over-critics": [label],
        "update-over-actions": [label, label],
        "update-over-width": [label],
    }
    for image in plot.plot(tmp_path, tmp_path / "img"):
        assert image.read_bytes().startswith(b"\x89PNG")


def test_updates_beside_others_are_drawn(tmp_path: Path) -> None:
    report = Report("load", "title", ["beside"])
    for hidden in (160, 512):
        for beside in ("nothing", "one busy program"):
            times = {"1 thread ms": 2.0, "all threads ms": 1.0}
            report.rows.append({"what": "update", "K": 10, "H": hidden, "beside": beside, **times})
    save(report, tmp_path, quick=True)
    (figure,) = plot.draw_load(load("load", tmp_path)).values()
    assert [axes.get_title() for axes in figure.axes] == [f"update, K = 10, hidden {h}" for h in (160, 512)]
    assert [len(axes.patches) for axes in figure.axes] == [4, 4]


def account(*processors: tuple[int, int]) -> str:
    """Return what Linux writes of processors that were busy and idle for so long."""
    totals = [sum(column) for column in zip(*processors, strict=True)]
    lines = [("cpu", *totals), *((f"cpu{i}", *times) for i, times in enumerate(processors))]
    return "\n".join(f"{name} {busy} 0 0 {idle} 0 0 0 0 0 0" for name, busy, idle in lines) + "\nintr 5\n"


def test_busy_processors_are_counted_from_two_accounts() -> None:
    before, after = account((100, 300), (50, 350)), account((110, 390), (150, 350))
    assert busy_between(before, before) == 2  # no time has passed, nothing was seen to be idle
    assert busy_between(before, after) == pytest.approx(1.1)


def test_rounds_of_a_busy_machine_are_thrown_away() -> None:
    # before and after each round: quiet, then busy after the second, then busy before the third
    watched = iter([0.0, 0.05, 0.0, 0.9, 1.2, 0.0, 0.0, 0.0])
    rounds = QuietRounds(lambda: next(watched, 0.0))
    numbers: list[int] = []

    def measure(number: int) -> int:
        numbers.append(number)
        return len(numbers)

    assert rounds.repeat(2, measure, check=True) == [1, 4]
    assert numbers == [0, 1, 1, 1]
    assert rounds.thrown_away == 2
    assert rounds.repeat(3, measure, check=False) == [5, 6, 7]
    assert rounds.thrown_away == 2


def test_a_machine_that_stays_busy_is_not_measured() -> None:
    with pytest.raises(NotQuietError, match="10 rounds thrown away"):
        QuietRounds(lambda: 1.0).repeat(2, lambda number: None, check=True)
