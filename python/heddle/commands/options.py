# SPDX-License-Identifier: Apache-2.0
"""What the command lines of several commands share."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from ..errors import InputError


class Parser(argparse.ArgumentParser):
    """Its mistakes are told as those of the program are."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; '{self.prog} --help' tells the options")


def read_sets(texts: list[str]) -> dict[str, Any]:
    """The keys of KEY=VALUE."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"--set: expected KEY=VALUE, found {text!r}")
        found[key] = value
    return found
