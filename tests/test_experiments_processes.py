"""Experiments carried out by real processes: side by side, interrupted, killed, failing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from campaign.processes import left_in_group

from experiment_helpers import carry_out_toy, planned, read_csv
from revalued.experiments.executor import RunEvent, Stop
from revalued.experiments.process_executor import ProcessExecutor
from revalued.experiments.run_folders import begin_log, env_steps_so_far, last_log_line, run_path
from revalued.run.folder import RunFolder
from run_helpers import DEADLINE_SECONDS, end, quick_config, wait_for

ENDLESS = quick_config("toy-levers", env_steps=10_000_000)


def endings(events: list[RunEvent]) -> dict[str, str]:
    return {event.path.name: event.kind for event in events if event.kind not in ("started", "progress")}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("alone")
    assert carry_out_toy(out, ProcessExecutor(jobs=1), jobs=1).is_complete
    return out


@pytest.mark.slow
def test_results_do_not_depend_on_how_many_runs_go_on_at_once(alone: Path, tmp_path: Path) -> None:
    assert carry_out_toy(tmp_path, ProcessExecutor(jobs=2), jobs=2).is_complete
    assert read_csv(tmp_path / "toy" / "results.csv") == read_csv(alone / "toy" / "results.csv")
    assert len(read_csv(alone / "toy" / "results.csv")) == 12


@pytest.mark.slow
def test_a_failing_run_is_told_with_its_last_words(tmp_path: Path) -> None:
    broken = run_path(tmp_path, planned()[0].config)
    RunFolder.create(broken, planned()[0].config)
    (broken / "eval.csv").unlink()
    (broken / "eval.csv").mkdir()  # where no table can be written
    outcome = carry_out_toy(tmp_path, ProcessExecutor(jobs=2), seeds=1, jobs=2)
    assert (outcome.runs, outcome.finished) == (2, 1)
    ((path, reason),) = outcome.failures.items()
    assert path == broken
    assert "Is a directory" in reason
    assert reason in (broken / "log.txt").read_text()


@pytest.mark.slow
def test_a_stop_becomes_a_checkpoint_and_a_second_one_a_kill(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("one", "two", "never")]
    for path in paths:
        RunFolder.create(path, ENDLESS)
    for wanted in (Stop.GENTLY, Stop.NOW):
        stop = [Stop.NO]
        events = []
        goal = max(map(env_steps_so_far, paths)) + 1000
        for event in ProcessExecutor(jobs=2).execute(paths, lambda stop=stop: stop[0]):  # type: ignore[misc]
            events.append(event)
            if all(env_steps_so_far(path) > goal for path in paths[:2]):
                stop[0] = wanted
        assert endings(events) == {"one": "interrupted", "two": "interrupted"}
        for path in paths[:2]:
            summary = RunFolder.open(path).summary()
            assert summary is not None
            assert not summary["finished"]
            if wanted is Stop.GENTLY:
                assert list((path / "checkpoint").glob("env-steps-*"))
    assert not (paths[2] / "log.txt").exists()


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from experiment_helpers import SCALE, TOY, planned
from revalued.cli.experiment_runs import FanOut, train_all
from revalued.experiments.ledger import Ledger
sys.exit(train_all([Ledger(TOY, SCALE, planned(), Path({out!r}))], FanOut(jobs=2), ["reproduce", "toy"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_everything_and_the_same_command_goes_on(number: int, alone: Path, tmp_path: Path) -> None:
    script = SCRIPT.format(tests=str(Path(__file__).parent), out=str(tmp_path))
    arguments = [sys.executable, "-c", script]
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert wait_for(lambda: len(list(tmp_path.glob("runs/*/*/log.txt"))) >= 2, process)
        process.send_signal(number)
        output, errors = process.communicate(timeout=DEADLINE_SECONDS)
        assert process.returncode == 128 + number
        assert "runs not finished; go on with the same command: revalued reproduce toy" in errors
        assert output == ""
        assert left_in_group(process.pid) == []
    finally:
        end(process)
    provenance = json.loads((tmp_path / "toy" / "provenance.json").read_text())
    assert {run["status"] for run in provenance["runs"]} != {"finished"}
    again = subprocess.run(arguments, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert again.returncode == 0, again.stderr
    assert again.stdout == f"4 runs finished; results in {tmp_path / 'toy' / 'results.csv'}\n"
    assert "finished: " in again.stderr
    assert read_csv(tmp_path / "toy" / "results.csv") == read_csv(alone / "toy" / "results.csv")


@pytest.mark.slow
def test_nothing_is_left_running_when_the_caller_gives_up(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", ENDLESS)
    events = ProcessExecutor(jobs=1).execute([tmp_path / "run"], lambda: Stop.NO)
    assert next(events).kind == "started"
    events.close()  # type: ignore[attr-defined]
    with RunFolder.open(tmp_path / "run").locked():  # nobody holds it any more
        assert env_steps_so_far(tmp_path / "run") >= 0


def test_progress_is_read_from_the_end_of_the_table(tmp_path: Path) -> None:
    assert env_steps_so_far(tmp_path) == 0
    folder = RunFolder.create(tmp_path / "run", ENDLESS)
    assert env_steps_so_far(folder.path) == 0
    for updates in range(300):
        folder.metric_table.add({"updates": updates, "env_steps": 5 * updates, "loss": 0.123456789012345})
    assert env_steps_so_far(folder.path) == 1495
    with folder.metric_table.path.open("a") as file:
        file.write("300,15")  # a row that is being written
    assert env_steps_so_far(folder.path) == 1495


def test_last_words_since_the_last_start(tmp_path: Path) -> None:
    assert last_log_line(tmp_path) == ""
    begin_log(tmp_path)
    assert last_log_line(tmp_path) == ""
    with (tmp_path / "log.txt").open("a") as log:
        log.write("warning: something\nrevalued: no space left\n\n")
    assert last_log_line(tmp_path) == "revalued: no space left"
    begin_log(tmp_path)
    assert last_log_line(tmp_path) == ""
