"""The command line: parse, call, print."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from revalued.errors import UserError, unknown_name

_USAGE = """\
revalued: value-based reinforcement learning for factorised action spaces

  revalued train TASK [--algo revalued] [--seed 0] [--env-steps 500000] [...]   train an agent
  revalued resume DIR                                                          go on with a run
  revalued evaluate DIR [--episodes 10] [--seed 0] [--json]                    play greedy episodes
  revalued list [algos|tasks]                                                  what there is to choose from
  revalued --version

'revalued COMMAND --help' shows every option of a command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; mistakes of the user get one line, never a traceback."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _dispatch(arguments)
    except UserError as error:
        print(f"revalued: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("revalued: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output (head, less) has seen enough
        sys.stderr.close()
        return 0
    except OSError as error:  # a full disk, a folder that may not be written to
        print(f"revalued: {error}", file=sys.stderr)
        return 1


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_USAGE)
        return 0 if arguments else 2
    if arguments[0] in ("-V", "--version"):
        from revalued import __version__

        print(f"revalued {__version__}")
        return 0
    command, *rest = arguments
    if command not in _COMMANDS:
        raise unknown_name("command", command, _COMMANDS)
    return _COMMANDS[command](rest)


def _train(arguments: list[str]) -> int:
    from revalued.cli.train import train

    return train(arguments)


def _resume(arguments: list[str]) -> int:
    from revalued.cli.train import resume

    return resume(arguments)


def _evaluate(arguments: list[str]) -> int:
    from revalued.cli.evaluate import evaluate

    return evaluate(arguments)


def _list(arguments: list[str]) -> int:
    from revalued.cli.listing import show_list

    return show_list(arguments)


_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "train": _train,
    "resume": _resume,
    "evaluate": _evaluate,
    "list": _list,
}
