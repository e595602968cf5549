# SPDX-License-Identifier: Apache-2.0
"""heddle export: a policy in a form that other programs run, or the log of its run as a table."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from .. import program
from ..errors import Error, InputError
from .options import Parser

if TYPE_CHECKING:
    from ..policy import Policy


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="heddle export", description="Writes the policy of a run directory, or of a file "
                    "policy.safetensors, as a model of ONNX, as C source, or both; or the log of a run as CSV.")
    parser.add_argument("policy", metavar="DIR", help="a run directory, or a file policy.safetensors")
    parser.add_argument("--weights", metavar="FILE", help="a file of weights other than the best of the directory")
    parser.add_argument("--onnx", metavar="FILE", type=Path, help="write a model of ONNX (needs 'heddle[export]')")
    parser.add_argument("--c", metavar="FOLDER", type=Path, help="write C source, NAME.c and NAME.h, into a folder")
    parser.add_argument("--name", default="policy", help="of the C files, and before their functions (default policy)")
    parser.add_argument("--csv", metavar="FILE", help="write what the run logged, as runner report does")
    return parser


def load_policy(options: argparse.Namespace) -> Policy:
    from ..policy import load

    try:
        return load(options.policy, options.weights)
    except FileNotFoundError as error:
        raise InputError(str(error)) from None


def export_policy(options: argparse.Namespace) -> None:
    policy = load_policy(options)
    if options.onnx:
        from ..export.onnx_policy import write_onnx

        write_onnx(policy, options.onnx)
        print(f"wrote {options.onnx}")
    if options.c:
        from ..export.c_policy import write_c

        for path in write_c(policy, options.c, options.name, os.fspath(options.weights or options.policy)):
            print(f"wrote {path}")


def main(arguments: list[str]) -> int:
    options = build_parser().parse_args(arguments)
    if not (options.onnx or options.c or options.csv):
        raise InputError("say what to write: --onnx FILE, --c FOLDER or --csv FILE")
    if options.onnx or options.c:
        try:
            export_policy(options)
        except OSError as error:
            raise Error(f"{error.filename} cannot be written: {error.strerror}") from None
    if options.csv:
        print(program.run(["report", options.policy, "--csv", options.csv]), end="")
    return 0
