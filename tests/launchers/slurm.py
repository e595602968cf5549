# SPDX-License-Identifier: Apache-2.0
"""A SLURM of its own: munged, slurmctld and a slurmd for each of its nodes, all on this host, with their files in a
folder, all gone afterwards."""

import contextlib
import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import SECRET, check, environment, free_port, skip  # noqa: E402

CONFIG = """
ClusterName=heddle
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={at}/munge.socket,cred_expire=5
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool-%n
SlurmctldPidFile={at}/slurmctld.pid
SlurmdPidFile={at}/slurmd-%n.pid
SlurmctldLogFile={at}/slurmctld.log
SlurmdLogFile={at}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=30
CompleteWait=0
ReturnToService=2
SlurmdParameters=config_overrides
{nodes}
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=30 State=UP
PartitionName=high Nodes=ALL PriorityTier=2 PreemptMode=OFF State=UP
"""
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "squeue", "sinfo", "scontrol")


def find(program):
    return shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def need_slurm():
    missing = [name for name in PROGRAMS if not find(name)]
    if missing:
        skip(f"there is no {', '.join(missing)} (Debian: slurm-wlm, munge)")
    if os.geteuid() != 0:
        skip("only root starts SLURM's daemons")


def processes(file, holds):
    """The processes of which holds(words of /proc/PID/file) is true."""
    found = []
    for path in glob.glob(f"/proc/[0-9]*/{file}"):
        try:
            with open(path, "rb") as opened:
                words = opened.read().split(b"\0")
        except OSError:  # it has gone
            continue
        if holds(words):
            found.append(int(path.split("/")[2]))
    return found


class Slurm:
    def __init__(self, scratch, cores, nodes=1):
        self.at = scratch("slurm")
        self.cores = cores
        self.nodes = [socket.gethostname()] if nodes == 1 else [f"node{node}" for node in range(nodes)]
        self.daemons = []
        self.env = environment(SLURM_CONF=f"{self.at}/slurm.conf", OMP_NUM_THREADS=1)
        if nodes > 1:
            self.env["HEDDLE_SECRET"] = SECRET

    def __enter__(self):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        for name in ("", "/state", *(f"/spool-{node}" for node in self.nodes)):
            os.mkdir(self.at + name, 0o755)
        with open(f"{self.at}/munge.key", "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(os.urandom(128))
        with open(f"{self.at}/slurm.conf", "w", encoding="ascii") as file:
            nodes = "\n".join(f"NodeName={node} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 "
                              f"Port={free_port()} CPUs={self.cores} State=UNKNOWN" for node in self.nodes)
            file.write(CONFIG.format(at=self.at, host=socket.gethostname(), controller=free_port(), nodes=nodes))
        try:
            self.start("munged", "--foreground", "--force", f"--socket={self.at}/munge.socket",
                       f"--key-file={self.at}/munge.key", f"--pid-file={self.at}/munge.pid",
                       f"--log-file={self.at}/munge.log", f"--seed-file={self.at}/munge.seed")
            self.wait(lambda: os.path.exists(f"{self.at}/munge.socket"), "munged")
            self.start("slurmctld", "-D", "-i")
            for node in self.nodes:
                self.start("slurmd", "-D", "-N", node)
            self.wait(lambda: self("sinfo", "-h", "-N", "-p", "low", "-o", "%T", check_code=False).split() ==
                      ["idle"] * len(self.nodes), "idle nodes")
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self, program, *options):
        log = open(f"{self.at}/{program}{len(self.daemons)}.out", "wb")
        self.daemons.append(subprocess.Popen([find(program), *options], env=self.env, stdout=log, stderr=log))
        log.close()

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for pid in self.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def left(self):
        """Steps and tasks that outlive the daemons, as those of a test that failed do."""
        return processes("environ", lambda words: f"SLURM_CONF={self.at}/slurm.conf".encode() in words)

    def wait(self, condition, what, timeout=60, told=lambda: ""):
        """Waits until the condition holds; `told` adds to the message where it never does."""
        deadline = time.monotonic() + timeout
        while not condition():
            dead = [daemon.args[0] for daemon in self.daemons if daemon.poll() is not None]
            check(not dead, f"{what}: {dead} ended\n{self.logs()}")
            check(time.monotonic() < deadline, f"{what}: not within {timeout} s\n{told()}{self.logs()}")
            time.sleep(0.1)

    def logs(self):
        text = ""
        for path in sorted(glob.glob(f"{self.at}/*.log") + glob.glob(f"{self.at}/*.out")):
            with open(path, encoding="utf-8", errors="replace") as file:
                text += f"-- {path}\n" + "".join(file.readlines()[-15:])
        return text

    def __call__(self, *command, check_code=True, timeout=120):
        done = subprocess.run(command, env=self.env, text=True, capture_output=True, timeout=timeout)
        check(done.returncode == 0 or not check_code,
              f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}\n{self.logs()}")
        return done.stdout + done.stderr

    def state(self, job):
        """PENDING, RUNNING, COMPLETED, TIMEOUT, ..."""
        fields = self("scontrol", "--oneliner", "show", "job", str(job)).split()
        return next(word.split("=")[1] for word in fields if word.startswith("JobState="))
