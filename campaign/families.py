"""The kinds of attempts, each a function of a folder to work in, the sound runs, and random numbers."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.random import Generator

from campaign.bases import QUICK, RUN, SECONDS, difference
from campaign.environments import AFTER, DEATH, WAYS
from campaign.mutations import mutate, sign
from campaign.processes import start
from campaign.verdicts import CANARY, Result, Verdict, judge

Attempt = Callable[[Path, Path, Generator], Result]

EVIL = f"from pathlib import Path\nPath({CANARY!r}).write_text('run')\n"
LIMIT_SECONDS = 60.0
"""No attempt may take longer: all of them are a second of work or less."""


def damage(folder: Path, bases: Path, rng: Generator) -> Result:
    """Damage files of a run, then ask for something."""
    run = folder / "run"
    shutil.copytree(bases / str(rng.choice(["whole", "stopped"])), run)
    (folder / "evil_mod.py").write_text(EVIL)
    (run / "evil_mod.py").write_text(EVIL)
    told = []
    for _ in range(int(rng.integers(1, 4))):
        files = sorted(path for path in run.rglob("*") if path.is_file() and path.suffix != ".py")
        if files:
            path = files[int(rng.integers(len(files)))]
            told.append(f"{path.relative_to(run)}: {mutate(path, rng)}")
    if rng.random() < 0.8:
        for checkpoint in (run / "checkpoint").glob("env-steps-*"):
            sign(checkpoint)
    before = _rows(run / "eval.csv")
    command = _command(rng)
    ended = start(command, folder).wait(LIMIT_SECONDS)
    result = judge(ended, f"{' '.join(command)} after {'; '.join(told)}", folder)
    if result.verdict is Verdict.REFUSED and _rows(run / "eval.csv") < before:
        return dataclasses.replace(result, verdict=Verdict.LOST, seen=f"rows of eval.csv are gone; {result.seen}")
    return result


def _rows(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.is_file() and not path.is_symlink() else 0


def _command(rng: Generator) -> list[str]:
    commands = (
        ["evaluate", "run", "--episodes", "1"],
        ["evaluate", "run", "--episodes", "1", "--json"],
        ["resume", "run", "--quiet"],
        ["resume", "run", "--quiet", "--env-steps", "320"],
        ["export", "run", "policy.onnx"],
        ["inspect", "run", "-o", "page.html"],
    )
    return commands[int(rng.choice(6, p=[0.27, 0.1, 0.2, 0.31, 0.1, 0.02]))]  # a page takes seconds to draw


def results(folder: Path, bases: Path, rng: Generator) -> Result:
    """Damage what experiments left behind, then ask for a report, or for what is left to do."""
    published = Path(__file__).parents[1] / "results"
    for name in ("first-main", "first-regulariser-reduction", "theorems", "tabular"):
        for file in ("provenance.json", "results.csv"):
            (folder / "results" / name).mkdir(parents=True, exist_ok=True)
            shutil.copy(published / name / file, folder / "results" / name / file)
    told = []
    for _ in range(int(rng.integers(1, 4))):
        files = sorted(path for path in (folder / "results").rglob("*") if path.is_file())
        path = files[int(rng.integers(len(files)))]
        told.append(f"{path.relative_to(folder)}: {mutate(path, rng)}")
    commands = (
        ["report", "results", "--markdown"],
        ["reproduce", "main", "--scale", "laptop", "--dry-run", "--out", "results"],
        ["reproduce", "theorems", "--scale", "paper", "--out", "results", "--quiet"],
    )
    command = commands[int(rng.choice(3, p=[0.5, 0.4, 0.1]))]
    ended = start(command, folder).wait(LIMIT_SECONDS)
    return judge(ended, f"{' '.join(command)} after {'; '.join(told)}", folder)


def flags(folder: Path, bases: Path, rng: Generator) -> Result:
    """Train with flags that nobody should give."""
    from revalued.cli.parsing import flags as flags_of
    from revalued.config import TrainConfig

    # a large network or replay that fits into memory is no mistake, only slow; so is a long run
    known = [flag for flag in flags_of(TrainConfig) if flag not in ("--task", "--cluster", "--actors", "--device")]
    values = (
        "0", "-1", "1", "2", "3", "0.5", "1e9", "1e-9", "-0.0", "nan", "inf", "-inf", "1000000000", "100000", "9" * 20,
        "", " ", "x", "None", "true", "1,2", "0x10", "½", "../x", "mean", "sum", "categorical", "dueling", "atomic",
    )  # fmt: skip
    words = ["train", *RUN, "--env-steps", "100", "--out", "out"]
    told: list[str] = []
    for _ in range(int(rng.integers(1, 4))):
        told += [known[int(rng.integers(len(known)))], values[int(rng.integers(len(values)))]]
    if _is_long(told):
        told = ["--critics", "0"]
    ended = start([*words, *told], folder).wait(LIMIT_SECONDS)
    result = judge(ended, " ".join(told), folder)
    if result.verdict is Verdict.REFUSED and ended.code == 2 and (folder / "out").exists():
        return dataclasses.replace(result, verdict=Verdict.LOST, seen=f"a refused start left a folder; {result.seen}")
    return result


def _is_long(told: list[str]) -> bool:
    """Tell whether a run with these flags would rightly take long."""
    given = dict(zip(told[::2], told[1::2], strict=True))
    long = {
        "--env-steps": ("1e9", "1000000000", "100000"),
        "--eval-episodes": ("1000000000", "100000"),
        "--critics": ("100000",),  # works, with 1.5 GB in every checkpoint
    }
    return any(given.get(flag) in values for flag, values in long.items())


def environments(folder: Path, bases: Path, rng: Generator) -> Result:
    """Train in an environment that misbehaves."""
    way, after = str(rng.choice(list(WAYS))), int(rng.choice(AFTER))
    workers = str(int(rng.integers(3)))
    task = f"gym:campaign.environments:campaign/{way}-{after}-v0"
    words = ["train", task, *QUICK, "--env-steps", "200", "--workers", workers, "--out", "out"]
    words += ["--max-eval-steps", "1000"]
    child = start(words, folder)
    if way == "block":  # nothing can help it; but it must be possible to stop, and nobody may be left behind
        time.sleep(float(rng.uniform(0.5, 2.0)))
        for number in rng.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL], size=2):
            child.signal(int(number))
            time.sleep(0.2)
        child.signal(signal.SIGKILL)
    ended = child.wait(LIMIT_SECONDS)
    attempt = f"{task} with {workers} workers"
    is_beyond_help = way == "block" or (way == "die" and ended.code == DEATH)  # it took the whole process with it
    if is_beyond_help and not ended.was_hanging and not ended.left_behind:
        return Result(Verdict.WORKED, attempt)
    return judge(ended, attempt, folder)


def kills(folder: Path, bases: Path, rng: Generator) -> Result:
    """Kill a run at random moments, again and again; at last it must equal one that was never killed."""
    told = []
    words: list[Any] = ["train", *RUN, "--out", "run"]
    with_workers = ["--workers", str(int(rng.integers(1, 3)))] if rng.random() < 0.3 else []
    for number in range(int(rng.integers(1, 5))):
        child = start([*words, *with_workers], folder, f"killed{number}")
        time.sleep(float(rng.uniform(0.02, 1.0)))
        for _ in range(int(rng.integers(1, 4))):
            sent = int(rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
            told.append(signal.Signals(sent).name)
            child.signal(sent)
            time.sleep(float(rng.uniform(0, 0.05)))
        ended = child.wait(LIMIT_SECONDS)
        attempt = f"{' '.join(told)} {' '.join(with_workers)}"
        if ended.was_hanging or ended.left_behind or "Traceback" in ended.errors:
            return judge(ended, attempt, folder)
        if (folder / "run" / "config.json").exists():
            words = ["resume", "run", "--quiet"]
            if _is_finished(folder / "run"):
                break
            if not any((folder / "run" / "checkpoint").glob("env-steps-*")):
                words.append("--restart")
    if not _is_finished(folder / "run"):
        ended = start(words, folder, "last").wait(SECONDS)
        if ended.code != 0:
            return judge(ended, attempt, folder)
    found = difference(bases / "whole", folder / "run", folder)
    return Result(Verdict.BITS if found else Verdict.WORKED, attempt, found)


def _is_finished(run: Path) -> bool:
    summary = run / "summary.json"
    return summary.is_file() and '"finished": true' in summary.read_text()


def together(folder: Path, bases: Path, rng: Generator) -> Result:
    """Ask for two things in the same folder at once."""
    run = folder / "run"
    shutil.copytree(bases / "stopped", run)
    choices = (
        ["resume", "run", "--quiet"],
        ["evaluate", "run", "--episodes", "3"],
        ["export", "run", f"policy{rng.integers(2)}.onnx"],
        ["train", *RUN, "--out", "run"],
    )
    pair = [choices[0], choices[int(rng.integers(len(choices)))]]
    children = []
    for number, words in enumerate(pair):
        children.append(start(words, folder, f"one{number}"))
        time.sleep(float(rng.uniform(0, 0.3)))
    attempt = " beside ".join(" ".join(words[:2]) for words in pair)
    for child in children:
        result = judge(child.wait(LIMIT_SECONDS), attempt, folder)
        if not result.verdict.is_good:
            return result
    found = difference(bases / "whole", run, folder)
    return Result(Verdict.BITS if found else Verdict.WORKED, attempt, found)


FAMILIES: dict[str, Attempt] = {
    "damage": damage,
    "flags": flags,
    "environments": environments,
    "kills": kills,
    "together": together,
    "results": results,
}
SHARES = {"damage": 14, "results": 2, "flags": 6, "environments": 2, "kills": 1, "together": 1}
"""How many attempts of each family there are in a round."""

os.environ.setdefault("PYTHONPATH", str(Path(__file__).parents[1]))  # workers import this package, too
