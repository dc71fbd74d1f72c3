"""Section `pipeline`: everything of a run that is not the update."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.measures import Sample, paired_ratio, summarise
from benchmarks.profile_run import profile
from benchmarks.report import Figure, Report
from benchmarks.sizes import LEAN, Size, filled_replay, make_learner, task_size
from revalued.envs import TaskSpec, make_env

NOT_OVERHEAD = ("update", "bare environment steps", "evaluation", "evaluation: bare steps", "checkpoint")
NUM_LANES, WIDE, LARGEST_CHOOSING = 5, 512, 1.2
STEPS_IN_TURN = 20  # of two environments whose steps are compared


def measure(*, quick: bool) -> Report:
    """Profile a run, then measure replay, environments and acting by themselves."""
    report = Report("pipeline", "Everything but the update", ["what", "value", "unit"])
    _profile(report, quick)
    _replay(report, quick)
    for task, target in (("walker", 1.15), ("dog", 1.05)):
        ratio, ours, bare = _wrapper(f"{task}-walk", rounds=3 if quick else 15, steps=100 if quick else 500)
        _add(report, f"environment step, {task}-walk", ours, "ms")
        _add(report, f"bare dm_control step, {task}-walk", bare, "ms")
        report.figures.append(
            Figure(f"environment step, {task}-walk, over dm_control's", ours, "ms", bare, ratio, target)
        )
    for critics in (1, 10):
        sample = _greedy(task_size("walker", critics=critics), repetitions=200 if quick else 3000)
        _add(report, f"greedy action for one observation, walker, K = {critics}", sample.median, "ms")
        report.figures.append(Figure(f"greedy action, walker, K = {critics}", sample.median, "ms"))
    for task in ("walker", "dog"):
        _choosing(report, task, repetitions=20 if quick else 500)
    return report


def _add(report: Report, what: str, value: float, unit: str) -> None:
    report.rows.append({"what": what, "value": value, "unit": unit})


def _profile(report: Report, quick: bool) -> None:
    updates, num_rounds = (200, 1) if quick else (4000, 3)
    fine, coarse = [], []
    for _ in range(num_rounds):
        coarse.append(_shares(profile(updates, coarse=True)))
        fine.append(_shares(profile(updates)))
    for name in sorted(fine[0], key=lambda name: -fine[0][name]):
        _add(report, f"share of a decqn run: {name}", summarise([share[name] for share in fine]).median, "%")
    with_evaluation = tuple(name for name in NOT_OVERHEAD if name != "evaluation")
    for name, left_out, target in (
        ("decqn run: all but update, bare steps and evaluation", NOT_OVERHEAD, 10.0),
        ("decqn run: all but update and bare steps", with_evaluation, None),
    ):
        overhead = summarise([sum(v for piece, v in share.items() if piece not in left_out) for share in coarse])
        report.figures.append(Figure(name, overhead.median, "%", target=target))
    report.notes.append("the run: decqn on walker-walk, 0 workers, ε at its minimum, 1 test episode per 1000 updates")
    report.notes.append("its checkpoint is left out: here it comes after a few thousand interactions, see `memory`")
    report.notes.append("the sums below are of runs with fewer timers than the shares above: timers cost time, too")


def _shares(seconds: dict[str, float]) -> dict[str, float]:
    """Return percentages of a run without its checkpoint."""
    total = sum(seconds.values()) - seconds["checkpoint"]
    return {name: 100 * value / total for name, value in seconds.items() if name != "checkpoint"}


def _replay(report: Report, quick: bool) -> None:
    size, rng = task_size("walker"), np.random.default_rng(0)
    rows = 50_000 if quick else 500_000
    replay = filled_replay(size, rows, rng)

    def sample_and_update() -> None:
        batch = replay.sample(size.batch_size, rng)
        replay.update_priorities(batch.rows, priorities)

    priorities = rng.exponential(size=size.batch_size).astype(np.float32)
    sample = _times(sample_and_update, 100 if quick else 3000)
    _add(report, f"replay: sample 256 of {rows:,} and update priorities", sample.median, "ms")
    report.figures.append(Figure(f"replay of {rows:,}: sample + priorities", sample.median, "ms", target=0.8))


def _times(work: Callable[[], object], repetitions: int) -> Sample:
    for _ in range(10):
        work()
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - start))
    return summarise(times)


def _wrapper(task: str, rounds: int, steps: int) -> tuple[float, float, float]:
    """Return (ratio, ms of our step, ms of a bare step): the same actions in the same episodes, in turn."""
    from dm_control import suite

    ours = make_env(TaskSpec(task))
    bare = suite.load(*task.split("-"), task_kwargs={"random": 0})
    low, high = bare.action_spec().minimum, bare.action_spec().maximum
    values = np.linspace(low, high, 3, axis=1)
    rng = np.random.default_rng(0)
    times: dict[str, list[list[float]]] = {"ours": [], "bare": []}
    for number in range(rounds):
        ours.reset(seed=number)
        bare.task.random.seed(number)
        bare.reset()
        for turn in range(steps // STEPS_IN_TURN):
            choices = rng.integers(3, size=(STEPS_IN_TURN, len(low)))
            actions = [values[np.arange(len(low)), choice] for choice in choices]
            both = [("ours", ours.step, list(choices)), ("bare", bare.step, actions)]
            for name, step, sequence in both[:: 1 if turn % 2 == 0 else -1]:
                times[name].append(_step_times(step, sequence))
    medians = {name: summarise([t for listed in rows for t in listed]).median for name, rows in times.items()}
    # contacts make some steps slower than others: whole turns are compared, not medians of steps
    sums = {name: [[sum(listed)] for listed in rows] for name, rows in times.items()}
    return paired_ratio(sums["ours"], sums["bare"]).median, medians["ours"], medians["bare"]


def _step_times(step: Callable[[Any], object], actions: list[Any]) -> list[float]:
    times = []
    for action in actions:
        start = time.perf_counter()
        step(action)
        times.append(1000 * (time.perf_counter() - start))
    return times


def _greedy(size: Size, repetitions: int) -> Sample:
    policy = make_learner(size).policy()
    observation = np.random.default_rng(0).standard_normal((1, size.observation_size), np.float32)
    return _times(lambda: policy.greedy(observation), repetitions)


def _choosing(report: Report, task: str, repetitions: int) -> None:
    """Compare ten lean critics with a wide one, choosing for all lanes when an update has just emptied the caches."""
    rng = np.random.default_rng(0)
    shapes = {"one": (1, WIDE), "lean": LEAN}
    sizes = {name: task_size(task, critics=critics, hidden_size=hidden) for name, (critics, hidden) in shapes.items()}
    learners = {name: make_learner(size) for name, size in sizes.items()}
    policies = {name: learner.policy() for name, learner in learners.items()}
    batches = {name: filled_replay(size, 5000, rng).sample(size.batch_size, rng) for name, size in sizes.items()}
    observations = rng.standard_normal((NUM_LANES, sizes["one"].observation_size)).astype(np.float32)
    drawn = rng.permutation(LEAN[0])[:NUM_LANES]
    ways: dict[str, tuple[str, Callable[[], object]]] = {
        "one critic of width 512": ("one", lambda: policies["one"].greedy_of_mean(observations)),
        "a lean critic drawn for each": ("lean", lambda: policies["lean"].greedy_of_critics(observations, drawn)),
        "the mean of ten lean critics": ("lean", lambda: policies["lean"].greedy_of_mean(observations)),
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(repetitions):
        for way, (name, choose) in ways.items():
            learners[name].update(batches[name])
            start = time.perf_counter()
            choose()
            times[way].append(1000 * (time.perf_counter() - start))
    medians = {way: summarise(found).median for way, found in times.items()}
    wide, *lean = medians
    for way in lean:
        name = f"choosing for {NUM_LANES} lanes, {task}: {way}, over {wide}"
        target = LARGEST_CHOOSING if "drawn" in way else None
        report.figures.append(Figure(name, medians[way], "ms", medians[wide], medians[way] / medians[wide], target))
        _add(report, name, medians[way] / medians[wide], "×")
