"""Section `peers`: updates of other libraries, in an environment of their own, alternating with ours."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from benchmarks.measures import paired_ratio, summarise
from benchmarks.processes import ROOT, Timed, alternate
from benchmarks.report import Figure, Report
from benchmarks.sizes import Size, task_size

PYTHON = ROOT / ".venv-peers" / "bin" / "python"
NAMES = {"tianshou": "Tianshou 2.0.1, BDQN", "stable-baselines3": "Stable-Baselines3 2.9.2, DQN"}
DIFFERENCES = [
    "one update with all that belongs to it: sample 256 transitions, gradient step, new priorities where there are any",
    "ours: decqn, 3-step returns, prioritised replay, residual block, LayerNorm, clipped gradient, target moved",
    "ours as revalued: the same with 10 critics and the regulariser, which neither peer has",
    "Tianshou: BDQ with dueling branches, 1-step, prioritised, double Q by three passes over s', squared error,",
    "  no LayerNorm, no clipping, target copied every 500 updates; three hidden layers as ours, branches of one layer",
    "Stable-Baselines3: one output per joint action (3^6 = 729; impossible for dog), 3-step, uniform replay,",
    "  no LayerNorm, clipped gradient, three hidden layers; its target network moves outside of what is timed here",
]


def measure(*, quick: bool) -> Report:
    """Time peers at walker sizes, and Tianshou at dog sizes; without their environment, say how to get it."""
    columns = ["task", "library", "update ms", "lower quartile", "upper quartile", "ours ms", "times ours"]
    report = Report("peers", "Other libraries, one critic, batch 256, hidden 512, all cores", columns)
    if not PYTHON.exists():
        report.skipped = True
        report.notes = ["peers: skipped, .venv-peers is missing; `make bench-peers` makes it"]
        return report
    capacity = 5_000 if quick else 50_000
    for task, libraries in (("walker", ["tianshou", "stable-baselines3"]), ("dog", ["tianshou"])):
        _compare(report, task, libraries, capacity, quick=quick)
    report.notes = DIFFERENCES
    return report


def _compare(report: Report, task: str, libraries: list[str], capacity: int, *, quick: bool) -> None:
    decqn, revalued = task_size(task, critics=1, beta=0.0), task_size(task)
    with ExitStack() as stack:
        ours = {name: stack.enter_context(Timed("benchmarks.timed_updates")) for name in ("decqn", "revalued, K = 10")}
        peers = {name: stack.enter_context(Timed("benchmarks.timed_peers", PYTHON)) for name in libraries}
        seconds = {
            name: process.prepare(kind="replay", size=size.to_dict(), capacity=capacity)
            for (name, process), size in zip(ours.items(), (decqn, revalued), strict=True)
        }
        for name, process in peers.items():
            seconds[name] = process.prepare(library=name, capacity=capacity, **_sizes(decqn))
        rounds, budget = (2, 0.1) if quick else (5, 0.3)
        times = alternate({**ours, **peers}, rounds, seconds, budget, check=not quick)
    samples = {name: summarise([1000 * t for listed in found for t in listed]) for name, found in times.items()}
    for name, sample in samples.items():
        ratio = paired_ratio(times[name], times["decqn"]).median
        label = NAMES.get(name, f"ours, {name}")
        quartiles = {"lower quartile": sample.lower_quartile, "upper quartile": sample.upper_quartile}
        own = samples["decqn"].median
        row = {"task": task, "library": label, "update ms": sample.median, **quartiles, "ours ms": own}
        report.rows.append({**row, "times ours": ratio})
        if name in peers:
            report.figures.append(
                Figure(f"decqn update with replay, {task}, against {label}", own, "ms", sample.median, 1 / ratio)
            )


def _sizes(size: Size) -> dict[str, Any]:
    return {
        "observation_size": size.observation_size,
        "num_dimensions": size.num_dimensions,
        "bins": size.bins,
    }
