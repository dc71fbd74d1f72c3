"""`revalued check`: what is found in environments whose facts are known, and what we would start with."""

from __future__ import annotations

import json
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from revalued.cli import main
from revalued.cli.check import _lines, suggested_flags
from revalued.compare.contestants import CONTESTANTS, DEFAULT
from revalued.envs import LaneError, TaskSpec, find_task
from revalued.envs.examine import Findings, examine


class Known(gymnasium.Env[Any, Any]):
    """Observations 0 and ±100 in turn, rewards −1 and 2 in turn, 6 steps; may forget its seed or fail."""

    def __init__(self, fault: str = "") -> None:
        self.observation_space = spaces.Box(-1000, 1000, (2,), np.float32)
        self.action_space = spaces.MultiDiscrete([2, 3, 4])
        self._fault, self._draws = fault, np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._step = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._step += 1
        if self._fault == "raise" and self._step == 3:
            raise RuntimeError("out of order")
        reward = float("nan") if self._fault == "nan" and self._step == 2 else (-1.0, 2.0)[self._step % 2]
        return self._observe(), reward, self._step == 6 and self._fault != "endless", False, {}

    def _observe(self) -> Any:
        extra = self._draws.uniform() if self._fault == "forgetful" else 0.0
        return np.array([extra, 100 * (-1) ** self._step], np.float32)


def found_in(fault: str = "", **limits: Any) -> Findings:
    limits = {"episodes": 4, "seconds": 20.0, "seed": 0, **limits}
    return examine(find_task(TaskSpec("custom:known"), lambda: Known(fault)), **limits)


def test_the_facts_are_found() -> None:
    found = found_in()
    assert (found.sizes, found.combinations, found.observation_size) == ((2, 3, 4), 24, 2)
    assert (found.lengths, found.returns, found.terminated) == ([6] * 4, [3.0] * 4, 4)
    assert (found.rewards, found.steps, found.legal_share) == ((-1.0, 2.0), 24, None)
    assert (found.mean_reward_size, found.value_size, found.reward_range) == (1.5, 9.0, None)
    assert (found.lowest.tolist(), found.highest.tolist()) == ([0, -100], [0, 100])
    assert found.deviations[0] == 0
    assert found.deviations[1] == pytest.approx(99, abs=1.5)
    assert found.repeats
    assert found.steps_per_second > 0


def test_one_that_forgets_its_seed_is_told() -> None:
    assert not found_in("forgetful").repeats


def test_an_episode_that_never_ends_does_not_hold_it_up() -> None:
    found = found_in("endless", seconds=0.2)
    assert found.lengths == []
    assert found.steps > 5


@pytest.mark.parametrize(
    ("fault", "message"),
    [("raise", "episode 0, step 3: RuntimeError: out of order"), ("nan", "step 2: the reward is nan")],
)
def test_faults_say_where(fault: str, message: str) -> None:
    with pytest.raises(LaneError, match=message):
        found_in(fault)


def test_masks_are_respected_and_counted() -> None:
    found = examine(find_task(TaskSpec("toy-masked")), episodes=3, seconds=20.0, seed=1)
    assert found.legal_share is not None
    assert 0.3 < found.legal_share < 0.95


def test_what_we_would_start_with() -> None:
    plain = found_in()
    assert suggested_flags(plain)[:2] == ["--algo", "lean"]
    slow = Findings(**{**vars(plain), "seconds": 0.1})
    assert suggested_flags(slow)[-2:] == ["--workers", "2"]
    single = Findings(**{**vars(plain), "sizes": (7,)})
    assert suggested_flags(single)[:2] == ["--algo", "dqn"]
    assert "--normalise-observations" not in suggested_flags(single)
    uneven = Findings(**{**vars(single), "deviations": np.array([0.1, 900.0])})
    assert "--normalise-observations" in suggested_flags(uneven)


def test_rewards_of_the_wrong_size_are_scaled() -> None:
    seen = {**vars(found_in()), "lengths": [50, 50], "mean_reward_size": 0.001, "reward_range": None}
    small = Findings(**seen)  # values of about 0.05, which 100 brings to 5
    assert small.value_size == pytest.approx(0.05)
    assert suggested_flags(small)[2:4] == ["--reward-scale", "100"]
    assert "small for our settings" in dict(_lines(small))["reward of a step"]
    never_ending = Findings(**{**seen, "lengths": []})
    assert suggested_flags(never_ending)[2:4] == ["--reward-scale", "10"]
    large = Findings(**{**seen, "mean_reward_size": 50.0})  # values of about 2,500, which 0.001 brings to 2.5
    assert suggested_flags(large)[2:4] == ["--reward-scale", "0.001"]
    assert "large for our settings" in dict(_lines(large))["reward of a step"]
    fit = (
        {"mean_reward_size": 0.1},
        {"mean_reward_size": 2.0},
        {"mean_reward_size": 0.0},
        {"reward_range": (0.0, 1.0)},
    )
    for other in fit:
        as_it_is = Findings(**{**seen, **other})
        assert "--reward-scale" not in suggested_flags(as_it_is)
        assert "to learn from" not in dict(_lines(as_it_is))["reward of a step"]


