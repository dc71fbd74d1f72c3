"""`revalued compare`: the judge, the plan, what is kept on disk, and the refusals."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from benchmarks import problems as problem_pages
from gymnasium import spaces

from revalued.cli import main
from revalued.compare import execution
from revalued.compare.contestants import CONTESTANTS, DEFAULT, NUM_SETTINGS, OURS, unfit
from revalued.compare.execution import Ended, execute
from revalued.compare.learners import ours, sb3, uniform
from revalued.compare.meter import COLUMNS, Meter, RunOrder, play_episode
from revalued.compare.pictures import comparison_figure
from revalued.compare.plan import (
    TUNING_SEED,
    TUNING_SHARE,
    Budget,
    default_runs,
    score_at,
    tuned_runs,
    tuned_settings,
    tuning_runs,
)
from revalued.compare.result_table import ComparisonFolder, RunCurve, RunKey, folder_name
from revalued.compare.tables import markdown_table, overview_table, read_comparison
from revalued.envs import LeverGame
from revalued.errors import UserError
from revalued.report.drawing import panel_svg

SMALL = {"hidden_size": 16, "batch_size": 16, "warmup_env_steps": 50}


def order(tmp_path: Path, **changes: Any) -> RunOrder:
    given = RunOrder(
        "toy-levers", 3, "decqn", {"algo": "decqn", **SMALL}, 0, None, 200, "wall", 2, 0, 1, 0, False,
        str(tmp_path / "out.csv"),
    )  # fmt: skip
    return replace(given, **changes)


def rows(tmp_path: Path) -> list[dict[str, str]]:
    with (tmp_path / "out.csv").open(newline="") as file:
        return list(csv.DictReader(file))


# --- the judge


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("revalued.compare.meter.time.monotonic", found)
    monkeypatch.setattr("revalued.compare.meter.time.process_time", found)
    return found


def right_positions(observation: Any, mask: Any) -> Any:
    return LeverGame().right_positions[int(np.argmax(observation[:-1]))]


def test_the_clock_stands_still_while_the_judge_plays(tmp_path: Path, clock: Clock) -> None:
    def slow(observation: Any, mask: Any) -> Any:
        clock.now += 1_000.0
        return right_positions(observation, mask)

    judge = Meter(order(tmp_path, budget_seconds=12.0, env_steps=None, clock="cpu"))
    for steps in range(13):
        assert judge.goes_on(10 * steps, slow) == (steps < 12)
        assert judge.seconds == steps
        clock.now += 1.0
    found = rows(tmp_path)
    assert [float(row["seconds"]) for row in found] == list(range(13))
    assert {row["return"] for row in found} == {"10"}  # all levers right, ten steps


def test_the_judge_looks_after_a_thousand_interactions_and_twice_as_many(tmp_path: Path, clock: Clock) -> None:
    judge = Meter(order(tmp_path, budget_seconds=1e9, env_steps=None))
    for env_steps in range(0, 9_000, 300):
        judge.goes_on(env_steps, right_positions)
    assert [int(row["env_steps"]) for row in rows(tmp_path)] == [0, 1_200, 2_100, 4_200, 8_100]


def test_a_run_is_over_after_its_interactions_and_that_moment_is_judged(tmp_path: Path, clock: Clock) -> None:
    judge = Meter(order(tmp_path, env_steps=100))
    assert judge.goes_on(99, right_positions)
    assert not judge.goes_on(100, right_positions)
    assert not judge.goes_on(100, right_positions)
    assert [int(row["env_steps"]) for row in rows(tmp_path)] == [99, 100]


def test_everybody_plays_the_same_test_episodes(tmp_path: Path, clock: Clock) -> None:
    env = LeverGame()
    seeds = Meter(order(tmp_path))._seeds
    assert seeds == Meter(order(tmp_path, contestant="sb3-ppo", seed=7))._seeds

    def stays(observation: Any, mask: Any) -> Any:
        return np.zeros(3, np.int64)

    assert [play_episode(env, seed, stays) for seed in seeds] == [play_episode(env, seed, stays) for seed in seeds]


def test_masks_reach_who_asks_for_them() -> None:
    env = gymnasium.make("revalued/toy-masked-v0")
    seen: list[Any] = []

    def first_legal(observation: Any, mask: Any) -> Any:
        seen.append(mask)
        return np.array([int(np.argmax(part)) for part in np.split(mask, [2, 5])])

    assert play_episode(env, 3, first_legal)[0] > 0  # nothing blocked was chosen, for that is fined
    assert seen[0].shape == (10,)


def test_an_order_survives_its_file(tmp_path: Path) -> None:
    given = order(tmp_path, budget_seconds=1.5)
    given.write(tmp_path / "order.json")
    assert RunOrder.read(str(tmp_path / "order.json")) == given


# --- learners


def test_ours_learns_under_the_judge(tmp_path: Path) -> None:
    ours.learn(order(tmp_path))
    found = rows(tmp_path)
    assert tuple(found[0]) == COLUMNS
    assert int(found[0]["env_steps"]) == 0
    assert 200 <= int(found[-1]["env_steps"]) < 210


def test_the_random_policy_plays_more_episodes_once(tmp_path: Path) -> None:
    uniform.learn(order(tmp_path, contestant="random", settings={}, task="toy-masked"))
    (only,) = rows(tmp_path)
    assert float(only["return"]) > 0  # legal choices alone


@pytest.mark.parametrize(
    ("contestant", "settings"),
    [("sb3-ppo", {"n_steps": 32, "batch_size": 16, "normalise": True}), ("sb3-dqn", {"learning_starts": 10})],
)
def test_stable_baselines_learns_under_the_judge(
    tmp_path: Path, contestant: str, settings: dict[str, Any], recwarn: pytest.WarningsRecorder
) -> None:
    sb3.learn(order(tmp_path, contestant=contestant, settings=settings, env_steps=70))
    found = rows(tmp_path)
    assert int(found[0]["env_steps"]) == 0
    assert int(found[-1]["env_steps"]) == 70


def test_joint_actions_are_all_different() -> None:
    joint = sb3.Joint(gymnasium.make("revalued/toy-levers-v0").unwrapped)
    assert isinstance(joint.action_space, spaces.Discrete)
    assert joint.action_space.n == 30
    assert len({tuple(joint.action(number)) for number in range(30)}) == 30
    assert joint.action(7).tolist() == [0, 1, 2]


# --- who takes part


@pytest.mark.parametrize("name", [name for name in CONTESTANTS if name != "random"])
def test_everybody_has_the_same_number_of_settings(name: str) -> None:
    settings = CONTESTANTS[name].settings
    assert len(settings) == NUM_SETTINGS
    assert next(iter(settings)) == DEFAULT
    assert len({json.dumps(own, sort_keys=True) for own in settings.values()}) == NUM_SETTINGS


def test_our_settings_are_settings(tmp_path: Path) -> None:
    from revalued.settings import configure
    from revalued.validation import validate

    for name in (*OURS, "dqn"):
        for own in CONTESTANTS[name].settings.values():
            given = dict(own)
            validate(configure("toy-levers", str(given.pop("algo")), given))


@pytest.mark.parametrize(
    ("name", "sizes", "masked", "reason"),
    [
        ("tianshou-bdq", (2, 3), False, "as many choices in each dimension"),
        ("tianshou-bdq", (3, 3), False, None),
        ("sb3-ppo", (2, 3), True, "no action masks"),
        ("sb3-dqn", (14,) * 30, False, "joint actions"),
        ("sb3-dqn", (5, 5), False, None),
        ("sb3-sac", (3, 3), False, "continuous actions"),
        ("decqn", (2, 3), True, None),
    ],
)
def test_who_cannot_take_part_is_told_why(name: str, sizes: tuple[int, ...], masked: bool, reason: str | None) -> None:
    found = unfit(name, sizes, masked=masked, has_bins=False)
    assert found is None if reason is None else reason in str(found)


# --- plan and scores


def test_a_score_is_the_mean_over_the_last_fifth() -> None:
    positions, returns = np.array([0.0, 80.0, 100.0, 200.0]), np.array([0.0, 8.0, 10.0, 99.0])
    assert score_at(positions, returns, 100.0) == pytest.approx(9.0)
    assert score_at(positions, np.full(4, 5.0), 100.0) == pytest.approx(5.0)
    assert score_at(positions[:2], returns[:2], 100.0) == pytest.approx(8.0)  # what comes after the last look stays


def test_runs_are_planned_seed_by_seed() -> None:
    runs = default_runs(["decqn", "random", "sb3-ppo"], 2)
    assert [(key.contestant, key.seed) for key in runs] == [
        ("random", 0), ("decqn", 0), ("sb3-ppo", 0), ("decqn", 1), ("sb3-ppo", 1),
    ]  # fmt: skip


def curve(*returns: float) -> RunCurve:
    steps = np.linspace(0, 100, len(returns))
    return RunCurve(steps, 60 * steps / 100, np.array(returns))


def test_tuning_chooses_the_best_once_all_have_been_tried() -> None:
    budget = Budget(None, 400, "wall")
    tried = {key: curve(0.0, float(number)) for number, key in enumerate(tuning_runs(["decqn", "random"]))}
    assert {key.share for key in tried} == {TUNING_SHARE}
    assert {key.seed for key in tried} == {TUNING_SEED}
    last = list(CONTESTANTS["decqn"].settings)[-1]
    assert tuned_settings(["decqn", "random"], tried, budget) == {"decqn": last}
    some = dict(list(tried.items())[:-1])
    assert tuned_settings(["decqn"], some, budget) == {}
    assert [key.seed for key in tuned_runs({"decqn": last, "sb3-ppo": DEFAULT}, 2)] == [0, 1]


# --- on disk


def row(env_steps: int, seconds: float, value: float) -> dict[str, str]:
    numbers = (env_steps, seconds, seconds, value, 10)
    return dict(zip(COLUMNS, map(str, numbers), strict=True))


@pytest.fixture
def folder(tmp_path: Path) -> ComparisonFolder:
    """Two seeds of ours, one of another, the random policy, a tuning run that does not count."""
    found = ComparisonFolder(tmp_path / "levers")
    found.path.mkdir()
    provenance = {
        "task": "toy-levers", "bins": 3, "budget_minutes": 1.0, "env_steps": None, "clock": "cpu", "episodes": 2,
        "threads": 1, "workers": 0, "optimum": 10.0, "tuned": {}, "settings": {}, "versions": {}, "machine": {},
        "commit": "abc",
    }  # fmt: skip
    (found.path / "provenance.json").write_text(json.dumps(provenance))
    found.add(RunKey("decqn", DEFAULT, 0, 1.0), [row(0, 0.0, 2), row(1_000, 48.0, 8), row(1_200, 60.0, 8)])
    found.add(RunKey("decqn", DEFAULT, 1, 1.0), [row(0, 0.0, 2), row(1_000, 48.0, 6), row(1_200, 60.0, 6)])
    found.add(RunKey("sb3-ppo", DEFAULT, 0, 1.0), [row(0, 0.0, 2), row(4_000, 60.0, 2)])
    found.add(RunKey("sb3-ppo", "entropy", TUNING_SEED, TUNING_SHARE), [row(0, 0.0, 99)])
    found.add(RunKey("random", DEFAULT, 0, 1.0), [row(0, 0.0, 1.5)])
    return found


def test_the_table_says_what_is_on_disk(folder: ComparisonFolder) -> None:
    found = read_comparison(folder)
    assert markdown_table(found).splitlines() == [
        "| | return after 1 minute of one core | interactions made | return after 1,200 interactions | seeds |",
        "|---|---|---|---|---|",
        "| *the best possible* | 10.00 | | | |",
        "| revalued: DecQN | 7.00 (6.00 to 8.00) | 1,200 | 6.98 (5.98 to 7.97) | 2 |",
        "| Stable-Baselines3 PPO | 2.00 | 4,000 | 2.00 | 1 |",
        "| *uniformly random* | 1.50 | | | |",
    ]
    assert overview_table({"levers": found}, ["decqn", "sb3-ppo", "tianshou-bdq"]).splitlines()[-1] == (
        "| levers | **7.00** | 2.00 | – | 1.50 | 10.00 |"
    )


def test_the_picture_has_two_panels(folder: ComparisonFolder) -> None:
    figure = comparison_figure("problem-levers", read_comparison(folder))
    assert [label for label, _ in figure.legend] == ["revalued: DecQN", "Stable-Baselines3 PPO"]
    assert "interactions" in panel_svg(figure.panels[0])
    assert "minutes of one core" in panel_svg(figure.panels[1])


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "contestant,setting\n", "\xff"])
def test_a_damaged_table_is_refused_in_one_line(folder: ComparisonFolder, text: str) -> None:
    (folder.path / "results.csv").write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match=r"results.csv cannot be used"):
        folder.finished()


def test_numbers_that_are_none_are_refused(folder: ComparisonFolder) -> None:
    path = folder.path / "results.csv"
    path.write_text(path.read_text() + "decqn,default,0,1.0,0,0,0,nan,10\n")
    with pytest.raises(UserError, match="not finite"):
        folder.finished()


@pytest.mark.parametrize(
    ("task", "name"),
    [("problem:sepsis", "sepsis"), ("gym:a.b:C/D-v0", "gym-a.b-C-D-v0"), ("walker-walk", "walker-walk")],
)
def test_folders_are_named_after_problems(task: str, name: str) -> None:
    assert folder_name(task) == name


# --- the command


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[RunKey]:
    """Carry out runs in no time: those of seed 1 fail."""
    keys: list[RunKey] = []

    def pretend(runs: Any, order: Any, *, peers: Path, jobs: int, started: Any, stop: Any) -> Iterator[Ended]:
        for key in runs:
            started(key)
            order(key, "out.csv")
            keys.append(key)
            failed = key.seed == 1
            yield Ended(
                key, [] if failed else [row(0, 0.0, 1), row(500, 6.0, 2)], "ended with code 1" if failed else None
            )

    monkeypatch.setattr("revalued.compare.runner.execute", pretend)
    return keys


def command(tmp_path: Path, *more: str) -> int:
    return main(["compare", "toy-levers", "--against", "random", "--env-steps", "500", "--out", str(tmp_path), *more])


def test_a_finished_run_is_never_repeated_and_a_failed_one_is(
    tmp_path: Path, executed: list[RunKey], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(tmp_path, "--seeds", "2", "--quiet") == 1
    assert capsys.readouterr().err.count("ended with code 1") == 2
    assert len(executed) == 5
    executed.clear()
    assert command(tmp_path, "--seeds", "2", "--quiet") == 1
    assert {key.seed for key in executed} == {1}
    executed.clear()
    assert command(tmp_path, "--seeds", "1") == 0
    assert executed == []
    assert "| revalued: lean |" in capsys.readouterr().out


def test_tuning_adds_runs_of_the_best_setting(tmp_path: Path, executed: list[RunKey]) -> None:
    assert command(tmp_path, "--seeds", "1", "--tune", "--quiet", "--ours", "decqn") == 0
    assert len([key for key in executed if key.share == TUNING_SHARE]) == NUM_SETTINGS
    known = ComparisonFolder(tmp_path / "toy-levers").provenance()
    assert known is not None
    assert known["tuned"] == {"decqn": DEFAULT}  # all were equal


def test_runs_of_different_budgets_are_not_mixed(
    tmp_path: Path, executed: list[RunKey], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(tmp_path, "--seeds", "1", "--quiet") == 0
    assert command(tmp_path, "--seeds", "1", "--quiet", "--episodes", "3") == 2
    assert "holds runs with episodes = 10, not 3: choose another folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--against", "sb3-pop"], "unknown contestant 'sb3-pop'"),
        (["--seeds", "0"], "seeds = 0 is not possible"),
        (["--budget-minutes", "0"], "budget-minutes = 0 is not possible"),
        (["--clock", "cpu", "--workers", "2"], "--clock wall"),
        (["--against", "sb3-ppo", "--peers", "nowhere"], "'make bench-peers' makes it"),
        (["--against", "tianshou-bdq"], "as many choices in each dimension"),
        (["--against", "sb3-sac"], "needs continuous actions"),
    ],
)
def test_what_cannot_work_is_said_in_one_line(
    tmp_path: Path, flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "toy-levers", "--out", str(tmp_path), "--against", "random", *flags]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_what_the_peers_lack_is_named(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\necho \'{"revalued": "0.1.0"}\'\n')
    python.chmod(0o755)
    with pytest.raises(UserError, match="lacks tianshou: 'make bench-peers'"):
        execution.require_peers(["tianshou-bdq"], tmp_path, "toy-fmdp")
    python.write_text("#!/bin/sh\necho nonsense\n")
    with pytest.raises(UserError, match="cannot be used"):
        execution.require_peers(["sb3-ppo"], tmp_path, "toy-fmdp")
    assert execution.require_peers(["decqn", "random"], tmp_path / "nowhere", "toy-fmdp") == {}


def test_a_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compare", "toy-fmdp", "--budget-minutes", "2", "--seeds", "1", "--tune", "--dry-run"]
    assert main([*arguments, "--out", str(tmp_path), "--ours", "decqn", "--against", "random", "sb3-ppo"]) == 0
    assert "10 minutes" in capsys.readouterr().out  # 2 runs of 2 minutes, 12 of half a minute
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_real_processes_from_order_to_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compare", "toy-levers", "--against", "random", "--env-steps", "300", "--seeds", "2", "--jobs", "2"]
    assert main([*arguments, "--out", str(tmp_path), "--quiet", "--ours", "decqn"]) == 0
    found = read_comparison(ComparisonFolder(tmp_path / "toy-levers"))
    assert found.entries[0].at_budget.seeds == 2
    assert found.random is not None


@pytest.mark.slow
def test_a_run_that_fails_says_its_last_line(tmp_path: Path) -> None:
    key = RunKey("decqn", DEFAULT, 0, 1.0)
    wrong = lambda key, out: order(tmp_path, settings={"algo": "decqn", "critics": 0}, out=out)  # noqa: E731
    (ended,) = execute([key], wrong, peers=Path(sys.prefix), jobs=1, started=lambda key: None, stop=lambda: False)
    assert ended.failure is not None
    assert "critics" in ended.failure
    assert ended.rows == []


@pytest.mark.slow
def test_stopped_it_leaves_no_process_and_goes_on_later(tmp_path: Path) -> None:
    words = ["compare", "toy-levers", "--against", "random", "--ours", "decqn", "--seeds", "1", "--out", str(tmp_path)]
    command = [sys.executable, "-m", "revalued", *words, "--budget-minutes", "30", "--quiet"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (children := children_of(process.pid)) or "ours" not in children[0][1]:
        assert time.monotonic() < deadline, "it never began to learn"
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert "the same command goes on" in said
    assert not Path(f"/proc/{children[0][0]}").exists()
    kept = ComparisonFolder(tmp_path / "toy-levers").finished()
    assert [key.contestant for key in kept] == ["random"]


def children_of(parent: int) -> list[tuple[int, str]]:
    """Return the processes that a process has started, and their command lines."""
    listed = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [(int(pid), Path(f"/proc/{pid}/cmdline").read_text()) for pid in listed if Path(f"/proc/{pid}").exists()]


PEERS = Path(__file__).parents[1] / ".venv-peers"


@pytest.mark.slow
@pytest.mark.skipif(not PEERS.exists(), reason="make bench-peers makes the peers' environment")
def test_the_peers_take_part(tmp_path: Path) -> None:
    words = [
        "compare",
        "toy-fmdp",
        "--ours",
        "--against",
        "sb3-ppo",
        "tianshou-bdq",
        "--env-steps",
        "200",
        "--seeds",
        "1",
    ]
    assert main([*words, "--seeds", "1", "--quiet", "--peers", str(PEERS), "--out", str(tmp_path)]) == 0
    kept = ComparisonFolder(tmp_path / "toy-fmdp").finished()
    assert {key.contestant for key in kept} == {"sb3-ppo", "tianshou-bdq"}
    assert all(curve.env_steps[-1] >= 200 for curve in kept.values())


# --- the pages


@pytest.mark.parametrize("page", problem_pages.PAGES, ids=lambda page: page.name)
def test_the_tables_of_the_pages_are_those_of_the_files(page: Path) -> None:
    assert problem_pages.filled(page, problem_pages.comparisons()) == page.read_text()


def test_every_comparison_has_its_place_on_a_page() -> None:
    places = {place["name"] for page in problem_pages.PAGES for place in problem_pages.PLACE.finditer(page.read_text())}
    assert set(problem_pages.comparisons()) <= places
    assert problem_pages.OVERVIEW in places
