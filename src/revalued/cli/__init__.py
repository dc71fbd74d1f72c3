"""The command line: parse, call, print."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from revalued.errors import UserError, unknown_name

_USAGE = """\
revalued: value-based reinforcement learning for factorised action spaces

  revalued train TASK [--algo revalued] [--seed 0] [--env-steps 500000] [...]   train an agent
  revalued resume DIR                                                          go on with a run
  revalued evaluate DIR [--episodes 10] [--seed 0] [--json]                    play greedy episodes
  revalued inspect DIR [-o page.html]                                          look inside: one page of pictures
  revalued export DIR policy.onnx                                              the greedy policy as ONNX
  revalued sweep TASK --critics 1,3,5 --beta 0,0.5 [--seeds 3] [--jobs 2]      many runs, every combination
  revalued reproduce all|NAME [--scale laptop] [--seeds 2] [--jobs 2]          the tables and figures of the paper
  revalued report DIR [-o report.html]                                         results as one page
  revalued list [algos|tasks|experiments]                                      what there is to choose from
  revalued check TASK                                                          what we see in an environment
  revalued compare TASK [--against sb3-ppo ...] [--seeds 3] [--budget-minutes 8]   we and other libraries
  revalued --version

'revalued COMMAND --help' shows every option of a command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; mistakes of the user get one line, never a traceback."""
    if arguments is None:
        # a process of our own: its workers find modules where it does, not in the folder they start in
        os.environ.setdefault("PYTHONSAFEPATH", "1")
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without our signs, or a path that is no text
            stream.reconfigure(errors="replace")
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
    module, function = _COMMANDS[command].split(":")
    carry_out: Callable[[list[str]], int] = getattr(import_module(f"revalued.cli.{module}"), function)
    return carry_out(rest)


# where each command lives; imported only when it is asked for, so that --help does not wait for torch
_COMMANDS = {
    "train": "train:train",
    "resume": "train:resume",
    "evaluate": "evaluate:evaluate",
    "inspect": "inspect:inspect",
    "export": "export:export",
    "sweep": "sweep:sweep",
    "reproduce": "reproduce:reproduce",
    "report": "report:report",
    "list": "listing:show_list",
    "check": "check:check",
    "compare": "compare:compare",
}
