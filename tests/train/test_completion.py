#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bash completes, by what `runner completion bash` prints, all that the program has: commands, options, keys and verbs,
and files where they are meant."""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from completion import compare, list_lines, make_folder  # noqa: E402
from runner import Scratch, call, check  # noqa: E402

# As readline calls it: words end at COMP_WORDBREAKS, so that only what is behind the last of these is offered.
ASK = r"""
set -u
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
source "$1"
[[ $(complete -p runner) == *"-F _runner runner"* ]] || exit 1
while IFS= read -r COMP_LINE; do
    COMP_POINT=${#COMP_LINE}
    _runner
    printf '%s\n' "${COMPREPLY[@]}" .
done
"""


def main():
    lines = list(list_lines())
    with Scratch() as scratch:
        with open(scratch("runner"), "w", encoding="utf-8") as file:
            file.write(call("completion", "bash").stdout)
        asked = "".join(f"{line}\n" for line, _ in lines)
        done = subprocess.run(["bash", "-c", ASK, "bash", scratch("runner")], cwd=make_folder(scratch), input=asked,
                              text=True, capture_output=True)
        check(done.returncode == 0 and not done.stderr, f"{done.returncode}: {done.stderr}")
    answers = done.stdout.split(".\n")[:-1]
    check(len(answers) == len(lines), done.stdout)
    for (line, expected), answer in zip(lines, answers):
        cut = len(line.split(" ")[-1].rpartition("=")[0]) + 1 if "=" in line.split(" ")[-1] else 0
        compare(line, answer.split(), [word[cut:] for word in expected])
    unknown = re.findall(r"^command\t.*\tvalue$", call("completion", "bash").stdout, re.M)
    check(not unknown, f"nothing is offered for the arguments of {unknown}")
    said = call("completion", "fish", expect=2).stderr
    check("'fish'" in said and "bash and zsh" in said, said)


main()
