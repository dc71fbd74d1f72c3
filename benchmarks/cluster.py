"""Section `cluster`: how many actors one learner can feed, and what they cost it."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cluster_parts import (
    BLOCK_INTERACTIONS,
    BLOCK_STEPS,
    SIZE,
    IdleActor,
    LearnerSide,
    made_up_block,
    make_plan,
    make_replay,
)
from benchmarks.measures import Sample, paired_ratio, summarise
from benchmarks.processes import ROOT, clean_environment
from benchmarks.report import Figure, Report
from benchmarks.sizes import make_learner
from revalued.errors import UserError
from revalued.training.actors.block import Ticket, read_block
from revalued.training.actors.loop import store_block
from revalued.training.actors.ray_link import connect, import_ray

IDLE_ACTORS = [1, 2, 4, 8]
REAL_ACTORS = [1, 2]
SLOWDOWN_TARGET = 1.05
STORED_ACTORS = 16
RUN_TASK, RUN_ALGO, RUN_WARMUP = "walker-walk", "decqn", 500
COLUMNS = ["what", "actors", "value", "lower quartile", "upper quartile", "unit"]


def measure(*, quick: bool) -> Report:
    """Measure the learner's side with actors that do no work, then whole runs with real ones."""
    report = Report("cluster", "Ray actors and one learner: dog sizes, K = 10, blocks of 20 steps of 5 lanes", COLUMNS)
    try:
        import_ray()
    except UserError as error:
        report.skipped = True
        report.notes = [f"cluster: skipped, {error}"]
        return report
    _add(report, "store blocks, without Ray", STORED_ACTORS, _stored(quick), "interactions/s")
    counts = IDLE_ACTORS[:2] if quick else IDLE_ACTORS
    with _importable(), connect("local", local_cpus=max(counts)) as ray:
        for count in counts:
            _broadcast(report, ray, count, quick)
            _ingest(report, ray, count, quick)
    for count in REAL_ACTORS:
        rates = [_rate(count, quick=quick) for _ in range(1 if quick else 3)]
        _add(report, f"whole run, {RUN_ALGO} on {RUN_TASK}", count, summarise(rates), "interactions/s")
    in_rates = [row for row in report.rows if row["unit"] == "interactions/s"]
    report.figures += [Figure(f"{row['what']}, {row['actors']} actors", row["value"], row["unit"]) for row in in_rates]
    report.notes = [
        f"a version of the weights is {_weight_bytes() / 2**20:.0f} MB; a block of {BLOCK_INTERACTIONS} interactions "
        "pays for 20 updates",
        "idle actors answer at once with made-up blocks, so rates are the learner's; all processes share this machine",
    ]
    return report


@contextmanager
def _importable() -> Iterator[None]:
    """Let the actors' processes find what is named in this package."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(ROOT)
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _add(report: Report, what: str, actors: int, sample: Sample, unit: str) -> None:
    quartiles = {"lower quartile": sample.lower_quartile, "upper quartile": sample.upper_quartile}
    report.rows.append({"what": what, "actors": actors, "value": sample.median, **quartiles, "unit": unit})


def _stored(quick: bool) -> Sample:
    """Check and store blocks that are there already: the most that a learner could take in."""
    plan, replay, rng = make_plan(), make_replay(STORED_ACTORS), np.random.default_rng(0)
    blocks = [made_up_block(plan, rng) for _ in range(STORED_ACTORS)]
    rates = []
    for turn in range(STORED_ACTORS * (3 if quick else 40)):
        number, actor = divmod(turn, STORED_ACTORS)
        arrays = {**blocks[actor], "header": np.array([actor, 0, number, 0], np.int64)}
        ticket = Ticket(actor, 0, number, version=0, env_steps=0, num_steps=BLOCK_STEPS, max_updates=0)
        start = time.perf_counter()
        store_block(replay, read_block(arrays, plan.block_shape, ticket))
        rates.append(BLOCK_INTERACTIONS / (time.perf_counter() - start))
    return summarise(rates)


def _broadcast(report: Report, ray: Any, count: int, quick: bool) -> None:
    """Publish weights once and let every actor load them."""
    actors = [ray.remote(num_cpus=1)(IdleActor).remote(make_plan(), actor, 0) for actor in range(count)]
    weights = {name: tensor.numpy() for name, tensor in make_learner(SIZE).online.items()}
    put, everywhere = [], []
    for version in range(3 if quick else 20):
        start = time.perf_counter()
        published = ray.put(weights)
        put.append(1000 * (time.perf_counter() - start))
        ray.get([actor.load.remote(published, version) for actor in actors])
        everywhere.append(1000 * (time.perf_counter() - start))
    for actor in actors:
        ray.kill(actor)
    _add(report, "publish weights", count, summarise(put[1:]), "ms")
    _add(report, "until every actor has loaded them", count, summarise(everywhere[1:]), "ms")


def _ingest(report: Report, ray: Any, count: int, quick: bool) -> None:
    """Take blocks as fast as they come, then see what they cost the updates."""
    side = LearnerSide(ray, count, filled=2_000 if quick else 100_000)
    rates = []
    for _ in range(3 if quick else 20):
        start = time.perf_counter()
        for _ in range(10):
            side.take_block()
        rates.append(10 * BLOCK_INTERACTIONS / (time.perf_counter() - start))
    _add(report, "take blocks through Ray and store them", count, summarise(rates), "interactions/s")
    if count == 2:
        rounds = 1 if quick else 20
        times: dict[bool, list[list[float]]] = {False: [], True: []}
        for number in range(rounds):
            for with_block in (False, True)[:: 1 if number % 2 == 0 else -1]:
                times[with_block].append([side.milliseconds_per_update(with_block=with_block)])
        alone, coming_in = (summarise([value for (value,) in times[key]]) for key in (False, True))
        _add(report, "update, no blocks", count, alone, "ms")
        _add(report, "update, a block for every 20", count, coming_in, "ms")
        name = "update with blocks coming in, over one without"
        ratio = paired_ratio(times[True], times[False]).median
        report.figures.append(Figure(name, coming_in.median, "ms", alone.median, ratio, SLOWDOWN_TARGET))
    side.close()


def _weight_bytes() -> int:
    return sum(tensor.numpy().nbytes for tensor in make_learner(SIZE).online.values())


def _rate(actors: int, *, quick: bool) -> float:
    """Return the interactions per second of a run with real actors, from the first row of the log to the last."""
    log_every, last = (20, 120) if quick else (200, 2200)
    (ROOT / "runs").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "runs", prefix="benchmark-") as folder:
        out = Path(folder) / "run"
        options = {
            "--algo": RUN_ALGO, "--actors": actors, "--cluster": "local", "--out": out, "--log-every": log_every,
            "--warmup-env-steps": RUN_WARMUP, "--env-steps": RUN_WARMUP + 5 * last, "--epsilon-decay": 0.9,
        }  # fmt: skip
        pairs = [str(part) for option in options.items() for part in option]
        command = [sys.executable, "-m", "revalued", "train", RUN_TASK, "--quiet", *pairs]
        subprocess.run(command, cwd=ROOT, env=clean_environment(), check=True, stdout=subprocess.DEVNULL)
        with (out / "metrics.csv").open() as file:
            rows = list(csv.DictReader(file))
    begin, end = rows[0], rows[-1]
    interactions = int(end["env_steps"]) - int(begin["env_steps"])
    return interactions / (float(end["wall_seconds"]) - float(begin["wall_seconds"]))
