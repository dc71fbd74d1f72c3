"""An environment in a process of its own: for simulators of which a process can hold only one."""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import subprocess
import sys
from typing import IO, Any, cast

import gymnasium

from revalued.envs.vector.worker_process import interrupts_held_back

_PATIENCE_SECONDS = 5.0
"""How long the process may take to notice that nobody asks any more, before it is ended by force."""
_PROGRAM = "import sys; sys.path[:] = {path!r}; from {module} import serve; serve({maker!r})"
_DESCRIPTION = ("observation_space", "action_space", "action_names", "max_episode_steps")


class OwnProcess(gymnasium.Env[Any, Any]):
    """The environment that a function makes, given as `module:function`, in a process that ends with this one.

    What the simulator prints goes nowhere; Ctrl-C and SIGTERM, which a whole group of processes gets, do not reach it.
    """

    action_names: tuple[str, ...]
    max_episode_steps: int

    def __init__(self, maker: str) -> None:
        path = [folder or os.getcwd() for folder in sys.path]
        program = _PROGRAM.format(path=path, module=__name__, maker=maker)
        command = [sys.executable, "-P", "-c", program]
        with interrupts_held_back():  # and it keeps them back
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._requests, self._answers = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)
        try:
            self.__dict__.update(self._ask("describe"))
        except BaseException:
            self.close()
            raise

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        answer: tuple[Any, dict[str, Any]] = self._ask("reset", seed=seed, options=options)
        return answer

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step."""
        answer: tuple[Any, Any, bool, bool, dict[str, Any]] = self._ask("step", action=action)
        return answer

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        try:
            self._process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()

    def _ask(self, method: str, **arguments: Any) -> Any:
        try:
            pickle.dump((method, arguments), self._requests)
            self._requests.flush()
            answer, failure = pickle.load(self._answers)
        except (BrokenPipeError, EOFError, pickle.UnpicklingError) as error:
            raise RuntimeError(f"the simulator's process has ended with code {self._process.wait()}") from error
        if failure is not None:
            raise RuntimeError(failure)
        return answer


def serve(maker: str) -> None:
    """Do with an environment what standard input asks for and answer on standard output, until nobody asks any more."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):
        os.dup2(nothing, standard)
    module, _, name = maker.partition(":")
    env: gymnasium.Env[Any, Any] | None = None
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            method, arguments = pickle.load(requests)
            answer, failure = None, None
            try:
                if env is None:
                    env = getattr(importlib.import_module(module), name)()
                answer = _describe(env) if method == "describe" else getattr(env, method)(**arguments)
            except Exception as error:
                failure = f"{type(error).__name__}: {error}"
            pickle.dump((answer, failure), answers)
            answers.flush()
    if env is not None:
        env.close()


def _describe(env: gymnasium.Env[Any, Any]) -> dict[str, Any]:
    return {name: getattr(env, name) for name in _DESCRIPTION}
