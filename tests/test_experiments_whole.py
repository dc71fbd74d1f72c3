"""All experiments as one piece of work: shared runs, the order, what finished runs keep, several processes at once."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiment_helpers import SCALE, TOY, InThisProcess, carry_out_toy, planned, read_csv
from report_data import write_training
from revalued.cli import experiment_runs
from revalued.cli.reproduce import reproduce
from revalued.errors import UserError
from revalued.experiments import catalogue, pruning
from revalued.experiments.catalogue import EXPERIMENTS
from revalued.experiments.ledger import Ledger
from revalued.experiments.overview import Overview
from revalued.experiments.plan import Experiment, Variant, plan
from revalued.experiments.pruning import needs_pruning, prune
from revalued.experiments.run_folders import env_steps_so_far, run_hash, run_path
from revalued.experiments.runner import carry_out
from revalued.experiments.scales import SCALES
from revalued.experiments.whole_plan import share_runs, work_order
from revalued.experiments.workload import Workload
from revalued.run.folder import RunFolder
from revalued.run.load import load_run
from revalued.run.start import resume, start
from run_helpers import DEADLINE_SECONDS, end, quick_config, wait_for

LAPTOP = SCALES["laptop"]
ABLATION = replace(
    TOY,
    name="ablation",
    variants=(
        Variant("revalued-beta0", "without", {"algo": "revalued", "beta": 0.0, "critics": 1}),  # which is DecQN
        Variant("revalued-beta1", "with more", {"algo": "revalued", "beta": 1.0}),
    ),
)


def ledgers_at(out: Path, *experiments: Experiment, seeds: int = 1) -> list[Ledger]:
    found = [Ledger(experiment, SCALE, plan(experiment, SCALE, seeds), out) for experiment in experiments]
    share_runs(found)
    return found


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> list[Ledger]:
    """The whole plan at laptop scale."""
    out = tmp_path_factory.mktemp("plan")
    trained = [experiment for experiment in EXPERIMENTS.values() if isinstance(experiment, Experiment)]
    found = [Ledger(experiment, LAPTOP, plan(experiment, LAPTOP), out) for experiment in trained]
    share_runs(found)
    return found


def test_shared_runs_are_planned_once(laptop: list[Ledger]) -> None:
    runs, paths = work_order(laptop)
    hashes = [(run.config.task, run_hash(run.config)) for run in runs]
    assert len(set(hashes)) == len(hashes) == len(set(paths))
    wanted = {(run.config.task, run_hash(run.config)) for ledger in laptop for run in ledger.planned}
    assert set(hashes) == wanted
    assert len(hashes) < sum(len(ledger.planned) for ledger in laptop)


def test_every_experiment_has_its_first_seed_early(laptop: list[Ledger]) -> None:
    runs, paths = work_order(laptop)
    seeds = [run.seed for run in runs]
    assert seeds == sorted(seeds)
    position = {path: number for number, path in enumerate(paths)}
    for ledger in laptop:
        first_task = [path for path, run in zip(ledger.paths, ledger.planned, strict=True) if run.seed == 0]
        begun = min(position[path] for path in first_task)
        assert begun < 60, ledger.experiment.name  # of hundreds, and main alone has 80 with its first seed


def test_a_comparison_is_made_in_one_go(laptop: list[Ledger]) -> None:
    """The variants of a task follow each other, so that whatever is interrupted leaves whole comparisons."""
    main = next(ledger for ledger in laptop if ledger.experiment.name == "main")
    runs, _ = work_order([main])
    variants = len({run.variant for run in runs})
    for number in range(0, len(runs), variants):
        assert len({(run.task, run.seed) for run in runs[number : number + variants]}) == 1


def test_by_hand(tmp_path: Path) -> None:
    two_tasks = {**TOY.tasks, "smoke": ("toy-levers", "toy-counting")}
    first = replace(TOY, tasks=two_tasks, variants=TOY.variants[:1], seeds={"smoke": {"toy-counting": 2}})
    second = replace(first, name="second", variants=TOY.variants[1:])
    found = [
        Ledger(experiment, SCALE, plan(experiment, replace(SCALE, seeds=1)), tmp_path) for experiment in (first, second)
    ]
    order = [(run.variant, run.task, run.seed) for run in work_order(found)[0]]
    assert order == [
        ("decqn", "toy-counting", 0), ("revalued", "toy-counting", 0),  # more seeds than the other task: first
        ("decqn", "toy-levers", 0), ("revalued", "toy-levers", 0),
        ("decqn", "toy-counting", 1), ("revalued", "toy-counting", 1),
    ]  # fmt: skip


def test_more_seeds_where_nobody_learns_come_last(tmp_path: Path) -> None:
    main = EXPERIMENTS["main"]
    assert isinstance(main, Experiment)
    tasks = ("dog-run", "walker-walk", "humanoid-run")
    levels = {("decqn", "dog-run"): 5.0, ("decqn", "walker-walk"): 500.0, ("decqn", "humanoid-run"): 1.0}
    levels[("lean", "humanoid-run")] = 40.0  # one has begun to learn
    folder = write_training(tmp_path, "main", levels, seeds=1)
    facts = json.loads((folder / "provenance.json").read_text())
    (folder / "provenance.json").write_text(json.dumps(facts | {"variants": {}}))
    ledger = Ledger(main, LAPTOP, plan(main, LAPTOP, 2, tasks, ["decqn"]), tmp_path)
    assert ledger.unlearnt() == {"dog-run"}
    assert [(run.task, run.seed) for run in work_order([ledger])[0]] == [
        ("dog-run", 0), ("walker-walk", 0), ("humanoid-run", 0),
        ("walker-walk", 1), ("humanoid-run", 1), ("dog-run", 1),
    ]  # fmt: skip


def test_equal_runs_under_two_names_are_trained_once(tmp_path: Path) -> None:
    ledgers = ledgers_at(tmp_path, TOY, ABLATION)
    executor = InThisProcess()
    work = Workload(*work_order(ledgers), jobs=1)
    assert carry_out(ledgers, work, executor, Overview()) == {}
    assert len(executor.trained) == 3
    decqn = [row["return"] for row in read_csv(tmp_path / "toy" / "results.csv") if row["variant"] == "decqn"]
    other = [row for row in read_csv(tmp_path / "ablation" / "results.csv") if row["variant"] == "revalued-beta0"]
    assert [row["return"] for row in other] == decqn


def test_all_is_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(experiment_runs, "ProcessExecutor", lambda jobs, trust_modules: InThisProcess())
    timed = replace(TOY, name="timed", is_timed=True, overrides={"n_step": 1})
    toys = {experiment.name: experiment for experiment in (TOY, ABLATION, timed)}
    monkeypatch.setattr("revalued.cli.reproduce.EXPERIMENTS", toys)
    monkeypatch.setattr("revalued.cli.reproduce.find_scale", lambda name: SCALE)
    assert reproduce(["all", "--scale", "smoke", "--seeds", "1", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "3 experiments at smoke scale" in shown
    lines = {line.split("│")[1].strip(): line.split("│")[2:-1] for line in shown.splitlines() if line.startswith("│")}
    numbers = {name: [cell.strip() for cell in cells] for name, cells in lines.items()}
    assert numbers["toy"][2:5] == ["2", "2", "0"]
    assert numbers["ablation"][2:5] == ["2", "1", "0"]  # the other one is DecQN, which toy has already
    assert numbers["together"][2:] == ["5", "5", "0", "?", "?"]
    assert list(tmp_path.iterdir()) == []
    assert reproduce(["all", "--scale", "smoke", "--seeds", "1"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "5 runs finished; results in results\n"
    assert captured.err.index("decqn on toy-levers") < captured.err.index("revalued-beta1")
    assert {path.name for path in (tmp_path / "results").iterdir()} == {"toy", "ablation", "timed", "runs"}
    for run in (tmp_path / "results" / "runs").glob("*/*"):
        assert not needs_pruning(run)
        assert (run / "checkpoint").is_dir()
    assert reproduce(["all", "--scale", "smoke", "--seeds", "1", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "5 runs, 5 finished already: nothing to do" in shown
    with pytest.raises(UserError, match="tasks of their own"):
        reproduce(["all", "--tasks", "toy-levers"])


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    start(quick_config("toy-levers", normalise_observations=True), path)
    return path


def greedy_actions(path: Path) -> list[list[int]]:
    policy = load_run(path, needs_env=False).policy
    size = policy.shape.observation_size
    observations = np.random.default_rng(0).normal(size=(50, size)).astype(np.float32)
    return [policy.greedy(observation[None]).tolist() for observation in observations]


def test_a_pruned_run_acts_as_before_and_is_small(finished_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(finished_run, path)
    before = greedy_actions(path)
    tables = {name: (path / name).read_bytes() for name in ("eval.csv", "metrics.csv", "summary.json")}
    assert needs_pruning(path)
    prune(path)
    assert not needs_pruning(path)
    assert greedy_actions(path) == before
    assert {name: (path / name).read_bytes() for name in tables} == tables
    files = {file.name for file in (path / "checkpoint").rglob("*") if file.is_file()}
    assert files == {"meta.json", "learner.safetensors", "manifest.json"}
    assert not list(path.glob(".checkpoint*"))
    with pytest.raises(UserError, match="it can act, but not go on learning"):
        resume(path, env_steps=1_000)
    prune(path)  # once more changes nothing
    assert greedy_actions(path) == before


class Killed(BaseException):
    """Stands for kill -9."""


@pytest.mark.parametrize("moment", range(4))
def test_a_kill_while_pruning_loses_nothing(
    moment: int, finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"
    shutil.copytree(finished_run, path)
    before = greedy_actions(path)
    with monkeypatch.context() as patched:
        _kill_at(moment, patched)
        with pytest.raises(Killed):
            prune(path)
    assert needs_pruning(path)
    prune(path)
    assert not needs_pruning(path)
    assert greedy_actions(path) == before
    assert not list(path.glob(".checkpoint*"))


def _kill_at(moment: int, patched: pytest.MonkeyPatch) -> None:
    """Kill while writing, before the first rename, before the second, or before the old checkpoints are removed."""

    def killed(*_: object, **__: object) -> None:
        raise Killed

    if moment == 0:
        patched.setattr(pruning, "policy_contents", killed)
    elif moment == 3:
        real = shutil.rmtree
        patched.setattr(
            shutil, "rmtree", lambda path, **how: killed() if path.name.endswith("whole") else real(path, **how)
        )
    else:
        rename = Path.rename
        names = {1: "checkpoint", 2: ".checkpoint.pruned"}

        def until(path: Path, target: Any) -> Path:
            if path.name == names[moment]:
                raise Killed
            return rename(path, target)

        patched.setattr(Path, "rename", until)


def test_checkpoints_are_kept_where_that_is_asked_for_or_pruning_fails(tmp_path: Path) -> None:
    carry_out_toy(tmp_path, InThisProcess(), seeds=1)
    runs = list((tmp_path / "runs").glob("*/*"))
    assert all(needs_pruning(path) for path in runs)
    for file in runs[0].glob("checkpoint/*/learner.safetensors"):
        file.write_bytes(b"damaged")
    said: list[str] = []

    class View(Overview):
        def say(self, text: str) -> None:
            said.append(text)

    ledgers = ledgers_at(tmp_path, TOY)
    carry_out(ledgers, Workload(*work_order(ledgers), 1), InThisProcess(), View(), keep_checkpoints=False)
    assert [needs_pruning(path) for path in runs] == [True, False]
    assert len(said) == 1
    assert said[0].startswith(f"the checkpoints of {runs[0]} are kept: ")


def test_what_another_process_trains_comes_last_or_is_left_to_it(tmp_path: Path) -> None:
    runs = planned(seeds=1)
    busy = run_path(tmp_path, runs[0].config)
    RunFolder.create(busy, runs[0].config)
    executor = InThisProcess()
    with RunFolder(busy).locked():
        outcome = carry_out_toy(tmp_path, executor, seeds=1)
    assert (outcome.finished, outcome.failures) == (1, {})
    assert busy not in executor.trained

    class Leaving(InThisProcess):
        """The other process ends while this one trains its first run."""

        def execute(self, paths: Any, stop: Any) -> Any:
            for event in super().execute(paths, stop):
                if event.kind == "finished":
                    release()
                yield event

    other = tmp_path / "other"
    place = run_path(other, runs[0].config)
    RunFolder.create(place, runs[0].config)
    lock = RunFolder(place).locked()
    lock.__enter__()
    released: list[bool] = []

    def release() -> None:
        if not released:
            released.append(True)
            lock.__exit__(None, None, None)

    executor = Leaving()
    assert carry_out_toy(other, executor, seeds=1).is_complete
    assert executor.trained[-1] == place


def test_two_processes_may_write_the_same_tables(tmp_path: Path) -> None:
    """Each keeps what the other has written since it began."""
    narrow = Ledger(TOY, SCALE, planned(1), tmp_path)
    wide = Ledger(TOY, SCALE, planned(2), tmp_path)
    work = Workload(*work_order([wide]), 1)
    carry_out([wide], work, InThisProcess(), Overview())
    before = read_csv(tmp_path / "toy" / "results.csv")
    assert {row["seed"] for row in before} == {"0", "1"}
    narrow.write()
    assert read_csv(tmp_path / "toy" / "results.csv") == before


def test_rows_of_shorter_runs_do_not_stand_for_longer_ones(tmp_path: Path) -> None:
    carry_out_toy(tmp_path, InThisProcess(), seeds=1)
    longer = replace(SCALE, env_steps=500)
    ledger = Ledger(TOY, longer, plan(TOY, longer, 1), tmp_path)
    ledger.write()
    assert read_csv(tmp_path / "toy" / "results.csv") == []


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from experiment_helpers import SCALE, TOY, planned
from revalued.cli.experiment_runs import FanOut, train_all
from revalued.experiments.ledger import Ledger
from dataclasses import replace
scale = replace(SCALE, env_steps={env_steps})
from revalued.experiments.plan import plan
out = Path({out!r})
sys.exit(train_all([Ledger(TOY, scale, plan(TOY, scale, 1), out)], FanOut(jobs=2), ["toy"], keep_checkpoints=False))
"""


