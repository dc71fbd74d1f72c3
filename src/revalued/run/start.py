"""Starting, resuming and evaluating runs: what the command line calls, ready for Python users too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from revalued.acting.policy import Policy
from revalued.algorithms.decompositions import check_decomposition
from revalued.config import EngineName, TrainConfig
from revalued.envs import EnvSource, Task, episode_seed
from revalued.envs.of_config import task_of
from revalued.errors import UserError
from revalued.native.choice import resolve_engine
from revalued.report.video import check_video, film
from revalued.run.checkpoint import Checkpoint, load_newest
from revalued.run.folder import RunFolder, default_path
from revalued.run.load import load_run
from revalued.run.loggers import DEFAULT_LOGGING, Logging
from revalued.run.progress import ProgressView, Silent
from revalued.run.save import refuse_acting_only, refuse_foreign
from revalued.training.build import AgentShape, agent_shape, resolve_device, resolve_threads
from revalued.training.callbacks import Callbacks
from revalued.training.evaluation import Episode, greedy_episodes
from revalued.training.loop import Outcome, Trainer
from revalued.validation import validate

if TYPE_CHECKING:
    from revalued.training.actors.loop import ActorTrainer


def prepare(config: TrainConfig, env: EnvSource | None = None) -> tuple[TrainConfig, AgentShape]:
    """Check everything that can be checked before a run, and settle what `auto` stands for on this machine."""
    validate(config)
    shape = agent_shape(config, task_of(config, env).info)
    check_decomposition(config.algorithm.decomposition, shape.network.actions.num_dimensions)
    execution, device = config.execution, resolve_device(config.execution.device)
    execution = replace(
        execution,
        threads=resolve_threads(execution.threads),
        device=str(device),
        engine=resolve_engine(execution.engine, device, compiled=execution.compile),
    )
    return replace(config, execution=execution), shape


def start(
    config: TrainConfig,
    out: Path | None = None,
    progress: ProgressView | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    *,
    env: EnvSource | None = None,
    logging: Logging = DEFAULT_LOGGING,
    callbacks: Callbacks | None = None,
) -> tuple[Path, Outcome]:
    """Train from scratch in a new folder; return the folder and how it went.

    With `env`, a Gymnasium environment or a function that makes one, the task is named `custom:` and what you like.
    """
    config, _ = prepare(config, env)
    logging.check()
    with _cluster(config):
        folder = RunFolder.create(out or default_path(config.task, config.algo, config.seed), config)
        with folder.locked():
            return folder.path, _train(config, folder, progress, should_stop, task_of(config, env), logging, callbacks)


def resume(
    path: Path,
    progress: ProgressView | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    *,
    env_steps: int | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    engine: EngineName | None = None,
    env: EnvSource | None = None,
    logging: Logging = DEFAULT_LOGGING,
    callbacks: Callbacks | None = None,
) -> Outcome:
    """Go on with a run from its newest checkpoint, to its configured end or, prolonged, to `env_steps`.

    A run on an environment of your own needs that environment again, as `env`.
    """
    folder = RunFolder.open(path)
    config = folder.config()
    if workers is not None:
        config = replace(config, execution=replace(config.execution, workers=workers))
    if cluster is not None:
        config = replace(config, execution=replace(config.execution, cluster=cluster))
    if engine is not None:
        config = replace(config, execution=replace(config.execution, engine=engine))
    if env_steps is not None:
        config = replace(config, schedule=replace(config.schedule, env_steps=env_steps))
    config, _ = prepare(config, env)
    logging.check()
    summary = folder.summary()
    if summary is not None and summary["finished"] and summary["env_steps"] >= config.schedule.env_steps:
        raise UserError(f"{path} is finished after {summary['env_steps']:,} interactions: prolong it with --env-steps")
    with _cluster(config), folder.locked():
        return _train(config, folder, progress, should_stop, task_of(config, env), logging, callbacks)


def _cluster(config: TrainConfig) -> AbstractContextManager[object]:
    """Join the cluster of a run with actors, before anything is written: what cannot start leaves no folder behind."""
    if config.execution.actors == 0:
        return nullcontext()
    from revalued.training.actors.ray_link import connect

    return connect(config.execution.cluster, local_cpus=config.execution.actors)


def _trainer(config: TrainConfig, *arguments: Any, **options: Any) -> Trainer | ActorTrainer:
    if config.execution.actors == 0:
        return Trainer(config, *arguments, **options)
    from revalued.training.actors.loop import ActorTrainer

    return ActorTrainer(config, *arguments, **options)


def _train(
    config: TrainConfig,
    folder: RunFolder,
    progress: ProgressView | None,
    should_stop: Callable[[], bool],
    task: Task,
    logging: Logging,
    callbacks: Callbacks | None,
) -> Outcome:
    view = progress or Silent()
    torch.set_num_threads(resolve_threads(config.execution.threads))
    torch.set_float32_matmul_precision(config.execution.matmul_precision)
    checkpoint = load_newest(folder.checkpoints, lambda text: view.say(f"warning: {text}"))
    if checkpoint is not None:
        refuse_foreign(checkpoint, folder, config, agent_shape(config, task.info).network)
        refuse_acting_only(checkpoint, folder)
    folder.write_config(config)  # a run that is prolonged
    try:
        trainer = _trainer(config, folder, view, task, logging=logging, callbacks=callbacks)
        try:
            if checkpoint is None:
                folder.forget_after(-1, -1)  # killed before the first checkpoint, a run may have left rows
            else:
                _restore(trainer, checkpoint, folder)
            return trainer.run(should_stop)
        finally:
            trainer.close()
    finally:
        view.close()


def _restore(trainer: Trainer | ActorTrainer, checkpoint: Checkpoint, folder: RunFolder) -> None:
    try:
        trainer.restore(checkpoint)
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"the checkpoint in {folder.checkpoints} does not match config.json: {error}") from error


def evaluate(
    path: Path,
    episodes: int,
    seed: int,
    warn: Callable[[str], None] = lambda text: None,
    *,
    env: EnvSource | None = None,
    video: Path | None = None,
) -> Iterator[Episode]:
    """Play greedy episodes with the newest policy of a run, and film them if a `video` is wanted."""
    _check_wish(episodes, video)
    run = load_run(path, warn, env, device="auto")
    yield from play(run.task, run.policy, episodes, seed, video=video)


def play(task: Task, policy: Policy, episodes: int, seed: int, *, video: Path | None = None) -> Iterator[Episode]:
    """Play greedy episodes with a policy, and film them if a `video` is wanted."""
    _check_wish(episodes, video)
    seeds = [episode_seed(seed, "evaluate", 0, number) for number in range(episodes)]
    stage = task.make(None if video is None else "rgb_array")
    try:
        if video is None:
            yield from greedy_episodes(stage, policy, seeds)
        else:
            with film(stage, video) as watch:
                yield from greedy_episodes(stage, policy, seeds, watch)
    finally:
        stage.close()


def _check_wish(episodes: int, video: Path | None) -> None:
    if episodes < 1:
        raise UserError(f"episodes = {episodes} is not possible: it must be at least 1")
    check_video(video)
