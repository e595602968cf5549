#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian package of this build, in a fresh root of this system's release: apt installs it with what it depends on,
its plug-ins find their libraries there, and a user trains."""

import glob
import os
import platform
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from roots import make_root, run_in  # noqa: E402
from runner import RUNNER, Scratch, check, skip  # noqa: E402

BUILD = os.path.dirname(RUNNER)
FILES = ("bin/runner", "include/heddle/infer.h", "include/heddle/env.h", "lib/libheddle-infer.so", "lib/pkgconfig/heddle-infer.pc",
         "share/heddle/configs/graphs/dqn.yaml", "share/doc/heddle/LICENSE")
DEPENDS = {"heddle_ucx.so": "libucx", "heddle_mpi.so": "libopenmpi"}


def run(*command):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    check(done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-6000:]}")
    return done.stdout


def main():
    release = platform.freedesktop_os_release()
    if release["ID"] != "debian" or not shutil.which("dpkg-shlibdeps"):
        skip("this is not Debian, or there is no dpkg-shlibdeps (Debian: dpkg-dev)")
    with Scratch() as scratch:
        root = scratch("root")
        make_root(root, release["VERSION_CODENAME"])
        run("cpack", "-G", "DEB", "--config", os.path.join(BUILD, "CPackConfig.cmake"), "-B", scratch("package"))
        package, = glob.glob(scratch("package/*.deb"))
        files, depends = run("dpkg-deb", "--contents", package), run("dpkg-deb", "--field", package, "Depends")
        for name in FILES:
            check(f"./usr/{name}" in files, f"no {name} in the package: {files}")
        for plugin, library in DEPENDS.items():
            check(plugin not in files or library in depends, f"{plugin} without {library} in {depends}")
        print(f"{os.path.basename(package)}: {os.path.getsize(package) / 1e6:.1f} MB; {depends}", flush=True)
        shutil.copy(package, f"{root}/heddle.deb")
        run_in(root, "apt-get -qq update && apt-get -qq install -y --no-install-recommends /heddle.deb")
        missing = run_in(root, "ldd /usr/lib/heddle/*.so | grep 'not found' || echo none", network=False)
        check(missing == "none\n", missing)
        run_in(root, "cd /tmp && cp /usr/share/heddle/configs/cartpole_dqn_ddp.yaml . && HOME=/nonexistent setpriv --reuid=4711 "
                     "--clear-groups runner run cartpole_dqn_ddp.yaml", network=False)


main()
