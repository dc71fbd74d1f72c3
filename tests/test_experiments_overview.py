"""What is shown while runs go on, what time is left, and where results come from."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from experiment_helpers import planned
from revalued.algorithms.presets import preset
from revalued.config import ScheduleConfig, TrainConfig
from revalued.errors import UserError
from revalued.experiments.estimates import calibration, estimate_seconds
from revalued.experiments.overview import LiveOverview, PlainOverview, Standing, describe
from revalued.experiments.provenance import merged
from revalued.experiments.results import cvar_rows, detrended_cvar, read_table, sorted_rows, write_table
from revalued.experiments.workload import Workload, by_folder
from revalued.run.folder import RunFolder
from revalued.run.provenance import source_commit
from run_helpers import quick_config

STANDING = Standing(2, 5, 0.5, 3725.0, (("decqn on walker-walk, seed 0", 0.25),))


def test_one_line_says_it_all() -> None:
    assert describe(STANDING) == "2/5 runs · 50% of the work · 1:02:05 left · now decqn on walker-walk, seed 0 (25%)"
    assert describe(Standing(0, 1, 0.0, None)) == "0/1 runs · 0% of the work"


def test_plain_lines_come_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    seldom, often = PlainOverview(seconds_between_lines=1000.0), PlainOverview(seconds_between_lines=0.0)
    seldom.update(STANDING)
    assert capsys.readouterr().err == ""
    often.update(STANDING)
    seldom.say("finished: it")
    assert capsys.readouterr().err == f"{describe(STANDING)}\nfinished: it\n"


def test_live_bars_follow_the_runs() -> None:
    screen = io.StringIO()
    view = LiveOverview(Console(file=screen, force_terminal=True, width=120))
    view.update(STANDING)
    view.update(replace(STANDING, finished=3, running=(("bdq on fish-swim, seed 1", 0.1),)))
    view.say("finished: decqn [0]")
    view.close()
    shown = screen.getvalue()
    assert "3/5 runs · 1:02:05 left" in shown
    assert "bdq on fish-swim, seed 1" in shown
    assert "finished: decqn [0]" in shown
    assert "decqn on walker-walk" not in shown.rpartition("all runs")[2]


def walker(algo: str, critics: int, env_steps: int = 120_000) -> TrainConfig:
    algorithm = replace(preset(algo), critics=critics)
    return TrainConfig(task="walker-walk", algo=algo, algorithm=algorithm, schedule=ScheduleConfig(env_steps=env_steps))


def test_estimates_agree_with_what_was_measured() -> None:
    assert 120_000 / estimate_seconds(walker("decqn", 1), 1) == pytest.approx(330, rel=0.1)
    assert 120_000 / estimate_seconds(walker("revalued", 3), 1) == pytest.approx(165, rel=0.1)
    assert 500_000 / estimate_seconds(walker("revalued", 10, 500_000), 2) == pytest.approx(84, rel=0.1)
    dog = replace(walker("decqn", 1), task="dog-walk")
    assert estimate_seconds(dog, 1) > 1.5 * estimate_seconds(walker("decqn", 1), 1)


def test_finished_runs_calibrate_the_estimates() -> None:
    assert calibration([]) == 1.0
    assert calibration([(20.0, 10.0), (30.0, 10.0), (500.0, 10.0)]) == 3.0


def test_the_work_that_is_left(tmp_path: Path) -> None:
    runs = planned()
    paths = [tmp_path / str(number) for number in range(4)]
    paths[3] = paths[2]  # the same run under two names
    for path, run in list(zip(paths, runs, strict=True))[:3]:
        RunFolder.create(path, run.config)
    RunFolder(paths[0]).write_summary({"finished": True, "env_steps": 350, "wall_seconds": 100.0})
    work = Workload(by_folder(runs, paths), jobs=2)
    assert work.to_do == paths[1:3]
    assert work.is_calibrated
    assert work.standing().finished == 1
    before = work.standing().fraction
    work.begun(paths[1])
    work.reached(paths[1], 175)
    assert work.standing().running == ((runs[1].title, 0.5),)
    assert work.standing().fraction > before
    work.ended(paths[1], finished=True)
    assert work.to_do == [paths[2]]
    work.begun(paths[2])
    work.ended(paths[2], finished=True)
    assert (work.standing().fraction, work.seconds_left()) == (1.0, 0.0)


def test_cvar_by_hand() -> None:
    # Differences 1 … 20: the 95% quantile is 1 + 19 · 0.95 = 19.05, and only 20 is above it.
    norms = np.cumsum([0.0, *np.random.default_rng(0).permutation(np.arange(1.0, 21.0))])
    assert detrended_cvar(norms) == pytest.approx(20.0)
    # Differences 1 … 41: the quantile is 1 + 40 · 0.95 = 39, which counts too: mean of 39, 40 and 41.
    assert detrended_cvar(np.cumsum(np.arange(42.0))) == pytest.approx(40.0)


def test_gradient_norms_must_be_complete(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", quick_config())
    for updates in (1, 2, 4):
        folder.metric_table.add({"updates": updates, "gradient_norm": 1.0})
    with pytest.raises(UserError, match="lacks updates"):
        cvar_rows("stability", ("decqn", "toy-levers", 0), folder.path)


def test_tables_are_sorted_by_numbers_and_read_back(tmp_path: Path) -> None:
    rows = [
        {"variant": variant, "task": "t", "seed": seed, "updates": updates}
        for variant, seed, updates in (("b", 0, 1), ("a", 10, 1), ("a", 2, 1000), ("a", 2, 200))
    ]
    ordered = [(row["variant"], row["seed"], row["updates"]) for row in sorted_rows(rows)]
    assert ordered == [("a", 2, 200), ("a", 2, 1000), ("a", 10, 1), ("b", 0, 1)]
    table, columns = tmp_path / "new" / "table.csv", ("variant", "task", "seed", "updates")
    assert read_table(table, columns) == []
    write_table(table, columns, rows)
    assert table.read_bytes().startswith(b"variant,task,seed,updates\nb,t,0,1\n")
    assert [row["seed"] for row in read_table(table, columns)] == ["0", "10", "2", "2"]
    with pytest.raises(UserError, match="has other columns"):
        read_table(table, columns[1:])


def test_facts_that_disagree_are_both_told() -> None:
    facts = [{"torch": "2.13", "cores": 2}, {"torch": "2.14", "cores": 2}, {"torch": "2.13", "cores": 2}]
    assert merged(facts) == {"torch": "2.13, 2.14", "cores": 2}


def test_the_commit_of_the_source() -> None:
    assert re.fullmatch(r"[0-9a-f]{40}( with changes)?|revalued \S+", source_commit())
