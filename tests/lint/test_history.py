# SPDX-License-Identifier: Apache-2.0
"""test_history.py [ROOT]: subjects of commits read "area: imperative" and have at most 72 characters, since a
commit that had no such rule yet; a body says why."""

import re
import subprocess

import tree

BEFORE = "d1ac3ec1c54867f9b2c9485310cf7c8e3c394396"  # the last commit that was made without this rule
SUBJECT = re.compile(r"[a-z0-9_/.+-]+: [A-Za-z\"'`].*[^.]")
LONGEST = 72


def git(root, *arguments):
    return subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True)


def main(root):
    if git(root, "merge-base", "--is-ancestor", BEFORE, "HEAD").returncode != 0:
        tree.skip("the history does not reach back to where the rule begins")
    log = git(root, "log", "--no-merges", "--format=%h%x00%s%x00%b%x01", f"{BEFORE}..HEAD").stdout
    commits = [entry.strip("\n").split("\0") for entry in log.split("\1") if entry.strip("\n")]
    found = []
    for commit, subject, body in commits:
        if not SUBJECT.fullmatch(subject) or len(subject) > LONGEST:
            found.append(f"{commit}: not \"area: imperative\" in {LONGEST} characters: {subject}")
        if not body.strip():
            found.append(f"{commit}: no body says why: {subject}")
    tree.report(found, commits)


if __name__ == "__main__":
    main(tree.root())
