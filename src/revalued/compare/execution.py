"""Runs of a comparison as processes, some at a time; a finished one is reported whole, an unfinished one not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from revalued.compare.contestants import CONTESTANTS, Contestant
from revalued.compare.meter import COLUMNS, RunOrder
from revalued.compare.result_table import RunKey, read_rows
from revalued.envs.suites.problems import PREFIX, PROBLEMS
from revalued.errors import UserError

_LIBRARIES = {"sb3": "stable_baselines3", "branching": "tianshou"}
_POLL_SECONDS, _PATIENCE_SECONDS = 0.2, 10.0
_FIND = """
import importlib.metadata, importlib.util, json, sys
names = importlib.metadata.packages_distributions()
print(json.dumps({
    module: importlib.metadata.version(names[module][0]) if module in names else "unknown"
    for module in sys.argv[1:] if importlib.util.find_spec(module) is not None
}))
"""


@dataclass(frozen=True)
class Ended:
    """A run that has ended: with rows, or with the reason why it has none."""

    key: RunKey
    rows: list[dict[str, str]]
    failure: str | None = None


def peers_python(peers: Path) -> Path:
    """Return the interpreter of the peers' environment."""
    return peers.absolute() / "bin" / "python"  # not resolved: the link is what makes it an environment


def require_peers(names: Sequence[str], peers: Path, task: str) -> dict[str, str]:
    """Return the versions of what the peers use; say in one line what is missing in their environment."""
    needed = [CONTESTANTS[name] for name in names if CONTESTANTS[name].is_peer]
    if not needed:
        return {}
    python = peers_python(peers)
    who = ", ".join(name for name in names if CONTESTANTS[name].is_peer)
    if not python.exists():
        raise UserError(f"{who} would run in {peers}, which is not there: 'make bench-peers' makes it (or --peers DIR)")
    modules = {"revalued", *(_LIBRARIES[contestant.module] for contestant in needed)}
    problem = PROBLEMS.get(task.removeprefix(PREFIX)) if task.startswith(PREFIX) else None
    if problem is not None:
        modules.add(problem.package)
    command = [str(python), "-c", _FIND, *sorted(modules)]
    try:
        # from elsewhere: a folder of that name here is not the module
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=60, cwd=tempfile.gettempdir()
        )
        found: dict[str, str] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise UserError(f"{python} cannot be used: {str(error).partition(chr(10))[0]}") from error
    missing = sorted(modules - found.keys())
    if missing:
        raise UserError(f"{peers} lacks {', '.join(missing)}: 'make bench-peers' installs all that the peers need")
    return found


def execute(
    runs: Sequence[RunKey],
    order: Callable[[RunKey, str], RunOrder],
    *,
    peers: Path,
    jobs: int,
    started: Callable[[RunKey], None],
    stop: Callable[[], bool],
) -> Iterator[Ended]:
    """Carry out runs, `jobs` at a time, until `stop`; whatever makes the iteration end, no process is left."""
    waiting = iter(runs)
    running: dict[RunKey, subprocess.Popen[bytes]] = {}
    with tempfile.TemporaryDirectory(prefix="revalued-compare-") as scratch:
        try:
            while True:
                while len(running) < jobs and not stop() and (key := next(waiting, None)) is not None:
                    running[key] = _launch(Path(scratch), key, order, peers)
                    started(key)
                if not running:
                    return
                time.sleep(_POLL_SECONDS)
                if stop():  # what has ended in the meantime was interrupted as well
                    return
                for key, process in list(running.items()):
                    if process.poll() is not None:
                        del running[key]
                        yield _ended(Path(scratch), key, process.returncode)
        finally:
            _end(list(running.values()))


def _launch(
    scratch: Path, key: RunKey, order: Callable[[RunKey, str], RunOrder], peers: Path
) -> subprocess.Popen[bytes]:
    contestant: Contestant = CONTESTANTS[key.contestant]
    table, log, told = (_file(scratch, key, kind) for kind in ("csv", "log", "json"))
    given = order(key, str(table))
    given.write(told)
    python = peers_python(peers) if contestant.is_peer else Path(sys.executable)
    command = [str(python), "-m", f"revalued.compare.learners.{contestant.module}", str(told)]
    threads = {name: str(given.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    with log.open("wb") as file:
        environment = {**os.environ, **threads, "PYTHONSAFEPATH": "1"}
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment)


def _ended(scratch: Path, key: RunKey, code: int) -> Ended:
    if code != 0:
        lines = _file(scratch, key, "log").read_text(errors="replace").strip().splitlines()
        return Ended(key, [], f"ended with code {code}: {lines[-1][:300] if lines else 'it said nothing'}")
    rows = read_rows(_file(scratch, key, "csv"), COLUMNS)
    return Ended(key, rows, None if rows else "it wrote no results")


def _file(scratch: Path, key: RunKey, kind: str) -> Path:
    return scratch / f"{key.contestant}-{key.setting}-{key.seed}-{key.share}.{kind}"


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
