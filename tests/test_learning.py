"""The algorithms learn: on a game whose optimum is known, in seconds."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from revalued.algorithms.presets import PRESETS
from revalued.config import TrainConfig
from revalued.envs import LeverGame
from revalued.run.start import evaluate, start
from run_helpers import quick_config, rows

OPTIMAL_RETURN = LeverGame().optimal_return


def lever_game(algo: str, env_steps: int) -> TrainConfig:
    """Return a run with a small network and a schedule made for so short a run."""
    return quick_config(
        "toy-levers",
        algo,
        **({"critics": 3} if PRESETS[algo].algorithm.critics > 1 else {}),
        hidden_size=64,
        batch_size=64,
        env_steps=env_steps,
        warmup_env_steps=500,
        eval_every=200,
        log_every=500,
        learning_rate=1e-3,
        target_update_rate=0.02,
        epsilon_decay=0.999,
    )


def test_revalued_finds_the_optimum(tmp_path: Path) -> None:
    path, outcome = start(lever_game("revalued", 5_000), tmp_path / "run")
    assert outcome.summary["final_return"] == pytest.approx(OPTIMAL_RETURN, abs=1e-9)
    # and not by chance: episodes it has never seen, all perfect
    episodes = list(evaluate(path, episodes=5, seed=7))
    assert [episode.total_reward for episode in episodes] == pytest.approx([OPTIMAL_RETURN] * 5, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("algo", PRESETS)
def test_every_preset_learns(algo: str, tmp_path: Path) -> None:
    # The support of C51 is made for the control suite: a tenth of its atoms have to tell these returns apart.
    # Seeds 0 to 4 come to 7.7 to 8.7 within 8,000 interactions, to 8.3 to 9.7 within 14,000.
    target, env_steps = (0.8 * OPTIMAL_RETURN, 14_000) if algo == "decqn-c51" else (OPTIMAL_RETURN, 8_000)
    path, _ = start(lever_game(algo, env_steps), tmp_path / "run")
    # learning goes on to the last update, so that a single test episode may find a lever mistaken for the moment
    last = [float(row["return"]) for row in rows(path, "eval.csv")][-5:]
    assert median(last) >= target - 1e-9, last


def test_without_learning_the_game_is_lost(tmp_path: Path) -> None:
    """The game cannot be won by chance: an untrained policy is far from the optimum."""
    _, outcome = start(quick_config("toy-levers", env_steps=50, eval_episodes=20), tmp_path / "run")
    assert outcome.summary["updates"] == 0
    assert outcome.summary["final_return"] < 0.6 * OPTIMAL_RETURN
