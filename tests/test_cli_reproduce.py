"""`revalued reproduce`, `revalued sweep` and `revalued list experiments`: what they accept, refuse and print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiment_helpers import InThisProcess, read_csv
from revalued.cli import experiment_runs
from revalued.cli.listing import show_list
from revalued.cli.reproduce import reproduce
from revalued.cli.sweep import sweep, sweep_experiment
from revalued.errors import UserError
from revalued.experiments.catalogue import EXPERIMENTS
from revalued.experiments.executor import Stop
from revalued.experiments.plan import Experiment, plan
from revalued.experiments.run_folders import run_path
from revalued.experiments.scales import SCALES, Scale
from revalued.run.folder import RunFolder
from revalued.run.provenance import machine
from run_helpers import QUICK

QUICK_FLAGS = [
    word
    for name, value in QUICK.items()
    if name not in ("critics", "threads")
    for word in ("--" + name.replace("_", "-"), str(value))
]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(experiment_runs, "ProcessExecutor", lambda jobs, trust_modules: InThisProcess())


def refused(command: Any, *arguments: str) -> str:
    with pytest.raises(UserError) as caught:
        command(list(arguments))
    assert list(Path().iterdir()) == []
    return str(caught.value)


def test_every_experiment_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert show_list(["experiments"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[::2]] == list(EXPERIMENTS)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["mian"], "did you mean main"),
        (["main", "--scale", "labtop"], "did you mean laptop"),
        (["main", "--tasks", "walker-wlak"], "did you mean walker-walk"),
        (["main", "--tasks", "walker-walk@x"], "cannot be read"),
        (["main", "--sedes", "2"], "did you mean --seeds"),
        (["main", "--variants", "revalud"], "did you mean revalued"),
        (["all", "--variants", "revalued"], "--variants goes with the name of one of them"),
        (["theorems", "--variants", "decqn"], "computed, not trained"),
        (["main", "--seeds", "0"], "seeds = 0 is not possible"),
        (["main", "--jobs", "0"], "jobs = 0 is not possible"),
        (["theorems", "--seeds", "2"], "computed, not trained"),
        ([], "Missing"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_said_in_one_line(arguments: list[str], expected: str) -> None:
    message = refused(reproduce, *arguments)
    assert expected in message
    assert "\n" not in message


def test_some_variants_now_and_the_others_later(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--scale", "smoke", "--tasks", "toy-levers", "--quiet"]
    for names, without in ((["bdq,decqn"], "without revalued"), (["revalued", "decqn"], "")):
        assert reproduce(["main", "--variants", *names, *flags]) == 0
        found = json.loads(Path("results/main/provenance.json").read_text())
        assert without in found["scale_note"]
    assert sorted({row["variant"] for row in read_csv(Path("results/main/results.csv"))}) == [
        "bdq",
        "decqn",
        "revalued",
    ]
    assert "without revalued" not in found["scale_note"]
    assert len(found["runs"]) == 3


def test_a_dry_run_shows_the_plan_and_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce(["main", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "REValueD, DecQN and BDQ on the control suite" in shown
    assert "Laptop scale: 150,000 interactions per run" in shown
    assert "190 runs, 0 finished already; with 2 jobs; the time it takes is unknown until the first run" in shown
    assert list(Path().iterdir()) == []
    assert reproduce(["theorems", "--dry-run"]) == 0
    assert "computed without training" in capsys.readouterr().out


def test_a_dry_run_counts_what_is_finished(capsys: pytest.CaptureFixture[str]) -> None:
    main = EXPERIMENTS["main"]
    assert isinstance(main, Experiment)
    run = plan(main, SCALES["laptop"], 1, ["walker-walk"])[1]
    folder = RunFolder.create(run_path(Path("results"), run.config), run.config)
    folder.write_summary({"finished": True, "env_steps": 150_000, "wall_seconds": 500.0, "machine": machine()})
    assert reproduce(["main", "--dry-run", "--seeds", "2", "--tasks", "walker-walk"]) == 0
    # One lean critic took 500 s, where a third of what ten take is stepping and the rest a tenth. So ten take 1,250 s
    # and a wide one 1,270: 500 + 2 (500 + 1,250 + 1,250 + 1,270), two at a time.
    known = "about 1:15:20 with 2 jobs, from finished runs on this machine"
    others = "8 runs of kinds that have not been measured yet are estimated from others"
    assert f"10 runs, 1 finished already; {known}; {others}" in capsys.readouterr().out
    assert reproduce(["main", "--dry-run", "--seeds", "1", "--tasks", "walker-walk"]) == 0
    shown = capsys.readouterr().out
    assert "5 runs, 1 finished already" in shown
    (line,) = [line for line in shown.splitlines() if " decqn " in line]
    assert line.split()[1::2] == ["decqn", "1", "1", "1", "1", "1"]  # critics, tasks, seeds, runs, finished


def test_timed_runs_go_one_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce(["wall-time", "--dry-run", "--jobs", "2"]) == 0
    captured = capsys.readouterr()
    assert "one run at a time with all cores, --jobs 2 is not used" in captured.err
    assert "with 1 job;" in captured.out


def test_a_whole_experiment_on_a_task_of_ones_choice(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["regulariser-reduction", "--scale", "smoke", "--tasks", "toy-levers", "--out", "here"]
    assert reproduce(command) == 0
    captured = capsys.readouterr()
    assert captured.out == f"2 runs finished; results in {Path('here/regulariser-reduction/results.csv')}\n"
    assert "Smoke scale: 1,500 interactions per run" in captured.err
    assert "finished: revalued-mean on toy-levers, seed 0, return" in captured.err
    table = read_csv(Path("here/regulariser-reduction/results.csv"))
    assert {(row["variant"], row["task"], row["seed"]) for row in table} == {
        ("revalued", "toy-levers", "0"),
        ("revalued-mean", "toy-levers", "0"),
    }
    with pytest.raises(UserError, match="at smoke scale"):
        reproduce(["beta", "--scale", "laptop", "--tasks", "toy-levers", "--out", "here"])


def test_failures_are_listed_with_their_logs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = InThisProcess(fails=lambda path: True)
    monkeypatch.setattr(experiment_runs, "ProcessExecutor", lambda jobs, trust_modules: broken)
    command = ["regulariser-reduction", "--scale", "smoke", "--tasks", "toy-levers", "--quiet"]
    assert reproduce(command) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert lines[0].startswith("revalued: failed: revalued on toy-levers, seed 0: the arm fell off (log: results/runs/")
    assert lines[-1] == (
        "2 of 2 runs not finished; go on with the same command: revalued reproduce " + " ".join(command)
    )


def test_signals_count() -> None:
    expected = [Stop.NO, Stop.GENTLY, Stop.NOW, Stop.NOW]
    assert [experiment_runs.wanted_stop([2] * count) for count in range(4)] == expected


def test_a_sweep_trains_every_combination(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["toy-levers", "--critics", "1,2", "--beta", "0,0.5", "--seeds", "1", *QUICK_FLAGS, "--env-steps", "150"]
    assert sweep(command) == 0
    assert capsys.readouterr().out == f"4 runs finished; results in {Path('sweeps/toy-levers/results.csv')}\n"
    table = read_csv(Path("sweeps/toy-levers/results.csv"))
    names = {f"critics{critics}-beta{beta}" for critics in (1, 2) for beta in ("0", "0.5")}
    assert {row["variant"] for row in table} == names
    provenance = json.loads(Path("sweeps/toy-levers/provenance.json").read_text())
    assert (provenance["experiment"], provenance["scale"]) == ("toy-levers", "sweep")
    overrides = provenance["variants"]["critics2-beta0.5"]["overrides"]
    assert overrides["critics"] == 2
    assert (overrides["hidden_size"], overrides["threads"], overrides["algo"]) == (32, 1, "revalued")
    with pytest.raises(UserError, match="cannot be mixed"):
        sweep([*command, "--n-step", "1"])
    assert sweep([*command, "--n-step", "1", "--name", "one-step", "--dry-run"]) == 0


def test_sweeps_of_presets_switches_bins_and_noise() -> None:
    swept: dict[str, list[Any]] = {
        "algo": ["decqn", "revalued"],
        "double_q": [True, False],
        "bins": [3, 30],
        "reward_noise": [0.0, 0.1],
    }
    experiment = sweep_experiment("mine", "walker-walk", swept)
    assert [variant.id for variant in experiment.variants] == [
        "decqn-double-qtrue", "decqn-double-qfalse", "revalued-double-qtrue", "revalued-double-qfalse",
    ]  # fmt: skip
    runs = plan(experiment, Scale("sweep", 1, None, None, {}))
    assert [run.task for run in runs[::4]] == [
        "walker-walk", "walker-walk+reward-noise", "walker-walk@30", "walker-walk@30+reward-noise",
    ]  # fmt: skip
    first = runs[0].config
    assert (first.algorithm.critics, first.algorithm.double_q, first.schedule.env_steps) == (1, True, 500_000)


def test_a_sweep_of_nothing_compares_seeds() -> None:
    (variant,) = sweep_experiment("mine", "walker-walk", {"critics": [3]}).variants
    assert variant.id == "revalued"
    assert variant.overrides["critics"] == 3


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["walker-walk", "--critcs", "1,3"], "did you mean --critics"),
        (["walker-walk", "--critics", "1,x"], "--critics"),
        (["walker-walk", "--critics"], "--critics needs a value"),
        (["walker-walk", "--critics", "0,1"], "critics = 0 is not possible"),
        (["walker-walk", "--algo", "revalued,decqm"], "did you mean decqn"),
        (["walker-walk", "--head", "utilites"], "utilities"),
        (["walker-walk", "--double-q=maybe"], "true, false or both"),
        (["walker-walk", "--seed", "1"], "did you mean --seeds"),
        (["walker-walk", "--name", "../away"], "plain name"),
        (["walker-wlak", "--critics", "1"], "did you mean walker-walk"),
        (["--critics", "1"], "Missing"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_in_sweeps_are_said_in_one_line(arguments: list[str], expected: str) -> None:
    message = refused(sweep, *arguments)
    assert expected in message
    assert "\n" not in message


def test_switches_with_and_without_values(capsys: pytest.CaptureFixture[str]) -> None:
    for words, names in (
        (["--double-q", "true,false"], ["double-qtrue", "double-qfalse"]),
        (["--double-q"], ["revalued"]),
        (["--no-prioritised", "--n_step=1,3"], ["n-step1", "n-step3"]),
    ):
        assert sweep(["toy-levers", *words, "--dry-run"]) == 0
        shown = capsys.readouterr().out
        assert [line.split()[1] for line in shown.splitlines() if line.startswith("│")] == names
