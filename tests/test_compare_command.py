"""`revalued compare`: the command, its refusals and its processes, and the pages that show its tables."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks import problems as problem_pages

from compare_helpers import order, row
from revalued.cli import main
from revalued.compare import execution
from revalued.compare.contestants import DEFAULT, NUM_SETTINGS
from revalued.compare.execution import Ended, execute
from revalued.compare.plan import TUNING_SHARE
from revalued.compare.result_table import ComparisonFolder, RunKey
from revalued.compare.tables import read_comparison
from revalued.errors import UserError

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


@pytest.mark.parametrize("budget", [["--budget-minutes", "1"], []], ids=["minutes", "interactions"])
def test_minutes_of_two_processors_are_not_mixed(
    tmp_path: Path, executed: list[RunKey], budget: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(tmp_path, "--seeds", "1", "--quiet", *budget) == 0
    path = tmp_path / "toy-levers" / "provenance.json"
    known = json.loads(path.read_text())
    known["machine"]["processor"] = "Abacus 1"
    path.write_text(json.dumps(known))
    executed.clear()
    assert command(tmp_path, "--seeds", "1", "--quiet", *budget) == (2 if budget else 0)
    assert ("minutes are those of another processor (Abacus 1" in capsys.readouterr().err) == bool(budget)
    assert executed == []


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--against", "sb3-pop"], "unknown contestant 'sb3-pop'"),
        (["--seeds", "0"], "seeds = 0 is not possible"),
        (["--budget-minutes", "0"], "budget-minutes = 0 is not possible"),
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
    words = ["compare", "toy-fmdp", "--ours", "--against", "sb3-ppo", "tianshou-bdq", "--env-steps", "200"]
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
