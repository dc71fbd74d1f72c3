"""The command line: what it accepts, what it refuses in one line, and what it prints."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import revalued
from revalued.algorithms.presets import PRESETS
from revalued.cli import main
from revalued.learner.learner import Learner
from revalued.run.folder import RunFolder
from revalued.run.start import start
from run_helpers import call, command, flags_of, newest, quick_config, rows, stop_after, train

TINY = [*flags_of(quick_config("toy-levers", env_steps=200)), "--eval-every", "10"]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(quick_config("toy-levers"), tmp_path_factory.mktemp("cli") / "run")


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Call what is a mistake; return the one line that says so."""
    assert main(list(map(str, arguments))) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("revalued: ")
    return line


def shown(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Call what only prints; return what it prints."""
    try:
        code = main(list(map(str, arguments)))
    except SystemExit as ending:  # how --help of a command ends
        code = ending.code if isinstance(ending.code, int) else 1
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "--version") == f"revalued {revalued.__version__}\n"
    for flag in ("--help", "-h", "help"):
        usage = shown(capsys, flag)
        assert all(command in usage for command in ("train", "resume", "evaluate", "list"))
    assert main([]) == 2


def test_lists(capsys: pytest.CaptureFixture[str]) -> None:
    algos = shown(capsys, "list", "algos")
    assert [line.split()[0] for line in algos.splitlines()] == list(PRESETS)
    tasks = shown(capsys, "list", "tasks").splitlines()
    assert {"walker-walk", "humanoid-run", "toy-levers"} <= set(tasks)
    everything = shown(capsys, "list")
    assert algos in everything
    assert everything.splitlines()[-len(tasks) :] == tasks


@pytest.mark.parametrize("name", ["train", "resume", "evaluate", "list"])
def test_help_of_every_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"usage: revalued {name}" in shown(capsys, name, "--help")


def default_of(flag: str, text: str) -> str:
    """Return the default that a help text gives for a flag, however its lines are broken."""
    words = " ".join(re.sub(r"[│╭╮╰╯─]", " ", text).split())
    found = re.search(re.escape(flag) + r" .*?\(default: (.*?)\)", words)
    assert found, flag
    return found[1]


def test_help_shows_the_defaults_of_the_preset(capsys: pytest.CaptureFixture[str]) -> None:
    revalued_help = shown(capsys, "train", "--help")
    assert default_of("--critics", revalued_help) == "10"
    assert default_of("--beta", revalued_help) == "0.5"
    assert default_of("--algo", revalued_help) == "revalued"
    bdq_help = shown(capsys, "train", "--algo=bdq", "--help")
    assert default_of("--critics", bdq_help) == "1"
    assert default_of("--head", bdq_help) == "dueling"
    assert default_of("--algo", bdq_help) == "bdq"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["trian"], "did you mean train"),
        (["train", "walker-wlak"], "did you mean walker-walk"),
        (["train", "toy-levers", "--algo", "revalue"], "did you mean revalued"),
        (["train", "toy-levers", "--algo=bqd"], "did you mean bdq"),
        (["train", "toy-levers", "--algo"], "--algo needs a value"),
        (["train", "toy-levers", "--hiden-size", "3"], "did you mean --hidden-size"),
        (["train", "--critic=3", "toy-levers"], "did you mean --critics"),
        (["train", "toy-levers", "--no-priorised"], "did you mean"),
        (["resume", "run", "--env-step", "3"], "did you mean --env-steps"),
        (["evaluate", "run", "--episode", "3"], "did you mean --episodes"),
        (["train", "toy-levers", "more"], "no further argument 'more'"),
        (["train", "toy-levers", "-x"], "'-x'"),
        (["train"], "Task name"),
        (["resume"], "Folder of the run"),
        (["evaluate"], "Folder of the run"),
        (["train", "toy-levers", "--hidden-size", "wide"], "--hidden-size"),
        (["train", "toy-levers", "--hidden-size", "1.5"], "--hidden-size"),
        (["train", "toy-levers", "--hidden-size"], "--hidden-size"),
        (["train", "toy-levers", "--learning-rate", "fast"], "--learning-rate"),
        (["train", "toy-levers", "--head", "utility"], "--head"),
        (["resume", "run", "--env-steps", "many"], "--env-steps"),
        (["list", "algorithms"], "algos"),
        (["list", "algos", "tasks"], "no further argument"),
        (["resume", "nowhere"], "nowhere is no run folder"),
        (["evaluate", "nowhere"], "nowhere is no run folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_get_one_line(
    arguments: list[str], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert expected in refused(capsys, *arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--head", "categorical"], "decomposition"),
        (["--decomposition", "logit-mean"], "--head categorical"),
        (["--algo", "decqn-c51", "--beta", "0.5"], "--beta 0"),
        (["--algo", "decqn-c51", "--value-min", "3", "--value-max", "2"], "value_min"),
        (["--algo", "decqn-c51", "--atoms", "1"], "atoms"),
        (["--algo", "decqn-c51", "--discount", "1"], "--value-min and --value-max"),
        (["--critics", "0"], "critics"),
        (["--beta", "-1"], "beta"),
        (["--beta", "nan"], "beta"),
        (["--seed", "-1"], "seed"),
        (["--learning-rate", "0"], "learning_rate"),
        (["--learning-rate", "nan"], "learning_rate"),
        (["--env-steps", "0"], "env_steps"),
        (["--discount", "1.5"], "discount"),
        (["--replay-capacity", "10"], "replay_capacity"),
        (["--workers", "9"], "num_envs"),
        (["--device", "tpu"], "device"),
        (["--threads", "0"], "threads"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_work_is_refused_before_anything_is_written(
    flags: list[str], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert expected in refused(capsys, "train", "toy-levers", *flags)
    assert list(tmp_path.iterdir()) == []


def test_too_many_joint_actions_for_dqn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "factorised" in refused(capsys, "train", "humanoid-run", "--algo", "dqn")
    assert list(tmp_path.iterdir()) == []


def test_flags_override_presets(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--algo", "bdq", "--critics", "5", "--no-double-q", "--hidden_size", "16", "--no-prioritised"]
    assert main(["train", "toy-levers", *flags, "--env-steps", "5", "--out", "run", "--quiet"]) == 0
    config = RunFolder.open(Path("run")).config()
    assert (config.algo, config.algorithm.head, config.algorithm.critics) == ("bdq", "dueling", 5)
    assert config.algorithm.double_q is False
    assert config.learner.hidden_size == 16
    assert config.replay.prioritised is False
    assert capsys.readouterr() == ("", "")


def test_the_last_of_two_algorithms_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "toy-levers", "--algo", "bdq", "--algo=dqn", "--env-steps=5", "--out=run", "--quiet"]) == 0
    config = RunFolder.open(Path("run")).config()
    assert (config.algo, config.algorithm) == ("dqn", PRESETS["dqn"].algorithm)


def test_quiet_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *TINY, "--out", "run", "--quiet"]) == 0
    assert main(["resume", "run", "--env-steps", "250", "--quiet"]) == 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("task", "words", "is_told"),
    [("gym:CartPole-v1", [], True), ("gym:CartPole-v1", ["--algo", "dqn"], False), ("toy-levers", [], False)],
)
def test_who_brings_a_problem_and_names_no_algorithm_is_told_where_to_start(
    capsys: pytest.CaptureFixture[str], task: str, words: list[str], is_told: bool
) -> None:
    assert main(["train", task, *words, "--env-steps", "5", "--hidden-size", "8", "--out", "run"]) == 0
    assert (f"revalued check {task} tells" in capsys.readouterr().err) == is_told


def test_plain_lines_and_a_closing_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *TINY, "--out", "[old] run"]) == 0
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err
    title, folder, *lines = captured.err.splitlines()
    assert title.startswith("revalued on toy-levers: 3 dimensions of up to 5 choices, 2 critics")
    assert folder == "writing to [old] run"
    assert len(lines) == len(rows(Path("[old] run"), "eval.csv")) == 2
    for line in lines:
        assert re.search(r"[\d,]+/200 interactions · \d+ updates · [\d,]+ interactions/s · .*return \d+\.\d", line)
    summary = RunFolder.open(Path("[old] run")).summary()
    assert summary is not None
    for words in (f"final return {summary['final_return']:.1f}", "interactions 200", "updates 20", "folder [old] run"):
        assert words in re.sub(r"[│\s]+", " ", captured.out)


def test_the_default_folder(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert main(["train", *TINY, "--quiet", "--seed", "3"]) == 0
    folders = sorted(str(path.parent) for path in Path("runs").rglob("config.json"))
    assert folders == ["runs/toy-levers/revalued-seed3", "runs/toy-levers/revalued-seed3-2"]


def test_evaluate(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("evaluate", finished, "--episodes", "3", "--seed", "1", "--json")
    first = shown(capsys, *arguments)
    assert shown(capsys, *arguments) == first
    result = json.loads(first)
    assert (result["episodes"], result["seed"], result["dir"]) == (3, 1, str(finished))
    assert result["lengths"] == [10, 10, 10]
    assert result["mean_return"] == pytest.approx(sum(result["returns"]) / 3)
    other = json.loads(shown(capsys, "evaluate", finished, "--episodes", "3", "--seed", "2", "--json"))
    assert other["returns"] != result["returns"]
    text = shown(capsys, "evaluate", finished, "--episodes", "3", "--seed", "1")
    *episodes, mean = text.splitlines()
    assert [f"return {value:.2f}" in line for line, value in zip(episodes, result["returns"], strict=True)] == [
        True
    ] * 3
    assert f"mean return {result['mean_return']:.2f}" in mean
    one = json.loads(shown(capsys, "evaluate", finished, "--episodes", "1", "--json"))
    assert one["std_return"] == 0


def test_evaluating_changes_nothing(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    shown(capsys, "evaluate", finished, "--episodes", "1")
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before


def test_evaluate_refuses(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no run folder" in refused(capsys, "evaluate", tmp_path)
    assert "episodes" in refused(capsys, "evaluate", finished, "--episodes", "0")
    RunFolder.create(tmp_path / "new", RunFolder.open(finished).config())
    assert "no checkpoint" in refused(capsys, "evaluate", tmp_path / "new")


def test_resume_says_how_to_prolong(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "resume", finished)
    assert "finished after 350 interactions" in line
    assert "--env-steps" in line
    assert "--env-steps" in refused(capsys, "resume", finished, "--env-steps", "300")


def test_resume_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start(quick_config("toy-levers"), tmp_path / "run", should_stop=stop_after(30))
    assert "workers" in refused(capsys, "resume", tmp_path / "run", "--workers", "50")
    assert main(["resume", str(tmp_path / "run")]) == 0
    captured = capsys.readouterr()
    assert "final return" in captured.out
    assert captured.err.splitlines()[-1].startswith("350/350 interactions")
    assert newest(tmp_path / "run").meta["env_steps"] == 350


def test_diverging_ends_with_code_1_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*TINY, "--checkpoint-every", "5", "--learning-rate", "1e38", "--out", "run", "--quiet"]
    assert main(["train", *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert re.search(r"not finite.*checkpoints are kept in run/checkpoint", line)


def test_after_diverging_the_last_good_checkpoint_is_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    update = Learner.update

    def diverging(self: Learner, batch: object) -> object:
        if self.updates == 13:
            batch.returns[:] = float("inf")  # type: ignore[attr-defined]
        return update(self, batch)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "update", diverging)
        assert main(["train", *TINY, "--checkpoint-every", "5", "--out", "run", "--quiet"]) == 1
    assert "not finite" in capsys.readouterr().err
    assert newest(Path("run")).meta["updates"] == 10
    assert json.loads(shown(capsys, "evaluate", "run", "--episodes", "1", "--json"))["episodes"] == 1
    assert main(["resume", "run", "--quiet"]) == 0


def test_a_folder_that_cannot_be_made(capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("")
    assert main(["train", *TINY, "--out", "file/run", "--quiet"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "file/run" in line


NO_TORCH = """
import sys
from revalued.cli import main
for arguments in (["--help"], ["--version"], ["list", "algos"], ["list", "tasks"], ["train", "--help"], ["trian"],
                  ["train", "toy-levers", "--hiden-size", "3"], ["train", "toy-levers", "--hidden-size", "x"],
                  ["train", "toy-leavers"], ["train", "toy-levers", "--critics", "0"],
                  ["train", "toy-levers", "--out", "."]):
    try:
        main(arguments)
    except SystemExit:
        pass
    assert "torch" not in sys.modules, arguments
print("done")
"""


def test_answers_that_need_no_torch_do_not_wait_for_it(tmp_path: Path) -> None:
    (tmp_path / "something").write_text("")
    result = subprocess.run([sys.executable, "-c", NO_TORCH], capture_output=True, text=True, timeout=120)
    assert result.stdout.endswith("done\n"), result.stderr


def test_a_reader_that_has_seen_enough() -> None:
    """As in `revalued list tasks | head -1`."""
    process = subprocess.Popen(command("list", "tasks"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    process.wait()


def test_python_m_revalued() -> None:
    result = call("--version")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"revalued {revalued.__version__}\n", "")


def read_all(descriptor: int) -> str:
    """Read from a pseudo-terminal until the other side is closed."""
    output = b""
    while True:
        try:
            block = os.read(descriptor, 4096)
        except OSError:  # how Linux says that nobody holds the other side
            block = b""
        if not block:
            return output.decode()
        output += block


def test_a_live_bar_on_a_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "140", "LINES": "40"}
    environment.pop("NO_COLOR", None)
    arguments = command("train", *TINY, "--env-steps", "1500", "--out", "run")
    process = subprocess.Popen(arguments, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    output = read_all(ours)
    os.close(ours)
    assert process.wait() == 0, output
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output)
    assert re.search(r"training .*1500/1500 [\d,]+/s · return \d+\.\d · best \d+\.\d", plain), plain
    assert "final return" in plain
    assert "writing to run" in plain
    assert output.rfind("\x1b[?25h") > output.rfind("\x1b[?25l"), "the cursor is visible again"
