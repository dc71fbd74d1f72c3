"""Section `latency`: time of one greedy decision on a CPU, the agent itself against its exported policy.

Run as a program, this file is also the process in which either is timed; see `processes`.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch

from benchmarks.measures import paired_ratio, summarise
from benchmarks.processes import Timed, alternate, serve
from benchmarks.report import Figure, Report
from benchmarks.sizes import LEAN, Size, task_size
from revalued.acting.policy import Policy
from revalued.envs.spaces.choice_table import ActionPart, ChoiceTable
from revalued.native.choice import native_critics
from revalued.networks import initialise

COLUMNS = [
    "task", "K", "H", "batch", "agent ms", "agent-2 ms", "onnx-1 ms", "onnx-2 ms", "fastest onnx", "agent / onnx",
]  # fmt: skip
KINDS = ("agent", "agent-2", "onnx-1", "onnx-2")
"""The agent with one and two threads, onnxruntime with one and two threads."""
ROUNDS, BUDGET_SECONDS = 5, 0.2
QUICK_ROUNDS, QUICK_BUDGET_SECONDS = 2, 0.02


def measure(*, quick: bool) -> Report:
    """Measure batches of 1, 16 and 256 at walker and dog sizes, with 1 and 10 critics and the lean ensemble."""
    report = Report("latency", "One greedy decision on a CPU", COLUMNS)
    missing = [name for name in ("onnx", "onnxruntime") if importlib.util.find_spec(name) is None]
    if missing:
        report.skipped, report.notes = True, [f"skipped: {' and '.join(missing)} not installed"]
        return report
    rounds, budget = (QUICK_ROUNDS, QUICK_BUDGET_SECONDS) if quick else (ROUNDS, BUDGET_SECONDS)
    with ExitStack() as stack:
        rivals = {kind: stack.enter_context(Timed("benchmarks.latency")) for kind in KINDS}
        for task in ("walker", "dog"):
            for critics, hidden in ((1, 512), (10, 512), LEAN):
                for batch in (1, 16, 256):
                    size = task_size(task, critics=critics, hidden_size=hidden, batch_size=batch)
                    seconds = {kind: rival.prepare(kind=kind, size=size.to_dict()) for kind, rival in rivals.items()}
                    times = alternate(rivals, rounds, seconds, budget, check=not quick)
                    _add(report, task, size, times)
    report.notes = [
        "agent: Policy.greedy with one thread, agent-2 with two; onnx: the file of `revalued export` in onnxruntime,",
        "with one and two threads; observations in, sub-actions out. Ratio and quartiles: faster agent, faster onnx.",
    ]
    return report


def _add(report: Report, task: str, size: Size, times: dict[str, list[list[float]]]) -> None:
    """Add the row and the figure of one size."""
    samples = {
        kind: summarise([1000 * value for listed in rounds for value in listed]) for kind, rounds in times.items()
    }
    agent = min(("agent", "agent-2"), key=lambda kind: samples[kind].median)
    best = min(("onnx-1", "onnx-2"), key=lambda kind: samples[kind].median)
    ratio = paired_ratio(times[agent], times[best])
    report.rows.append(
        {
            "task": task, "K": size.critics, "H": size.hidden_size, "batch": size.batch_size, "size": size.to_dict(),
            **{f"{kind} ms": sample.median for kind, sample in samples.items()},
            "quartiles ms": {kind: [sample.lower_quartile, sample.upper_quartile] for kind, sample in samples.items()},
            "fastest onnx": best, "ratio": ratio.median,
            "ratio quartiles": [ratio.lower_quartile, ratio.upper_quartile], "agent / onnx": str(ratio),
        }
    )  # fmt: skip
    shape = f"K = {size.critics}, H = {size.hidden_size}, batch {size.batch_size}"
    name = f"greedy decision, {task}, {shape}: onnx, reference is the agent"
    report.figures.append(Figure(name, samples[best].median, "ms", samples[agent].median, 1 / ratio.median))


def prepare(what: dict[str, Any]) -> Callable[[], object]:
    """Return one decision for a batch of observations, made in the way asked for."""
    size, kind = Size(**what["size"]), what["kind"]
    parameters = initialise(size.shape, torch.Generator().manual_seed(0), torch.device("cpu"))
    policy = Policy(size.shape, parameters, None, native_critics("auto", size.shape, parameters))
    observations = np.random.default_rng(0).standard_normal((size.batch_size, size.observation_size), np.float32)
    threads = 2 if kind.endswith("2") else 1
    if kind.startswith("agent"):
        torch.set_num_threads(threads)
        return lambda: policy.greedy(observations)
    session = make_session(policy, threads)
    return lambda: session.run(["sub_actions"], {"observation": observations})


def make_session(policy: Policy, threads: int) -> Any:
    """Return the exported policy, loaded by onnxruntime."""
    onnxruntime: Any = importlib.import_module("onnxruntime")
    from revalued.export import policy_model

    sizes = policy.shape.actions.sizes
    table = np.linspace(-1.0, 1.0, policy.shape.actions.max_choices) * np.ones((len(sizes), 1))
    choices = ChoiceTable(tuple(map(str, range(len(sizes)))), sizes, (ActionPart("", 0, (len(sizes),), table),))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(policy_model(policy, choices).SerializeToString(), options)


if __name__ == "__main__":
    serve(prepare)
