"""ε that decays with exploratory actions instead of interactions: what is counted, and where the count is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from revalued import DecQN, load
from revalued.acting.exploration import Explored, epsilon_at, explore
from revalued.config import Exploration, ExplorationConfig
from revalued.errors import UserError
from revalued.run.start import resume, start
from revalued.training import loop
from revalued.validation import validate
from run_helpers import (
    assert_same_run,
    checkpoints_in,
    evolve,
    newest,
    quick_config,
    rows,
    sign,
    stop_after,
    train,
)
from test_acting import observations, policy_with

CONFIG = quick_config(epsilon_schedule="exploratory-actions", epsilon_decay=0.98, epsilon_min=0.1)


def test_epsilon_of_exploratory_actions() -> None:
    config = ExplorationConfig(epsilon_min=0.05, epsilon_decay=0.999, epsilon_schedule="exploratory-actions")
    assert epsilon_at(config, 10**6, 0) == 1.0
    # 1,000 · ln 0.999 = −1.0005003, e^−1.0005003 = 0.3676954
    assert epsilon_at(config, 0, 1_000) == pytest.approx(0.3676954, abs=1e-7)
    # ln 0.05 / ln 0.999 = 2,994.23
    assert epsilon_at(config, 0, 2_994) == pytest.approx(0.0500117, abs=1e-7)
    assert epsilon_at(config, 0, 2_995) == 0.05
    assert epsilon_at(ExplorationConfig(), 10, 10**6) == 0.99995**10


@pytest.mark.parametrize("exploration", ["joint", "per-dimension"])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_an_action_is_exploratory_if_any_of_it_is_random(exploration: Exploration, epsilon: float) -> None:
    """Zero is greedy everywhere; random choices among a thousand are zero in one of a thousand cases."""
    policy = policy_with(torch.eye(1000)[:1].repeat(2, 1)[None], (1000, 1000))
    rng = np.random.default_rng(0)
    for _ in range(5):
        actions, counted = explore(policy, observations(200), ExplorationConfig(exploration), epsilon, rng)
        is_random = (actions != 0).any(axis=1).sum()
        assert is_random <= counted <= is_random + 2
        expected = epsilon if exploration == "joint" else 1 - (1 - epsilon) ** 2
        assert counted / 200 == pytest.approx(expected, abs=4 * 0.0354)  # the deviation is at most √(0.25 / 200)


def test_a_run_counts_what_it_explored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, int]] = []
    original = explore

    def recorded(*arguments: Any) -> Explored:
        found = original(*arguments)
        seen.append((arguments[3], found.num_exploratory))
        return found

    monkeypatch.setattr(loop, "explore", recorded)
    path = train(CONFIG, tmp_path / "run")
    total = 0
    for epsilon, count in seen:
        assert epsilon == max(0.1, 0.98**total)
        total += count
    meta = newest(path).meta
    assert (meta["exploratory_actions"], meta["epsilon"]) == (total, max(0.1, 0.98**total))
    assert len(seen) == 70
    assert 70 < total < 250  # it takes 114 to come to the minimum
    logged = [float(row["epsilon"]) for row in rows(path, "metrics.csv")]
    assert logged[0] == 0.98 ** sum(count for _, count in seen[:35])  # 20 cycles of warm-up, 15 updates


@pytest.mark.parametrize("cycles", [1, 17, 40, 60])
def test_resumed_equals_uninterrupted(cycles: int, tmp_path: Path) -> None:
    expected = train(CONFIG, tmp_path / "expected")
    assert not start(CONFIG, tmp_path / "run", should_stop=stop_after(cycles))[1].finished
    assert resume(tmp_path / "run", workers=2).finished
    assert_same_run(expected, tmp_path / "run")


@pytest.mark.parametrize("count", [None, -1, 10**6])
def test_a_checkpoint_that_does_not_say_is_refused(count: int | None, tmp_path: Path) -> None:
    start(CONFIG, tmp_path / "run", should_stop=stop_after(30))
    (checkpoint,) = checkpoints_in(tmp_path / "run")
    meta = json.loads((checkpoint / "meta.json").read_text())
    del meta["exploratory_actions"]
    (checkpoint / "meta.json").write_text(json.dumps(meta | ({} if count is None else {"exploratory_actions": count})))
    sign(checkpoint, "meta.json")
    with pytest.raises(UserError, match="how many actions were exploratory"):
        resume(tmp_path / "run")


def test_predictions_explore_with_the_present_epsilon(tmp_path: Path) -> None:
    heard: list[float] = []
    settings: dict[str, Any] = {"hidden_size": 8, "warmup_env_steps": 50, "batch_size": 8, "critics": 1}
    schedule: Any = "exploratory-actions"
    agent = DecQN("toy-levers", epsilon_decay=0.9, epsilon_min=0.0, epsilon_schedule=schedule, **settings)
    assert agent._acting().epsilon == 1.0
    agent.learn(300, callback=lambda event: heard.append(event.epsilon))
    epsilon = agent._acting().epsilon
    assert 0 < epsilon < 0.3
    assert heard[0] > heard[-1] == epsilon
    for number, replay in enumerate((True, False)):
        agent.save(tmp_path / str(number), replay=replay)
        assert load(tmp_path / str(number))._acting().epsilon == epsilon


def test_actors_are_refused() -> None:
    with pytest.raises(UserError, match="exploratory-actions is not possible with actors"):
        validate(evolve(CONFIG, actors=2))
