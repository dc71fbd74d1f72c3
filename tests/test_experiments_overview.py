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
from revalued.errors import UserError
from revalued.experiments.overview import LiveOverview, PlainOverview, WorkStatus, status_line
from revalued.experiments.plan import PlannedRun
from revalued.experiments.result_files import merged, read_table, sorted_rows, write_table
from revalued.experiments.run_folders import cvar_rows, detrended_cvar
from revalued.experiments.workload import Workload
from revalued.run.folder import RunFolder
from revalued.run.provenance import machine, source_commit
from run_helpers import quick_config

STATUS = WorkStatus(2, 5, 0.5, "1:02:05 left", (("decqn on walker-walk, seed 0", 0.25),))


def test_one_line_says_it_all() -> None:
    assert status_line(STATUS) == "2/5 runs · 50% of the work · 1:02:05 left · now decqn on walker-walk, seed 0 (25%)"
    assert status_line(WorkStatus(0, 1, 0.0)) == "0/1 runs · 0% of the work"


def test_plain_lines_come_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    seldom, often = PlainOverview(seconds_between_lines=1000.0), PlainOverview(seconds_between_lines=0.0)
    seldom.update(STATUS)
    assert capsys.readouterr().err == ""
    often.update(STATUS)
    seldom.say("finished: it")
    assert capsys.readouterr().err == f"{status_line(STATUS)}\nfinished: it\n"


def test_live_bars_follow_the_runs() -> None:
    screen = io.StringIO()
    view = LiveOverview(Console(file=screen, force_terminal=True, width=120))
    view.update(STATUS)
    view.update(replace(STATUS, finished=3, running=(("bdq on fish-swim, seed 1", 0.1),)))
    view.say("finished: decqn [0]")
    view.close()
    shown = screen.getvalue()
    assert "3/5 runs · 1:02:05 left" in shown
    assert "bdq on fish-swim, seed 1" in shown
    assert "finished: decqn [0]" in shown
    assert "decqn on walker-walk" not in shown.rpartition("all runs")[2]


def finished(path: Path, run: PlannedRun, seconds: float, **changes: object) -> None:
    folder = RunFolder.create(path, run.config)
    facts = {"finished": True, "env_steps": 350, "wall_seconds": seconds, "machine": machine()}
    folder.write_summary({**facts, **changes})


def test_the_work_that_is_left(tmp_path: Path) -> None:
    runs = planned()  # decqn and revalued with seed 0, then both with seed 1
    paths = [tmp_path / str(number) for number in range(4)]
    paths[3] = paths[2]  # the same run under two names
    finished(paths[0], runs[0], 100.0)
    work = Workload(runs, paths, jobs=2)
    assert work.to_do == paths[1:3]
    assert work.status().finished == 1
    before = work.status().fraction
    work.begun(paths[1])
    work.reached(paths[1], 175)
    assert work.status().running == ((runs[1].title, 0.5),)
    assert work.status().fraction > before
    work.ended(paths[1], {"wall_seconds": 1.0})
    assert work.to_do == [paths[2]]
    work.begun(paths[2])
    work.ended(paths[2], {"wall_seconds": 1.0})
    assert (work.status().fraction, work.seconds_left()) == (1.0, 0.0)
    assert work.status().time_left == "about 0:00 left"


def test_time_is_estimated_from_finished_runs_of_the_same_kind_on_this_machine(tmp_path: Path) -> None:
    runs = planned(seeds=4)
    paths = [tmp_path / str(number) for number in range(8)]
    assert {run.variant for run in runs[::2]} == {"decqn"}
    work = Workload(runs, paths, jobs=2)
    assert (work.unmeasured(), work.seconds_left(), work.status().time_left) == (8, 0.0, "")
    finished(paths[0], runs[0], 9999.0, machine={"processor": "another"})
    finished(paths[2], runs[2], 100.0)
    finished(paths[4], runs[4], 200.0)
    work = Workload(runs, paths, jobs=2)
    # the other kind has not been measured; its task has, and stands for it: these critics cost next to nothing
    assert [work.expected_seconds(path) for path in paths[5:7]] == [pytest.approx(150.0, rel=0.001), 150.0]
    assert work.unmeasured() == 4
    assert work.status().time_left == "about 6:15 left"  # five runs, two at a time
    work.begun(paths[1])
    work.ended(paths[1], {"wall_seconds": 300.0, "machine": machine()})
    assert work.unmeasured() == 0
    work.begun(paths[3])
    work.reached(paths[3], 175)
    assert work.seconds_left() == (150 + 150 + 300 + 300) / 2
    assert work.status().time_left == "about 7:30 left"


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
        cvar_rows(folder.path)


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
