"""Starting, resuming and evaluating runs: what the command line calls, ready for Python users too."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from revalued.config import EngineName, TrainConfig
from revalued.envs import EnvSource, task_of_file
from revalued.errors import UserError
from revalued.run.checkpoint import Checkpoint, load_newest
from revalued.run.contents import RunCheckpoints, refuse_acting_only, refuse_foreign, restore_run, unfit
from revalued.run.folder import RunFolder, default_path, missing_folders
from revalued.run.load import load_run
from revalued.run.loggers import DEFAULT_LOGGING, Logging
from revalued.run.prepare import PreparedRun, prepare, resolve_threads
from revalued.run.progress import ProgressView, Silent
from revalued.run.recorder import Recorder
from revalued.training.callbacks import Callbacks
from revalued.training.evaluation import Episode, Video, checked_seeds, cut_off_note, play
from revalued.training.loop import LaneLoop
from revalued.training.memory import shortage_refused
from revalued.training.trainer import Loop, RunResult, Trainer
from revalued.validation import validate

if TYPE_CHECKING:
    from revalued.training.actors.loop import Linking


def start(
    config: TrainConfig | PreparedRun,
    out: Path | None = None,
    progress: ProgressView | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    *,
    env: EnvSource | None = None,
    logging: Logging = DEFAULT_LOGGING,
    callbacks: Callbacks | None = None,
) -> tuple[Path, RunResult]:
    """Train from scratch in a new folder; return the folder and how it went.

    With `env`, a Gymnasium environment or a function that makes one, the task is named `custom:` and what you like.
    """
    run = config if isinstance(config, PreparedRun) else prepare(config, env)
    config = run.config
    logging.check()
    with _cluster(config), closing(progress or Silent()) as view:
        path = out or default_path(config.task, config.algo, config.seed)
        made = missing_folders(path)
        folder = RunFolder.create(path, config)
        with folder.locked():
            try:
                return folder.path, _train(run, folder, None, view, should_stop, logging, callbacks)
            except BaseException:
                if not folder.is_begun:
                    folder.remove(made)
                raise


def resume(
    path: Path,
    progress: ProgressView | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    *,
    env_steps: int | None = None,
    workers: int | None = None,
    threads: int | None = None,
    cluster: str | None = None,
    engine: EngineName | None = None,
    env: EnvSource | None = None,
    trust_modules: Collection[str] = (),
    restart: bool = False,
    logging: Logging = DEFAULT_LOGGING,
    callbacks: Callbacks | None = None,
) -> RunResult:
    """Go on with a run from its newest checkpoint, to its configured end or, prolonged, to `env_steps`.

    A run on an environment of your own needs that environment again, as `env`, one whose task names a module needs
    that in `trust_modules`, and one with actors on a cluster other than `local` and `auto` that as `cluster`. A run
    without a checkpoint that can be read is refused; `restart` begins anew in any case, and sets aside whatever there
    is.
    """
    folder = RunFolder.open(path)
    config = folder.config()
    changes = {"workers": workers, "threads": threads, "cluster": cluster, "engine": engine}
    given = {name: value for name, value in changes.items() if value is not None}
    config = replace(config, execution=replace(config.execution, **given))  # type: ignore[arg-type]
    if env_steps is not None:
        config = replace(config, schedule=replace(config.schedule, env_steps=env_steps))
    validate(config)
    run = prepare(config, task=task_of_file(config, env, trust_modules))
    logging.check()
    summary = None if restart else folder.summary()
    if summary is not None and summary["finished"] and summary["env_steps"] >= config.schedule.env_steps:
        raise UserError(f"{path} is finished after {summary['env_steps']:,} interactions: prolong it with --env-steps")
    with _cluster(config, is_from_file=cluster is None), folder.locked(), closing(progress or Silent()) as view:
        checkpoint = None
        if restart:
            for moved in folder.set_aside():
                view.say(f"kept as {moved}")
        else:
            checkpoint = _checkpoint_to_go_on_from(run, folder, view)
        return _train(run, folder, checkpoint, view, should_stop, logging, callbacks)


def evaluate(
    path: Path,
    episodes: int,
    seed: int,
    warn: Callable[[str], None] = lambda text: None,
    *,
    env: EnvSource | None = None,
    trust_modules: Collection[str] = (),
    video: Video | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Episode]:
    """Play greedy episodes with the newest policy of a run; a `video` is shown all of them.

    Raises `StoppedError` in the middle of an episode as soon as it shall stop.
    """
    checked_seeds(seed, episodes)  # before anything is loaded
    run = load_run(path, warn, env, trust_modules=trust_modules, device="auto")
    max_steps, is_told = run.config.schedule.max_eval_steps, False
    played = play(run.task, run.policy, episodes, seed, video=video, max_steps=max_steps, should_stop=should_stop)
    for episode in played:
        if episode.is_cut_off and not is_told:
            warn(cut_off_note(max_steps))
            is_told = True
        yield episode


def assemble(
    run: PreparedRun,
    folder: RunFolder,
    view: ProgressView,
    *,
    logging: Logging = DEFAULT_LOGGING,
    callbacks: Callbacks | None = None,
    linking: Linking | None = None,
) -> Trainer:
    """Put a run together from its parts; `linking` reaches the actors in another way than by Ray."""
    config, loop = run.config, _loop(run, linking)
    try:
        record = Recorder(config, folder, view, logging)
        checkpoints = RunCheckpoints(folder.checkpoints)
        parts = (loop, record, checkpoints)
        return Trainer(config, run.task, run.shape, *parts, folder=folder.path, say=view.say, callbacks=callbacks)
    except BaseException:
        loop.close()
        raise


def _loop(run: PreparedRun, linking: Linking | None) -> Loop:
    if run.config.execution.actors == 0:
        return LaneLoop(run.config, run.task)
    from revalued.training.actors.loop import ActorLoop, ray_linking

    return ActorLoop(run.config, run.task, run.shape, linking or ray_linking)


def _cluster(config: TrainConfig, *, is_from_file: bool = False) -> AbstractContextManager[object]:
    """Join the cluster of a run with actors, before anything is written: what cannot start leaves no folder behind."""
    if config.execution.actors == 0:
        return nullcontext()
    from revalued.training.actors.ray_link import connect

    execution = config.execution
    return connect(execution.cluster, local_cpus=execution.actors, is_from_file=is_from_file)


def _checkpoint_to_go_on_from(run: PreparedRun, folder: RunFolder, view: ProgressView) -> Checkpoint:
    """Return the newest checkpoint that can be used; where there is none, say what is left of the run."""
    checkpoint = load_newest(folder.checkpoints, lambda text: view.say(f"warning: {text}"))
    if checkpoint is None:
        counts = {table.path.name: len(table.rows()) for table in (folder.eval_table, folder.metric_table)}
        left = " and ".join(f"{count:,} row{'s' * (count != 1)} in {name}" for name, count in counts.items())
        advice = "--restart (restart=True) begins anew and keeps the tables under another name"
        raise UserError(f"{folder.path} has no checkpoint to go on from, only {left}: {advice}")
    refuse_foreign(checkpoint, folder, run.config, run.shape.network)
    refuse_acting_only(checkpoint, folder)
    return checkpoint


def _train(
    run: PreparedRun,
    folder: RunFolder,
    checkpoint: Checkpoint | None,
    view: ProgressView,
    should_stop: Callable[[], bool],
    logging: Logging,
    callbacks: Callbacks | None,
) -> RunResult:
    torch.set_num_threads(resolve_threads(run.config.execution.threads))
    with shortage_refused(run.config, run.shape, run.task):
        trainer = assemble(run, folder, view, logging=logging, callbacks=callbacks)
    with closing(trainer):
        if checkpoint is not None:
            _restore(trainer, checkpoint, folder)
        try:
            return trainer.run(should_stop)
        finally:
            folder.is_begun = trainer.env_steps > 0


def _restore(trainer: Trainer, checkpoint: Checkpoint, folder: RunFolder) -> None:
    try:
        restore_run(trainer, checkpoint)
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{unfit(folder)}: {error}") from error