@pytest.mark.slow
def test_kill_minus_nine_ends_the_runs_too_and_the_same_command_goes_on(tmp_path: Path) -> None:
    def script(out: Path) -> list[str]:
        text = SCRIPT.format(tests=str(Path(__file__).parent), out=str(out), env_steps=40_000)
        return [sys.executable, "-c", text]

    def paths() -> list[Path]:
        return list(out.glob("runs/*/*"))

    out, whole = tmp_path / "killed", tmp_path / "whole"
    process = subprocess.Popen(
        script(out), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert wait_for(lambda: len(paths()) == 2 and all(env_steps_so_far(path) > 500 for path in paths()), process)
        process.send_signal(signal.SIGKILL)
        process.wait(DEADLINE_SECONDS)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while any(RunFolder(path).is_in_use() for path in paths()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert all(list(path.glob("checkpoint/env-steps-*")) for path in paths())
    finally:
        end(process)
    for place in (out, whole):
        again = subprocess.run(script(place), capture_output=True, text=True, timeout=DEADLINE_SECONDS)
        assert again.returncode == 0, again.stderr
    assert read_csv(out / "toy" / "results.csv") == read_csv(whole / "toy" / "results.csv")


def test_the_catalogue_knows_no_experiment_of_that_name() -> None:
    assert "all" not in catalogue.EXPERIMENTS
