# SPDX-License-Identifier: Apache-2.0
"""Fresh roots of Debian releases, as debootstrap makes them, and commands in them."""

import os
import re
import shutil
import subprocess
import time

from runner import check, skip

# The root is a mount point, as tests change how mounts propagate from it. The network namespace of a command without
# network has the loopback device alone.
MOUNT = """mount --bind "$1" "$1" && mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" &&
mount --rbind /dev "$1/dev" &&
{ [ -z "$3" ] || ip link set lo up; } && exec chroot "$1" /bin/sh -c "$2" """


def find_mirror():
    """From where apt gets this system's packages."""
    for path in ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"):
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                if found := re.search(r"^(?:URIs:|deb(?: \[.*?\])?) *(\S+)", file.read(), re.M):
                    return found[1]
    return None


def make_root(root, release, *packages):
    """Skips the test where none can be made."""
    if not shutil.which("debootstrap"):
        skip("there is no debootstrap (Debian: debootstrap)")
    if os.geteuid() != 0:
        skip("only root has the right to make a root")
    mirror = find_mirror()
    if not mirror:
        skip("this system's settings name no source of Debian packages")
    include = [f"--include={','.join(packages)}"] if packages else []
    made = subprocess.run(["debootstrap", "--variant=minbase", *include, release, root, mirror], text=True, capture_output=True)
    check(made.returncode == 0, made.stdout[-2000:] + made.stderr)
    shutil.copy("/etc/resolv.conf", f"{root}/etc/resolv.conf")


def run_in(root, command, network=True):
    """In a mount namespace, which ends with the command, and without a network also in a namespace of networks. Returns
    what it said."""
    begin = time.monotonic()
    done = subprocess.run(["unshare", "--mount", *([] if network else ["--net"]), "/bin/sh", "-c", MOUNT, "sh", root, command,
                           "" if network else "alone"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL)
    check(done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout[-6000:]}")
    last = (done.stdout.strip().splitlines() or [""])[-1]
    print(f"{command}: {time.monotonic() - begin:.0f} s\n  {last}", flush=True)
    return done.stdout
