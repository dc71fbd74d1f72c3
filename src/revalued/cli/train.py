"""`revalued train` and `revalued resume`."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro

from revalued.algorithms.presets import PRESETS, starting_config
from revalued.cli.parsing import Modules, parse
from revalued.config import EngineName, TrainConfig
from revalued.errors import UserError
from revalued.run.loggers import Logging
from revalued.validation import validate

_PAPERS_ALGO, _PAPERS_PREFIX = "revalued", "metaworld:"
"""What is trained unless another preset is named, and how names of the paper's tasks begin, if they have a colon."""


@dataclass(frozen=True)
class TrainArguments:
    """Train an agent on a task."""

    config: TrainConfig = field(default_factory=lambda: TrainConfig(task=tyro.MISSING))
    logging: Logging = field(default_factory=Logging)
    out: Path | None = None
    """Folder for everything the run writes; by default runs/TASK/ALGO-seedS."""
    quiet: bool = False
    """Print nothing but warnings."""


@dataclass(frozen=True)
class ResumeArguments:
    """Go on with a run from its newest checkpoint."""

    dir: Path
    """Folder of the run."""
    env_steps: int | None = None
    """Prolong the run to so many environment interactions."""
    workers: int | None = None
    """Step the environments in so many processes from now on; results do not depend on it."""
    threads: int | None = None
    """Compute with so many threads from now on; results depend on it with `--engine torch` only, in their rounding."""
    cluster: str | None = None
    """Let the actors of the run work in this cluster from now on: local, auto or HOST:PORT."""
    engine: EngineName | None = None
    """Update with this engine from now on; results will differ in their rounding."""
    restart: bool = False
    """Begin anew, from the configuration alone; tables and checkpoints are kept under other names."""
    trust_module: Modules = ()
    """Import this module, which the run's task names; repeat it for several. To import a module runs its code."""
    logging: Logging = field(default_factory=Logging)
    quiet: bool = False
    """Print nothing but warnings."""


def train(arguments: list[str]) -> int:
    """Carry out `revalued train`."""
    algo = _given_algo(arguments)
    start_from = starting_config(tyro.MISSING, algo or _PAPERS_ALGO)
    given = parse(TrainArguments, "train", arguments, TrainArguments(start_from))
    validate(given.config)
    given.logging.check()
    from revalued.envs import module_of, search_working_folder, task_of
    from revalued.run.folder import default_path, refuse_existing

    if module_of(given.config.task):  # whoever names a module on the command line may have it beside them
        search_working_folder()
    task = task_of(given.config)
    path = given.out or default_path(given.config.task, given.config.algo, given.config.seed)
    refuse_existing(path)
    from revalued.run.prepare import prepare  # after everything is known to be right: importing torch takes a second
    from revalued.run.start import start

    run = prepare(given.config, task=task)
    config, network, execution = run.config, run.shape.network, run.config.execution
    collectors = f"{execution.workers} workers"
    if execution.actors > 0:
        collectors = f"{execution.actors} actors with {config.schedule.num_envs} environments each"
    title = (
        f"{config.algo} on {config.task}: {network.actions.num_dimensions} dimensions of up to "
        f"{network.actions.max_choices} choices, {network.critics} critic{'s' if network.critics > 1 else ''}, "
        f"{execution.device} with {execution.threads} threads, {execution.engine} engine, {collectors}"
    )

    def work(progress: Any, should_stop: Callable[[], bool]) -> Any:
        progress.say(f"{title}\nwriting to {path}")
        if algo is None and ":" in config.task and not config.task.startswith(_PAPERS_PREFIX):
            progress.say(
                f"this is the paper's protocol; revalued check {config.task} tells in seconds what to start with"
            )
        return start(run, path, progress, should_stop, logging=given.logging)[1]

    trusted = [module] if (module := module_of(config.task)) else []
    return _guarded(path, given.quiet, work, _trust(trusted, execution.cluster if execution.actors > 0 else None))


def resume(arguments: list[str]) -> int:
    """Carry out `revalued resume`."""
    given = parse(ResumeArguments, "resume", arguments)
    from revalued.run import start as run

    def work(progress: Any, should_stop: Callable[[], bool]) -> Any:
        return run.resume(
            given.dir,
            progress,
            should_stop,
            env_steps=given.env_steps,
            workers=given.workers,
            threads=given.threads,
            cluster=given.cluster,
            engine=given.engine,
            trust_modules=given.trust_module,
            restart=given.restart,
            logging=given.logging,
        )

    return _guarded(given.dir, given.quiet, work, _trust(given.trust_module, given.cluster))


def _trust(modules: Sequence[str], cluster: str | None) -> list[str]:
    """Return the words that a run needs to go on because a file alone is not believed."""
    words = [word for name in modules for word in ("--trust-module", name)]
    return words if cluster in (None, "local", "auto") else [*words, "--cluster", cluster]


def _guarded(path: Path, quiet: bool, work: Callable[[Any, Callable[[], bool]], Any], words: list[str]) -> int:
    """Train with Ctrl-C and SIGTERM turned into a checkpoint; say how it ended and how to go on."""
    from revalued.envs import LaneError
    from revalued.learner.engine import NonFiniteError
    from revalued.run.progress import make_progress
    from revalued.run.signals import noted_signals

    resume_command = shlex.join(["revalued", "resume", str(path), *words])
    progress = make_progress(quiet=quiet)
    try:
        with noted_signals(signal.SIGINT, signal.SIGTERM, say=not quiet, second_one_kills=True) as received:
            result = work(progress, lambda: bool(received))
    except (NonFiniteError, LaneError) as error:
        kept = f"; checkpoints are kept in {path / 'checkpoint'}" if path.exists() else ""
        print(f"revalued: {error}{kept}", file=sys.stderr)
        return 1
    finally:
        progress.close()
    if not result.finished:
        print(f"stopped; go on with: {resume_command}", file=sys.stderr)
        return 128 + received[0]
    if not quiet:
        _print_summary(path, result.summary)
    return 0


def _print_summary(path: Path, summary: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from revalued.run.progress import format_duration

    table = Table(show_header=False, title=f"{summary['algo']} on {summary['task']}, seed {summary['seed']}")
    table.add_row("final return", f"{summary['final_return']:.1f}")
    table.add_row("best return", f"{summary['best_return']:.1f} after {summary['best_at_updates']:,} updates")
    if summary["success"] is not None:
        table.add_row("success", f"{summary['success']:.0%}")
    table.add_row("interactions", f"{summary['env_steps']:,}")
    table.add_row("updates", f"{summary['updates']:,}")
    table.add_row("training episodes", f"{summary['train_episodes']:,}")
    table.add_row("wall time", format_duration(summary["wall_seconds"]))
    table.add_row("folder", str(path))
    Console(markup=False).print(table)  # a path may hold brackets


def _given_algo(arguments: list[str]) -> str | None:
    """Find --algo, if it is given, before everything else is parsed: the preset decides other defaults."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--algo")
    try:
        given: str | None = parser.parse_known_args(arguments)[0].algo
        return given
    except argparse.ArgumentError:
        raise UserError(f"--algo needs a value: one of {', '.join(PRESETS)}") from None
