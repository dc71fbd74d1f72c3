"""The clock of `revalued compare --clock cpu`: what counts as work, and whose."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from revalued.compare.core_clock import CoreClock, _work

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
_PATIENCE_SECONDS = 60.0
BUSY = "import time\nwhile time.process_time() < {}: pass\nprint(flush=True)\n"


def start(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def has_said_something(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    process.stdout.readline()


def end(process: subprocess.Popen[bytes]) -> None:
    process.communicate(timeout=_PATIENCE_SECONDS)


def test_own_work_counts_and_sleep_does_not() -> None:
    clock = CoreClock()
    began, worked = clock.exactly(), time.process_time()
    time.sleep(0.3)
    while time.process_time() - worked < 0.2:
        pass
    others = clock._others
    assert clock.exactly() - began == pytest.approx(time.process_time() - worked, abs=0.02 + clock._others - others)


@needs_proc
@pytest.mark.parametrize("wrapped", [False, True], ids=["child", "child of a child"])
def test_a_process_that_works_counts_while_it_lives_and_after_it_has_ended(wrapped: bool) -> None:
    code = BUSY.format(0.3) + "input()"
    if wrapped:
        code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {code!r}], check=True)"
    clock = CoreClock()
    began, own = clock.exactly(), time.process_time()
    process = start(code)
    has_said_something(process)
    alive = clock.exactly() - began - (time.process_time() - own)
    assert alive >= 0.25  # in ticks of a hundredth, on a machine with its own idea of time
    process.communicate(b"\n", timeout=_PATIENCE_SECONDS)
    after = clock.exactly() - began - (time.process_time() - own)
    assert after >= alive - 0.05  # nothing is lost when it ends


@needs_proc
def test_other_processes_are_read_now_and_then_only(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []

    def nobody(process: str) -> list[str]:
        reads.append(process)
        return []

    clock = CoreClock()
    clock.exactly()
    monkeypatch.setattr("revalued.compare.core_clock._children", nobody)
    now = [1e9]
    monkeypatch.setattr("revalued.compare.core_clock.time.monotonic", lambda: now[0])
    for _ in range(50):
        clock()
    assert len(reads) == 1
    now[0] += 1.0
    clock()
    assert len(reads) == 2
    clock.exactly()
    assert len(reads) == 3


def test_a_process_that_has_gone_and_a_machine_without_proc_are_no_trouble(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    process = start("pass")
    end(process)
    assert _work(str(process.pid)) == 0.0
    monkeypatch.setattr("revalued.compare.core_clock._PROCESSES", tmp_path)
    assert CoreClock().exactly() >= time.process_time() - 1.0


@needs_proc
def test_a_name_with_brackets_and_spaces_is_read_rightly(tmp_path: Path) -> None:
    odd = tmp_path / "a) b (c 1 2 3"
    odd.symlink_to(os.path.realpath(sys.executable))
    process = subprocess.Popen([odd, "-c", BUSY.format(0.1) + "input()"], stdin=-1, stdout=-1)
    has_said_something(process)
    assert 0.05 <= _work(str(process.pid)) < 30.0
    process.communicate(b"\n", timeout=_PATIENCE_SECONDS)
