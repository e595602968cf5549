# SPDX-License-Identifier: Apache-2.0
"""Containers of this host, as Docker and Kubernetes make them: with process ids, System V memory, a host name, a network
and a user of their own, whose number has no name; a root that is read-only, and 64 MB of /dev/shm."""

import os
import shlex
import subprocess

from nodes import Nodes, address_of
from runner import ROOT, RUNNER, environment

USER = 4711
# Words: the folder for the root, the host's name, the folders to see (beside those of the host), then pairs of a file or
# folder and where it is to be, "--", and the command.
ENTER = r"""
set -e
root=$1 name=$2 folders=$3; shift 3
hostname "$name"
mount -t tmpfs tmpfs "$root"
mkdir "$root/tmp" "$root/run" "$root/proc" "$root/old"
for path in /*; do
    [ ! -L "$path" ] || cp -P "$path" "$root$path"
    [ -L "$path" ] || [ ! -d "$path" ] || [ -e "$root$path" ] || { mkdir "$root$path"; mount --rbind "$path" "$root$path"; }
done
mount -t proc proc "$root/proc"
mount -t tmpfs -o size=64m shm "$root/dev/shm"
mount -t tmpfs tmpfs "$root/tmp"
chmod 1777 "$root/tmp"
for path in $folders; do mkdir -p "$root$path"; mount --rbind "$path" "$root$path"; done
mkdir "$root/heddle"
mount --rbind "$ROOT" "$root/heddle"
while [ "$1" != -- ]; do
    [ -e "$root$2" ] || if [ -d "$1" ]; then mkdir "$root$2"; else touch "$root$2"; fi
    mount --bind "$1" "$root$2"; shift 2
done
shift
cd "$root"
pivot_root . old
umount -l old
for path in / /usr /etc; do mount -o remount,bind,ro $path; done
cd /heddle
exec unshare --user --map-user=$MAPPED --map-group=$MAPPED -- "$@"
"""


class Containers(Nodes):
    """Network namespaces that processes enter as a container each. `names` has the name of each."""

    def __init__(self, *names):
        super().__init__(1000, len(names))
        self.hosts = {name: address_of(number) for number, name in enumerate(names)}

    def build(self):
        super().build()
        probe = self.start(0, "probe", {}, ["sh", "-c", "id -u; test ! -w / && test $$ = 1"], environment())
        said = probe.communicate(timeout=60)[0]
        if probe.returncode != 0 or said.strip() != str(USER):
            raise OSError(f"containers: {said}")

    def start(self, number, name, files, command, env):
        """Starts a command in container `number`, which finds files and folders of this host where `files` says, and
        the other containers by name."""
        root = os.path.join(self.scratch, f"root{number}")
        hosts = os.path.join(self.scratch, "hosts")
        os.makedirs(root, exist_ok=True)
        with open(hosts, "w", encoding="ascii") as file:
            file.write("127.0.0.1 localhost\n" + "".join(f"{at} {other}\n" for other, at in self.hosts.items()))
        pairs = [word for pair in {hosts: "/etc/hosts", **files}.items() for word in pair]
        folders = " ".join(map(shlex.quote, (ROOT, os.path.dirname(os.path.realpath(RUNNER)))))
        return subprocess.Popen(
            [*self.inside(number), "unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "sh", "-c",
             ENTER, "sh", root, name, folders, *pairs, "--", *command],
            env=dict(env, ROOT=ROOT, MAPPED=str(USER), HOME="/nowhere",
                     PATH=os.path.dirname(RUNNER) + ":" + os.environ["PATH"]),
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
