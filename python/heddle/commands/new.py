# SPDX-License-Identifier: Apache-2.0
"""heddle new: a folder to begin from."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import InputError
from .options import Parser

TEMPLATES = Path(__file__).resolve().parents[1] / "templates"


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="heddle new", description="Makes a folder NAME with an environment in Python, a test of it, and a "
                    "run file that trains on it.")
    parser.add_argument("name", metavar="NAME", help="the folder, and the name of its runs")
    return parser


def main(arguments: list[str]) -> int:
    folder = Path(build_parser().parse_args(arguments).name)
    if folder.exists():
        raise InputError(f"{folder} exists")
    folder.mkdir(parents=True)
    for template in sorted(TEMPLATES.glob("*.*")):
        lines = template.read_text(encoding="utf-8").splitlines(keepends=True)
        text = "".join(line for line in lines if "SPDX-License" not in line)  # what users make of it is theirs
        (folder / template.name).write_text(text.replace("exp_name: my_env", f"exp_name: {folder.name}"), encoding="utf-8")
    print(f"""{folder}/my_env.py       the environment
{folder}/test_my_env.py  its test
{folder}/run.yaml        the run file

cd {folder}
python test_my_env.py
heddle check-env run.yaml
heddle run run.yaml""")
    return 0
