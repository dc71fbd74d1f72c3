"""A short slice of the campaign, with fixed seeds: real processes, damaged, killed and misled."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def campaign(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "campaign", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.parametrize(
    ("seed", "attempts"),
    [(1, 25), pytest.param(2, 250, marks=pytest.mark.slow), pytest.param(3, 250, marks=pytest.mark.slow)],
)
def test_nothing_breaks(seed: int, attempts: int) -> None:
    done = campaign("--seed", str(seed), "--attempts", str(attempts), "--minutes", "9")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"^{attempts} passed, 0 failed$", done.stdout, re.MULTILINE), done.stdout
    assert done.stdout.endswith(f"the next ones: --seed {seed} --start {attempts}\n")


def test_a_fault_would_be_seen(tmp_path: Path) -> None:
    """A command that writes a traceback, or runs a stranger's code, fails the campaign."""
    program = f"""
import os, time
from pathlib import Path
from campaign.processes import Child
from campaign.verdicts import CANARY, judge

folder = Path({str(tmp_path)!r})

def verdict(work, seconds=30):
    return judge(Child(work, folder).wait(seconds), "an attempt", folder).verdict.name

print(verdict(lambda: 1 // 0), verdict(lambda: 2), verdict(lambda: time.sleep(60), 0.3))
print(verdict(lambda: os.kill(os.getpid(), 11)))
(folder / CANARY).write_text("run")
print(verdict(lambda: 0))
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["TRACEBACK", "UNCLEAR", "HANG", "CRASH", "CODE_RUN"]
