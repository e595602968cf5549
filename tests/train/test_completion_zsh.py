#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""zsh, in a terminal, completes the same as bash, by what `runner completion zsh` prints, read by a script or found in a
folder of functions as an installation has it."""

import os
import pty
import select
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from completion import compare, list_lines, make_folder  # noqa: E402
from runner import PATIENCE, Scratch, call, check, environment, skip  # noqa: E402

# A key that writes what is offered for the line, and a line of a dot behind it, into a file.
SET_UP = r"""
PROMPT=ready%%
autoload -Uz compinit
compinit -u -d ${ZDOTDIR}/dump
%s
compadd() {
    local -a offered
    if [[ ${argv[(I)-[OAD]]} -eq 0 ]]; then # else it adds nothing
        builtin compadd -O offered "$@"
        print -rl -- ${^offered/#/$IPREFIX} >>$ZDOTDIR/offered
    fi
    builtin compadd "$@"
}
offer() { compstate[insert]='' compstate[list]=''; _main_complete; print . >>$ZDOTDIR/offered }
bindkey -e
zle -C offer complete-word offer
bindkey '^T' offer
"""
READ = 'source "$ZDOTDIR/runner"'
CTRL_T, CTRL_U = b"\x14", b"\x15"


class Shell:
    """A zsh that has read a set-up file."""

    def __init__(self, folder, directory):
        self.offered = os.path.join(folder, "offered")
        self.terminal, theirs = pty.openpty()
        env = environment(ZDOTDIR=folder, TERM="vt100")
        self.process = subprocess.Popen(["zsh", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=directory, env=env,
                                        start_new_session=True)
        os.close(theirs)
        self.wait(lambda shown: b"ready" in shown)

    def wait(self, is_there):
        shown = b""
        for _ in range(int(100 * PATIENCE)):
            if select.select([self.terminal], [], [], 0.01)[0]:
                shown += os.read(self.terminal, 1 << 16)
            if is_there(shown):
                return
        sys.exit(f"failed: zsh shows {shown!r}")

    def has_offered(self):
        if not os.path.exists(self.offered):
            return False
        with open(self.offered, encoding="utf-8") as file:
            return file.read().endswith(".\n")

    def ask(self, line):
        if os.path.exists(self.offered):
            os.remove(self.offered)
        os.write(self.terminal, CTRL_U + line.encode() + CTRL_T)
        self.wait(lambda _: self.has_offered())
        with open(self.offered, encoding="utf-8") as file:
            return set(file.read().split("\n")) - {"", "."}  # it may try a word twice

    def end(self):
        os.close(self.terminal)  # a shell without its terminal ends
        self.process.wait()


def check_lines(scratch, name, set_up, lines):
    folder, directory = scratch(name), scratch("there")
    os.mkdir(folder)
    with open(os.path.join(folder, ".zshrc"), "w", encoding="utf-8") as file:
        file.write(SET_UP % (READ if set_up else ""))
    for path in ("runner", "_runner"):
        with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
            file.write(call("completion", "zsh").stdout)
    if not set_up:
        with open(os.path.join(folder, ".zshenv"), "w", encoding="utf-8") as file:
            file.write("fpath=($ZDOTDIR $fpath)\n")
    shell = Shell(folder, directory)
    for line, expected in lines:
        word = line.split(" ")[-1]
        compare(line, [os.path.join(os.path.dirname(word), found) if "/" in word else found
                       for found in shell.ask(line)], expected)
    shell.end()


def main():
    if not shutil.which("zsh"):
        skip("there is no zsh (scripts/packages tests/train/packages.txt)")
    lines = list(list_lines())
    check(len(lines) > 30, f"{lines}")
    with Scratch() as scratch:
        make_folder(scratch)
        check_lines(scratch, "read", True, lines)
        check_lines(scratch, "found", False, lines[:3])


main()
