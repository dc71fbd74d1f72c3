"""Starting, resuming and evaluating runs: what the command line calls, ready for Python users too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import torch

from revalued.acting import Policy
from revalued.build import AgentShape, agent_shape, make_learner, resolve_device, resolve_threads
from revalued.checkpoint import Checkpoint, load_newest
from revalued.config import TrainConfig, validate
from revalued.envs import EnvSource, Task, episode_seed
from revalued.errors import UserError
from revalued.evaluation import Episode, greedy_episodes
from revalued.progress import ProgressView, Silent
from revalued.run_folder import RunFolder, default_path
from revalued.tasks import task_of
from revalued.training import Outcome, Trainer
from revalued.video import check_video, film


def prepare(config: TrainConfig, env: EnvSource | None = None) -> tuple[TrainConfig, AgentShape]:
    """Check everything that can be checked before a run, and settle what `auto` stands for on this machine."""
    validate(config)
    shape = agent_shape(config, task_of(config, env).info)
    execution = replace(
        config.execution,
        threads=resolve_threads(config.execution.threads),
        device=str(resolve_device(config.execution.device)),
    )
    return replace(config, execution=execution), shape


def start(
    config: TrainConfig,
    out: Path | None = None,
    progress: ProgressView | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    *,
    env: EnvSource | None = None,
) -> tuple[Path, Outcome]:
    """Train from scratch in a new folder; return the folder and how it went.

    With `env`, a Gymnasium environment or a function that makes one, the task is named `custom:` and what you like.
    """
    config, _ = prepare(config, env)
    folder = RunFolder.create(out or default_path(config.task, config.algo, config.seed), config)
    with folder.locked():
        return folder.path, _train(config, folder, progress, should_stop, task_of(config, env))


def resume(
    path: Path,
    progress: ProgressView | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    *,
    env_steps: int | None = None,
    workers: int | None = None,
    env: EnvSource | None = None,
) -> Outcome:
    """Go on with a run from its newest checkpoint, to its configured end or, prolonged, to `env_steps`.

    A run on an environment of your own needs that environment again, as `env`.
    """
    folder = RunFolder.open(path)
    config = folder.config()
    if workers is not None:
        config = replace(config, execution=replace(config.execution, workers=workers))
    if env_steps is not None:
        config = replace(config, schedule=replace(config.schedule, env_steps=env_steps))
    config, _ = prepare(config, env)
    summary = folder.summary()
    if summary is not None and summary["finished"] and summary["env_steps"] >= config.schedule.env_steps:
        raise UserError(f"{path} is finished after {summary['env_steps']:,} interactions: prolong it with --env-steps")
    with folder.locked():
        folder.write_config(config)
        return _train(config, folder, progress, should_stop, task_of(config, env))


def _train(
    config: TrainConfig,
    folder: RunFolder,
    progress: ProgressView | None,
    should_stop: Callable[[], bool],
    task: Task,
) -> Outcome:
    view = progress or Silent()
    torch.set_num_threads(resolve_threads(config.execution.threads))
    torch.set_float32_matmul_precision(config.execution.matmul_precision)
    checkpoint = load_newest(folder.checkpoints, lambda text: view.say(f"warning: {text}"))
    try:
        trainer = Trainer(config, folder, view, task)
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


def _restore(trainer: Trainer, checkpoint: Checkpoint, folder: RunFolder) -> None:
    try:
        trainer.restore(checkpoint)
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"the checkpoint in {folder.checkpoints} does not match config.json: {error}") from error


def load_policy(
    path: Path, warn: Callable[[str], None] = lambda text: None, env: EnvSource | None = None
) -> tuple[TrainConfig, Policy]:
    """Return the configuration and the newest policy of a run."""
    folder = RunFolder.open(path)
    config, shape = prepare(replace_device(folder.config()), env)
    checkpoint = load_newest(folder.checkpoints, warn, arrays=False)
    if checkpoint is None:
        raise UserError(f"{path} has no checkpoint yet")
    learner = make_learner(config, shape, resolve_device(config.execution.device))
    try:
        learner.load_tensors(checkpoint.tensors, checkpoint.meta["updates"])
    except ValueError as error:
        raise UserError(f"the checkpoint in {folder.checkpoints} does not match config.json: {error}") from error
    return config, Policy(shape.network, learner.online, learner.support)


def replace_device(config: TrainConfig, device: str = "auto") -> TrainConfig:
    """Return the configuration for another device (a policy trained on CUDA plays on a laptop too)."""
    return replace(config, execution=replace(config.execution, device=device))


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
    if episodes < 1:
        raise UserError(f"episodes = {episodes} is not possible: it must be at least 1")
    check_video(video)
    config, policy = load_policy(path, warn, env)
    seeds = [episode_seed(seed, "evaluate", 0, number) for number in range(episodes)]
    stage = task_of(config, env).make(None if video is None else "rgb_array")
    try:
        if video is None:
            yield from greedy_episodes(stage, policy, seeds)
        else:
            with film(stage, video) as watch:
                yield from greedy_episodes(stage, policy, seeds, watch)
    finally:
        stage.close()
