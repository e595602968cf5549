# SPDX-License-Identifier: Apache-2.0
"""What the command lines of several commands share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NoReturn

from ..errors import InputError


class Parser(argparse.ArgumentParser):
    """Its mistakes are told as those of the program are."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; '{self.prog} --help' tells the options")

    def add_run_options(self, what: str) -> None:
        """What all sets of runs take; `what` is what trains side by side."""
        self.add_argument("config", metavar="CONFIG", help="a run file or a preset")
        self.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="as of runner run")
        self.add_argument("--jobs", type=int, default=1, metavar="N",
                          help=f"{what} that train side by side, each on its share of the cores (default 1)")
        self.add_argument("--dir", type=Path, help=f"the folder of the runs (default ./NAME_{self.prog.split()[-1]})")


def read_sets(texts: list[str]) -> dict[str, Any]:
    """The keys of KEY=VALUE."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"--set: expected KEY=VALUE, found {text!r}")
        found[key] = value
    return found
