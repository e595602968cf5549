# SPDX-License-Identifier: Apache-2.0
"""The program `heddle`: commands in Python, and those of `runner`, which it starts."""

from __future__ import annotations

import importlib
import os
import sys

from ..errors import Error
from ..program import INTERRUPTED, build_environment, find_runner

COMMANDS = {
    "export": "write a policy as ONNX or C, or a run's log as CSV",
    "seeds": "train with several seeds and settings, and compare them",
    "sweep": "search for the best values of keys",
    "new": "make a folder with an environment, its test and a run file to begin from",
}


def print_help() -> None:
    print("usage: heddle COMMAND [ARGUMENT ...] [OPTION ...]\n\ncommands:")
    for name, text in COMMANDS.items():
        print(f"  {name:<9} {text}")
    print("\nAll other commands are those of the program runner, which does the training:\n", flush=True)


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    name = arguments[0] if arguments else "--help"
    try:
        if name in COMMANDS:
            return importlib.import_module("." + name, __name__).main(arguments[1:])
        if name in ("--help", "-h", "help"):
            print_help()
        runner = os.fspath(find_runner())
        os.execve(runner, [runner, *(arguments or ["--help"])], build_environment())
    except (Error, ImportError) as error:  # without the C library, or a package
        for line in str(error).splitlines():
            print(f"error: {line}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    except KeyboardInterrupt as stop:
        print(f"warning: {stop}" if str(stop) else "interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        return 1
