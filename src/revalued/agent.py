"""The agent: learn, predict, save and load in the manner of Gymnasium's and Stable-Baselines3's users."""

from __future__ import annotations

import shutil
import signal
import tempfile
import warnings
import weakref
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeAlias, Unpack

import gymnasium
import numpy as np
from gymnasium import spaces

from revalued.acting.ensemble import Utilities, utilities_of
from revalued.acting.exploration import epsilon_at, explore
from revalued.acting.policy import Policy
from revalued.algorithms.presets import PRESETS
from revalued.envs import EnvSource, module_of, task_of_file
from revalued.envs.spaces.codec import SpaceCodec
from revalued.errors import UserError
from revalued.run.contents import ACTING_ONLY
from revalued.run.folder import RunFolder, refuse_existing
from revalued.run.load import SavedRun, load_run
from revalued.run.loggers import Logging
from revalued.run.prepare import PreparedRun, prepare, resolve_device
from revalued.run.progress import make_progress
from revalued.run.save import refuse_occupied, save_policy, save_run, save_untrained
from revalued.run.signals import noted_signals
from revalued.run.start import resume, start
from revalued.seeding import Stream, stream_rng
from revalued.settings import Settings, configure
from revalued.training.build import agent_shape, make_learner
from revalued.training.callbacks import Callback, Callbacks, Event
from revalued.training.evaluation import Episode, play
from revalued.training.trainer import RunResult
from revalued.validation import validate

Folder: TypeAlias = str | Path | None
"""Where an agent writes; None is a temporary folder."""


@dataclass(frozen=True)
class _Acting:
    policy: Policy
    updates: int
    env_steps: int
    epsilon: float
    can_learn: bool = True


