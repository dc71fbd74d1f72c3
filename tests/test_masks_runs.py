"""Action masks in lanes and in whole runs, with an environment that forgives nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from revalued.actions import FactorisedActions
from revalued.algorithms.presets import PRESETS
from revalued.config import Exploration
from revalued.envs import LaneError, Lanes, MaskedLevers, Task, TaskSpec, find_task, lanes_from
from revalued.envs.kinds import task_info
from revalued.run.start import evaluate, resume, start
from revalued.seeding import evaluate_seeds
from run_helpers import assert_same_run, evolve, newest, quick_config, rows, stop_after
from test_masks import SIZES

INFO = task_info(TaskSpec("toy-masked"))


STRICT = partial(MaskedLevers, strict=True)


def legal_actions(masks: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    space = FactorisedActions(SIZES)
    return space.uniform(rng.random((len(masks), 3)), space.legal(masks))


def act(lanes: Lanes, rng: np.random.Generator) -> None:
    assert lanes.masks is not None
    lanes.step_async(legal_actions(lanes.masks, rng))
    lanes.step_wait()


@pytest.mark.parametrize("workers", [0, 2])
def test_lanes_hand_over_the_masks_of_the_observations(workers: int) -> None:
    """The toy shows its mask in its observation, so both can be compared."""
    rng = np.random.default_rng(0)
    with lanes_from(Task(INFO, STRICT), range(3), workers, 0) as lanes:
        observations = lanes.reset()
        masks = lanes.masks
        for _ in range(35):
            assert masks is not None
            assert masks.tolist() == (observations[:, :-1] == 1).tolist()
            lanes.step_async(legal_actions(masks, rng))
            step = lanes.step_wait()
            going_on = ~(step.terminated | step.truncated)
            assert step.next_masks is not None
            assert step.next_masks[going_on].tolist() == (step.next_observations[going_on, :-1] == 1).tolist()
            observations, masks = step.observations, step.masks


def test_lanes_refuse_an_illegal_action() -> None:
    with lanes_from(Task(INFO, STRICT), range(3), 0, 0) as lanes:
        lanes.reset()
        assert lanes.masks is not None
        actions = legal_actions(lanes.masks, np.random.default_rng(0))
        actions[1, 2] = int(np.argmin(lanes.masks[1, 5:]))
        with pytest.raises(ValueError, match="illegal under the action masks"):
            lanes.step_async(actions)


def test_lanes_without_masks_have_none() -> None:
    with lanes_from(find_task(TaskSpec("toy-levers")), range(2), 0, 0) as lanes:
        lanes.reset()
        assert lanes.masks is None
        lanes.step_async(np.zeros((2, 3), np.int64))
        step = lanes.step_wait()
        assert step.masks is None
        assert step.next_masks is None


class Fickle(MaskedLevers):
    """Offers a useless mask in the third step of an episode."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self._fault = fault

    def _info(self) -> dict[str, Any]:
        info = super()._info()
        if self._step == 3:
            return {"empty": {"action_mask": [1, 1, 0, 0, 0, *[1] * 5]}, "missing": {}}[self._fault]
        return info


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("empty", "the action mask leaves no legal choice in dimension 1"),
        ("missing", "there is no action_mask in info"),
    ],
)
def test_a_useless_mask_names_lane_and_step(fault: str, reason: str, workers: int) -> None:
    rng = np.random.default_rng(0)
    with lanes_from(Task(INFO, partial(Fickle, fault)), range(2), workers, 0) as lanes:
        lanes.reset()
        for _ in range(2):
            act(lanes, rng)
        with pytest.raises(LaneError, match=f"lane 0, episode 0, step 3: {reason}"):
            act(lanes, rng)


class Late(MaskedLevers):
    """Offers no mask at the first reset, and one later."""

    def _info(self) -> dict[str, Any]:
        return super()._info() if self._step > 0 else {}


def test_a_mask_that_comes_late_is_an_error_rather_than_ignored() -> None:
    with lanes_from(Task(replace(INFO, masked=False), Late), range(1), 0, 0) as lanes:
        lanes.reset()
        lanes.step_async(np.zeros((1, 3), np.int64))
        with pytest.raises(LaneError, match=r"step 1: there is an action_mask in info, but there was none"):
            lanes.step_wait()


def test_a_terminal_state_needs_no_mask() -> None:
    class Careless(MaskedLevers):
        def _info(self) -> dict[str, Any]:
            return super()._info() if self._step < 10 else {}

    rng = np.random.default_rng(0)
    with lanes_from(Task(INFO, Careless), range(1), 0, 0) as lanes:
        lanes.reset()
        for _ in range(25):
            act(lanes, rng)
        assert lanes.state().episodes.tolist() == [2]


@pytest.mark.parametrize("algo", PRESETS)
def test_every_algorithm_obeys_an_environment_that_forgives_nothing(algo: str, tmp_path: Path) -> None:
    """Collection, exploration, test episodes, and `evaluate` afterwards."""
    config = quick_config("custom:levers", algo, atoms=11)
    path, outcome = start(config, tmp_path / "run", env=STRICT)
    assert outcome.finished
    assert len(rows(path, "eval.csv")) == 3
    episodes = list(evaluate(path, 3, seed=1, env=STRICT))
    assert [episode.length for episode in episodes] == [10, 10, 10]
    packed = newest(path).arrays["replay.masks"]
    assert packed.shape[1] == 2  # ten booleans in two bytes
    assert packed.any()


@pytest.mark.parametrize("exploration", ["joint", "per-dimension"])
def test_a_masked_run_resumes_to_the_bit_with_other_workers(exploration: Exploration, tmp_path: Path) -> None:
    config = evolve(quick_config("custom:levers"), exploration=exploration, epsilon_decay=0.99)
    start(config, tmp_path / "whole", env=STRICT)
    start(config, tmp_path / "resumed", should_stop=stop_after(33), env=STRICT)
    resume(tmp_path / "resumed", workers=2, env=STRICT)
    assert_same_run(tmp_path / "whole", tmp_path / "resumed")


def test_the_masked_toy_is_learnt_to_its_optimum(tmp_path: Path) -> None:
    config = quick_config(
        "toy-masked", "decqn", hidden_size=64, env_steps=6000, warmup_env_steps=200, batch_size=64, learning_rate=1e-3,
        epsilon_decay=0.999, eval_every=10_000,
    )  # fmt: skip
    path, _ = start(config, tmp_path / "run")
    env, best = MaskedLevers(strict=True), []
    for seed in evaluate_seeds(0, 20):
        env.reset(seed=seed)
        best.append(env.best_return)
    returns = [episode.total_reward for episode in evaluate(path, 20, seed=0)]
    assert np.mean(returns) >= 0.95 * np.mean(best)
    assert all(total <= limit + 1e-9 for total, limit in zip(returns, best, strict=True))