class Dial(gymnasium.Env[Any, Any]):
    """Pays for the choice of this step, or of the one before; `rarely` only once in an episode, `constant` always 1."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.MultiDiscrete([5, 5])

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._step, self._before = 0, 0.0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        now, self._step = float(action.sum()), self._step + 1
        rewards = {
            "now": now, "later": self._before, "half": now + self._before, "constant": 1.0,
            "rarely": now if self._step == 1 else 0.0,
        }  # fmt: skip
        self._before = now
        return np.zeros(1, np.float32), rewards[self._kind], False, self._step == 40, {}


def paid_at_once(kind: str) -> float | None:
    return examine(
        find_task(TaskSpec("custom:dial"), lambda: Dial(kind)), episodes=3, seconds=20.0, seed=0
    ).paid_at_once


def test_how_much_of_the_reward_is_paid_at_once() -> None:
    assert paid_at_once("now") == pytest.approx(1.0, abs=0.2)
    assert paid_at_once("later") == 0.0
    assert paid_at_once("half") == pytest.approx(0.5, abs=0.3)
    assert paid_at_once("rarely") is None
    assert paid_at_once("constant") is None
    assert found_in().paid_at_once == 0.0
    assert found_in("forgetful").paid_at_once is None  # the same moment does not come back
    assert found_in(episodes=1, seconds=1e-6).paid_at_once is None  # no time


@pytest.mark.parametrize(("fault", "message"), [("raise", "RuntimeError: worn out"), ("nan", "the reward is nan")])
def test_a_fault_with_another_choice_says_where(fault: str, message: str) -> None:
    class Wearing(Dial):
        """Works for an episode and its two repetitions."""

        resets = 0

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
            self.resets += 1
            return super().reset(seed=seed)

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            if self.resets > 3 and fault == "raise":
                raise RuntimeError("worn out")
            observation, reward, *rest = super().step(action)
            return observation, float("nan") if self.resets > 3 else reward, *rest

    with pytest.raises(LaneError, match=f"random episode 0, step 1, with another choice: {message}"):
        examine(find_task(TaskSpec("custom:wearing"), lambda: Wearing("now")), episodes=1, seconds=20.0, seed=0)


def test_where_choices_pay_at_once_we_would_look_one_step_ahead() -> None:
    seen = vars(found_in())
    for share, begins in ((0.0, False), (0.2, False), (0.3, True), (1.0, True), (None, False)):
        found = Findings(**{**seen, "paid_at_once": share})
        assert ("--n-step" in suggested_flags(found)) == begins
        assert ("look one step ahead" in dict(_lines(found))["paid at once"]) == begins
    suggested = suggested_flags(Findings(**{**seen, "paid_at_once": 0.6}))[:6]
    assert suggested == ["--algo", "lean", "--n-step", "1", "--discount", "0.9"]
    given = {
        flag.removeprefix("--").replace("-", "_"): text
        for flag, text in zip(suggested[::2], suggested[1::2], strict=True)
    }
    compared = CONTESTANTS["lean-at-once"].settings[DEFAULT]
    assert given == {name: str(value) for name, value in compared.items()}, "comparisons show what is suggested"


def test_a_first_run_in_a_slow_environment_ends_in_time_and_explores_for_part_of_it() -> None:
    slow = Findings(**{**vars(found_in()), "steps": 116, "seconds": 10.0})  # 41,760 with two processes in half an hour
    flags = suggested_flags(slow)
    assert flags[2:6] == ["--workers", "2", "--env-steps", "40000"]
    given = dict(zip(flags[::2], flags[1::2], strict=True))
    assert float(given["--epsilon-decay"]) ** (0.4 * 40_000) == pytest.approx(0.05, rel=0.02)
    assert given["--warmup-env-steps"] == "2000"
    crawling = Findings(**{**vars(slow), "steps": 1})
    assert suggested_flags(crawling)[4:6] == ["--env-steps", "1000"]


def test_a_time_limit_told_as_termination_is_suspected() -> None:
    assert found_in().has_suspicious_ends  # four episodes that terminate after 6 steps
    assert not found_in(episodes=2).has_suspicious_ends
    plain = vars(found_in())
    assert not Findings(**{**plain, "terminated": 0}).has_suspicious_ends
    assert not Findings(**{**plain, "lengths": [6, 6, 5, 6]}).has_suspicious_ends
    assert not Findings(**{**plain, "lengths": [1] * 4}).has_suspicious_ends
    assert "a time limit of 6? that should be truncation" in dict(_lines(found_in()))["episodes"]


def test_an_episode_that_did_not_end_may_do_so_later() -> None:
    endless = found_in("endless", seconds=0.2)
    assert "it may never end" in dict(_lines(endless))["episodes"]
    limited = Findings(**{**vars(endless), "max_episode_steps": 100_000})
    assert "never" not in dict(_lines(limited))["episodes"]


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "toy-levers", "--episodes", "2"]) == 0
    text = capsys.readouterr().out
    assert "3 dimensions, of sizes 2, 3, 5: 30 combinations" in text
    assert "start with: revalued train toy-levers --algo" in text
    assert main(["check", "toy-levers", "--episodes", "2", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["sizes"], facts["lengths"], facts["repeats"]) == ([2, 3, 5], [10, 10], True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["toy-lever"], "unknown task 'toy-lever': did you mean toy-levers"),
        (["toy-levers", "--episodes", "0"], "episodes = 0 is not possible"),
        (["toy-levers", "--seconds", "-1"], "seconds = -1.0 is not possible"),
        (["toy-levers", "--seed", "-1"], "seed = -1 is not possible"),
    ],
)
def test_mistakes(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *arguments]) == 2
    assert message in capsys.readouterr().err
