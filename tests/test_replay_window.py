"""The n-step window by itself: what one push completes."""

from __future__ import annotations

import numpy as np
import pytest

from revalued.replay.n_step import CompleteSteps, NStepWindow


def push(
    window: NStepWindow, rewards: list[float], ended: str = "", lanes: tuple[int, ...] = (0,)
) -> list[tuple[int, int, float, float]]:
    """Push one step and return the (column, age, R, Γ) complete by it, oldest last."""
    terminated, truncated = (np.full(len(lanes), ended == end) for end in ("terminated", "truncated"))
    complete: CompleteSteps = window.push(np.array(lanes), np.array(rewards), terminated, terminated | truncated)
    columns = np.arange(len(lanes))[complete.columns]
    rest = (complete.ages, complete.returns, complete.discounts)
    return sorted(zip(columns.tolist(), *(np.full(len(columns), part).tolist() for part in rest), strict=True))


def test_steps_complete_one_by_one_and_at_the_end_all_at_once() -> None:
    window = NStepWindow(n_step=3, discount=0.5, num_lanes=1)
    assert push(window, [8.0]) == []
    assert push(window, [4.0]) == []
    assert push(window, [4.0]) == [(0, 2, 8.0 + 2.0 + 1.0, 0.125)]
    assert push(window, [2.0], "truncated") == [(0, 0, 2.0, 0.5), (0, 1, 5.0, 0.25), (0, 2, 6.5, 0.125)]
    assert push(window, [16.0], "terminated") == [(0, 0, 16.0, 0.0)]


def test_lanes_not_pushed_wait_unchanged() -> None:
    window = NStepWindow(n_step=2, discount=0.5, num_lanes=3)
    assert push(window, [1.0, 2.0, 3.0], lanes=(0, 1, 2)) == []
    assert push(window, [30.0, 10.0], lanes=(2, 0)) == [(0, 1, 18.0, 0.25), (1, 1, 6.0, 0.25)]
    assert push(window, [20.0], lanes=(1,)) == [(0, 1, 12.0, 0.25)]


def test_cleared_steps_never_complete() -> None:
    window = NStepWindow(n_step=2, discount=0.5, num_lanes=1)
    push(window, [1.0])
    window.clear(np.array([0]))
    assert push(window, [2.0]) == []
    assert push(window, [4.0]) == [(0, 1, 4.0, 0.25)]


def test_returns_are_summed_in_double_precision() -> None:
    window = NStepWindow(n_step=5, discount=0.99, num_lanes=1)
    for reward in (1e8, 1.0, 1.0, 1.0):
        push(window, [reward])
    ((_, _, n_step_return, discount),) = push(window, [-1e8 / 0.99**4])
    # In float32 the three ones would vanish beside 1e8.
    assert n_step_return == pytest.approx(0.99 + 0.99**2 + 0.99**3, abs=1e-6)
    assert discount == pytest.approx(0.99**5, rel=1e-12)