class Agent:
    """One run that can be trained step by step, asked for actions, saved and loaded.

    `env` is a task's name, a Gymnasium environment, or a function that makes one. Every setting of `revalued train` is
    a keyword. Whatever the run writes goes to `folder`, by default a temporary one that is gone with the agent.
    """

    def __init__(
        self, env: str | EnvSource, algo: str = "revalued", *, folder: Folder = None, **settings: Unpack[Settings]
    ) -> None:
        name, source = _task_name(env), None if isinstance(env, str) else env
        run = prepare(configure(name, algo, settings), source)
        if folder is not None:
            refuse_existing(Path(folder))
        self._set_up(run, source, folder, trust_modules=(module_of(name),))
        self._device = run.config.execution.device

    def _set_up(
        self,
        run: PreparedRun,
        env: EnvSource | None,
        folder: Folder,
        origin: Path | None = None,
        trust_modules: Collection[str] = (),
    ) -> None:
        self.config = run.config
        self.outcome: RunResult | None = None
        """How the last call of `learn` ended."""
        self._run, self._env = run, env
        self._folder = None if folder is None else Path(folder)
        self._is_folder_chosen = folder is not None
        self._origin, self._trusted = origin, trust_modules
        self._device = "auto"  # a run that was trained on CUDA acts on a laptop too
        self._state: _Acting | None = None
        self._is_learning = False
        self._rng = stream_rng(run.config.seed, Stream.PREDICT)

    def learn(
        self,
        env_steps: int | None = None,
        callback: Callback | Sequence[Callback] | None = None,
        *,
        progress_bar: bool = False,
        tensorboard: bool | None = None,
        wandb: bool = False,
        wandb_project: str | None = None,
    ) -> Agent:
        """Make so many more environment interactions; without a number, up to the configured `env_steps`.

        Several calls equal one long call, to the bit. Lanes step together, so the number is rounded up to a multiple
        of `num_envs` times `action_repeat`. TensorBoard events are written by default where a folder was chosen.
        Ctrl-C ends learning with a checkpoint, then raises KeyboardInterrupt; `learn` again goes on from there.
        """
        if self._is_learning:
            raise UserError("this agent is learning already")
        events = self._is_folder_chosen if tensorboard is None else tensorboard
        logging = Logging(events, wandb, wandb_project)
        logging.check()
        callbacks = Callbacks([] if callback is None else callback, self._follow)
        target = self._target(env_steps)
        path = self._working_folder()
        progress = make_progress(quiet=not progress_bar)
        self._is_learning = True
        try:
            with noted_signals(signal.SIGINT, say=progress_bar, second_one_kills=False) as received:
                extras: dict[str, Any] = {"should_stop": lambda: bool(received), "logging": logging}
                extras["callbacks"] = callbacks
                if (path / "config.json").is_file():
                    # what was saved before it had learnt anything has no checkpoint yet, and none to lose
                    extras["restart"] = RunFolder.open(path).may_restart_unasked()
                    extras["trust_modules"] = self._trusted
                    extras["cluster"] = self.config.execution.cluster if self._origin is None else None
                    self.outcome = resume(path, progress, env_steps=target, env=self._env, **extras)
                else:
                    config = replace(self.config, schedule=replace(self.config.schedule, env_steps=target))
                    _, self.outcome = start(replace(self._run, config=config), path, progress, **extras)
        finally:
            self._is_learning, self._state = False, None  # the folder knows what the agent is now
        if received:
            raise KeyboardInterrupt
        return self

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        action_masks: Any = None,
    ) -> tuple[Any, Any]:
        """Return an action for an observation, or one for each of a batch, in the environment's own form; and `state`.

        Deterministic is greedy on the ensemble's mean. Otherwise as in training: ε-greedy with the present ε, the
        greedy part as `act_with` says (a critic is drawn in every call). Masks are flat vectors or one per dimension.
        """
        codec, acting = self._codec, self._acting()
        observations, is_batch = codec.read(observation)
        masks = None
        if action_masks is not None:
            masks = codec.read_masks(action_masks, len(observations), is_batch=is_batch)
        if deterministic:
            actions = acting.policy.greedy(observations, masks)
        else:
            exploration = self.config.exploration
            actions, _ = explore(acting.policy, observations, exploration, acting.epsilon, self._rng, masks)
        return codec.write(acting.policy.shape.actions.to_environment(actions), is_batch=is_batch), state

    def utilities(self, observation: Any) -> Utilities:
        """Return the utilities of an observation or of a batch."""
        observations, is_batch = self._codec.read(observation)
        return utilities_of(self._acting().policy, observations, is_batch=is_batch)

    def evaluate(self, episodes: int = 10, seed: int = 0) -> list[Episode]:
        """Play greedy episodes in an environment of its own, masks respected; as `revalued evaluate` does."""
        max_steps = self.config.schedule.max_eval_steps
        return list(play(self._run.task, self._acting().policy, episodes, seed, max_steps=max_steps))

    def save(self, path: str | Path, *, replay: bool = True, overwrite: bool = False) -> Path:
        """Write a run folder that `load` and all commands accept.

        With the replay, learning can go on from it, to the bit. Without, it is small and can only act.
        """
        path = Path(path)
        refuse_occupied(path, overwrite=overwrite)
        if replay and self._is_learning:
            raise UserError("in the middle of learn() only the policy can be saved: save(path, replay=False)")
        home = self._home()
        if home is not None and path.exists() and path.resolve() == home.path.resolve():
            raise UserError(f"{path} is the folder that the agent works in: choose another path")
        if not replay:
            acting = self._acting()
            counts = (acting.updates, acting.env_steps, acting.epsilon)
            save_policy(path, self.config, self._run.task, acting.policy, *counts, overwrite=overwrite)
        elif home is None:
            save_untrained(path, self.config, overwrite=overwrite)
        else:
            save_run(home.path, path, overwrite=overwrite)
        return path

    def make_env(self, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        """Return a new environment that takes this agent's actions, without noise."""
        return self._run.task.make_user_env(render_mode)

    @property
    def folder(self) -> Path | None:
        """Return where learning writes; None before the first `learn` if no folder was chosen."""
        return self._folder

    @property
    def env_steps(self) -> int:
        """Return the environment interactions made so far."""
        return self._acting().env_steps

    @property
    def updates(self) -> int:
        """Return the gradient updates made so far."""
        return self._acting().updates

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """Return the space of the observations that `predict` takes."""
        return self._codec.observation_space

    @property
    def action_space(self) -> spaces.Space[Any]:
        """Return the space of the actions that `predict` returns."""
        return self._codec.action_space

    def __repr__(self) -> str:
        """Return what is learnt and how far it has come."""
        return f"<Agent {self.config.algo} on {self.config.task}, {self.env_steps:,} interactions>"

    @cached_property
    def _codec(self) -> SpaceCodec:
        return SpaceCodec.of(*self._run.task.user_spaces(), self.config.bins)

    def _home(self) -> RunFolder | None:
        """Return the folder that the agent's state is in; None for an agent that has never learnt."""
        for path in (self._folder, self._origin):
            if path is not None and (path / "config.json").is_file():
                return RunFolder.open(path)
        return None

    def _acting(self) -> _Acting:
        if self._state is None:
            home = self._home()
            if home is not None and home.has_checkpoint:
                self._state = _state_in(load_run(home.path, _warn, task=self._run.task, device=self._device))
            else:
                learner = make_learner(self.config, self._run.shape, resolve_device(self._device))
                self._state = _Acting(learner.policy(), 0, 0, epsilon_at(self.config.exploration, 0))
        return self._state

    def _follow(self, event: Event) -> Agent:
        """Act from now on as the run does in which the agent is learning."""
        self._state = _Acting(event.policy, event.updates, event.env_steps, event.epsilon)
        return self

    def _target(self, env_steps: int | None) -> int:
        if not self._acting().can_learn:
            raise UserError("this agent was saved without its replay: it can act, but not go on learning")
        done, configured = self.env_steps, self.config.schedule.env_steps
        if env_steps is None and done >= configured:
            advice = "say how many more, such as learn(10_000)"
            raise UserError(f"the agent has made the {configured:,} interactions it was configured for: {advice}")
        if env_steps is not None and (not isinstance(env_steps, int | np.integer) or env_steps < 1):
            raise UserError(f"learn({env_steps!r}) is not possible: the number of interactions must be at least 1")
        return configured if env_steps is None else done + int(env_steps)

    def _working_folder(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="revalued-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        if self._origin is not None and not (self._folder / "config.json").is_file():
            save_run(self._origin, self._folder)
        return self._folder


def load(
    path: str | Path, env: EnvSource | None = None, *, folder: Folder = None, trust_modules: Collection[str] = ()
) -> Agent:
    """Return the agent in a run folder, written by `save`, `learn` or `revalued train`.

    It can predict at once; only to learn and to evaluate, an environment of your own is needed again, as `env`, and the
    module that a task such as `gym:module:ID` names has to be among `trust_modules`. What is learnt from now on goes to
    `folder`, by default a temporary copy; `folder=path` goes on in the loaded run itself.
    """
    path = Path(path)
    home = RunFolder.open(path)
    config = home.config()
    validate(config)
    if folder is not None and Path(folder).resolve() != path.resolve():
        refuse_existing(Path(folder))
    saved = None
    if home.has_checkpoint:
        saved = load_run(path, _warn, env, trust_modules=trust_modules, needs_env=False, device="auto")
    task = task_of_file(config, env, trust_modules) if saved is None else saved.task
    agent = Agent.__new__(Agent)
    run = PreparedRun(config, task, agent_shape(config, task.info))
    agent._set_up(run, env, folder, origin=path, trust_modules=trust_modules)
    agent._state = None if saved is None else _state_in(saved)
    return agent


def _state_in(run: SavedRun) -> _Acting:
    updates, env_steps = int(run.meta["updates"]), int(run.meta["env_steps"])
    epsilon = run.meta.get("epsilon", epsilon_at(run.config.exploration, env_steps))  # older versions left it out
    return _Acting(run.policy, updates, env_steps, epsilon, can_learn=not run.meta.get(ACTING_ONLY))


def _task_name(env: str | EnvSource) -> str:
    if isinstance(env, str):
        if env in gymnasium.registry:
            raise UserError(f"{env} is an id of Gymnasium's registry: write gym:{env}")
        return env
    if isinstance(env, gymnasium.Env):
        return f"custom:{env.spec.id if env.spec is not None else type(env.unwrapped).__name__}"
    name = getattr(env, "__name__", type(env).__name__)
    return f"custom:{'env' if name == '<lambda>' else name}"


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=2)


class _Maker(Protocol):
    def __call__(self, env: str | EnvSource, *, folder: Folder = None, **settings: Unpack[Settings]) -> Agent: ...


def _maker(name: str, algo: str) -> _Maker:
    def make(env: str | EnvSource, *, folder: Folder = None, **settings: Unpack[Settings]) -> Agent:
        return Agent(env, algo, folder=folder, **settings)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"Make an agent of the preset {algo}. {PRESETS[algo].summary}."
    return make


Lean = _maker("Lean", "lean")
REValueD = _maker("REValueD", "revalued")
DecQN = _maker("DecQN", "decqn")
DecQNSum = _maker("DecQNSum", "decqn-sum")
DecQNC51 = _maker("DecQNC51", "decqn-c51")
BDQ = _maker("BDQ", "bdq")
DQN = _maker("DQN", "dqn")
