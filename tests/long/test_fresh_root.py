#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_fresh_root.py [RELEASE ...]: README's first command and `scripts/test --quick` in a fresh root of each release of
Debian (trixie), from a clone, with nothing installed before."""

import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, Scratch, check, skip  # noqa: E402

COMMANDS = ("scripts/run", "scripts/test --quick")
MOUNT = """mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount --rbind /dev "$1/dev" &&
exec chroot "$1" /bin/sh -c "cd /heddle && $2" """


def find_mirror():
    """From where apt gets this system's packages."""
    for path in ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"):
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                if found := re.search(r"^(?:URIs:|deb(?: \[.*?\])?) *(\S+)", file.read(), re.M):
                    return found[1]
    return None


def run(root, command):
    """In a mount namespace, which ends with the command."""
    begin = time.monotonic()
    done = subprocess.run(["unshare", "--mount", "/bin/sh", "-c", MOUNT, "sh", root, command], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    check(done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout[-6000:]}")
    print(f"{command}: {time.monotonic() - begin:.0f} s\n  {done.stdout.strip().splitlines()[-1]}", flush=True)


def check_release(release, mirror):
    with Scratch() as scratch:
        root = scratch(release)
        made = subprocess.run(["debootstrap", "--variant=minbase", release, root, mirror], text=True, capture_output=True)
        check(made.returncode == 0, made.stdout[-2000:] + made.stderr)
        shutil.copy("/etc/resolv.conf", f"{root}/etc/resolv.conf")
        subprocess.run(["git", "clone", "-q", ROOT, f"{root}/heddle"], check=True)
        print(f"{release}:", flush=True)
        for command in COMMANDS:
            run(root, command)


def main(releases):
    if not shutil.which("debootstrap"):
        skip("there is no debootstrap (Debian: debootstrap)")
    if os.geteuid() != 0:
        skip("only root has the right to make a root")
    mirror = find_mirror()
    if not mirror:
        skip("this system's settings name no source of Debian packages")
    for release in releases or ["trixie"]:
        check_release(release, mirror)


main(sys.argv[1:])
