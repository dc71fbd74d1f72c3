"""Where a run's metrics go besides its tables: TensorBoard events and Weights & Biases."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from revalued.config import TrainConfig, to_dict
from revalued.errors import UserError
from revalued.run.files import is_missing, read_json, write_json
from revalued.run.folder import RunFolder
from revalued.run.schemas import WandbRun

DEFAULT_PROJECT = "revalued"
WANDB_FILE = "wandb.json"


@dataclass(frozen=True)
class Logging:
    """Who is told of a run's metrics besides its CSV tables; never changes results."""

    tensorboard: bool = True
    """Write TensorBoard events into the run's folder."""
    wandb: bool = False
    """Log to Weights & Biases; the environment variable WANDB_MODE=offline keeps everything on this machine."""
    wandb_project: str | None = None
    """Project of Weights & Biases; by default `revalued`."""

    def check(self) -> None:
        """Refuse what cannot work before a run begins."""
        if self.wandb and find_spec("wandb") is None:
            raise UserError("Weights & Biases is not installed: pip install 'revalued[wandb]'")
        if not self.wandb and self.wandb_project is not None:
            raise UserError("a project of Weights & Biases was given, but not --wandb (wandb=True)")


DEFAULT_LOGGING = Logging()


class Logger(Protocol):
    """Takes metrics as they come."""

    def add(self, metrics: Mapping[str, float], updates: int, env_steps: int) -> None:
        """Take in the metrics of one moment."""

    def close(self) -> None:
        """Put everything in its place; again, it does nothing."""


def open_loggers(logging: Logging, folder: RunFolder, config: TrainConfig, resumed_at: int | None) -> list[Logger]:
    """Open what is asked for; `resumed_at` is the number of updates a run goes on from, None where it begins."""
    loggers: list[Logger] = []
    if logging.tensorboard:
        loggers.append(TensorBoardLogger(folder, resumed_at))
    if logging.wandb:
        try:
            loggers.append(WandbLogger(logging, folder, config))
        except BaseException:
            for logger in loggers:
                logger.close()
            raise
    return loggers


class TensorBoardLogger:
    """Events in the run's folder, each shown once, also after a run was killed and resumed."""

    def __init__(self, folder: RunFolder, resumed_at: int | None) -> None:
        from torch.utils.tensorboard.writer import SummaryWriter

        _refuse_unwritable(folder.events)
        self._writer = SummaryWriter(str(folder.events), purge_step=0 if resumed_at is None else resumed_at + 1)

    def add(self, metrics: Mapping[str, float], updates: int, env_steps: int) -> None:
        """Write one event per metric."""
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, updates)

    def close(self) -> None:
        """Write what is still in memory."""
        self._writer.close()


def _refuse_unwritable(events: Path) -> None:
    """Refuse a folder before TensorBoard does: its own thread would tell it, with a traceback."""
    try:
        events.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=events).close()
    except OSError as error:
        reason = f"TensorBoard events cannot be written to {events}: {error}"
        raise UserError(f"{reason}; --no-tensorboard goes without them") from error


class WandbLogger:
    """A run of Weights & Biases whose id is kept in the run's folder, so that a resumed run goes on in the same one.

    The step is the number of updates. What a resumed run makes again has a step that is known already; Weights &
    Biases ignores it, and rightly so, for it is the same to the bit.
    """

    def __init__(self, logging: Logging, folder: RunFolder, config: TrainConfig) -> None:
        import wandb

        known = _known_run(folder)
        project = logging.wandb_project or known.get("project") or DEFAULT_PROJECT
        # what else is known, such as a team, came from an earlier version of this package
        identity: dict[str, Any] = {**known, "id": known.get("id") or secrets.token_hex(4), "project": project}
        try:
            self._run: Any = wandb.init(
                **identity,
                resume="allow",
                name=f"{config.task} {config.algo} seed {config.seed}",
                group=config.task,
                config=to_dict(config),
                dir=folder.path,
                settings=wandb.Settings(console="off", quiet=True),  # the progress bar has the screen
            )
        except wandb.errors.Error as error:
            reason = " ".join(str(error).split())
            raise UserError(
                f"Weights & Biases cannot be used: {reason}; run 'wandb login', or set WANDB_MODE=offline to keep "
                "everything on this machine"
            ) from error
        write_json(folder.path / WANDB_FILE, identity)

    def add(self, metrics: Mapping[str, float], updates: int, env_steps: int) -> None:
        """Log one row."""
        self._run.log({**metrics, "env_steps": env_steps}, step=updates)

    def close(self) -> None:
        """Finish the run: everything is sent, or on disk where offline."""
        self._run.finish()


def _known_run(folder: RunFolder) -> dict[str, Any]:
    path = folder.path / WANDB_FILE
    known = {} if is_missing(path) else dict(read_json(path, WandbRun))
    return {name: known[name] for name in ("id", "project", "entity") if name in known}
