#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real SLURM: srun and sbatch train to the bits of one rank, also when the job is cancelled, signalled, preempted,
requeued or out of time and goes on afterwards. The ranks write a checkpoint each time, and none is left."""

import functools
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, RUNNER, Scratch, check, result, sets, train  # noqa: E402
from slurm import Slurm, need_slurm, processes  # noqa: E402
from ways import take_share  # noqa: E402

BEGIN = time.monotonic()
SHORT, ENDLESS = 200, 10 ** 9  # updates
KEYS = dict(world__shards=2, env__stop_value="1e9", runtime__checkpoint_interval_s=0.2)
# As docs/configuration.md advises: a job that was stopped with a checkpoint waits for its next turn.
SCRIPT = """#!/bin/bash
sleep {sleep}
srun --mpi=none {command}
code=$?
[[ $code -ne 75 || -z "{requeue}" ]] || scontrol requeue "$SLURM_JOB_ID"
exit $code
"""


def say(what):
    print(f"{what}: {time.monotonic() - BEGIN:.0f} s", flush=True)


@functools.lru_cache
def reference(updates):
    with Scratch() as scratch:
        return train(scratch("one"), max_train_iter=updates, **KEYS)["param_hash"]


class Job:
    """A run as a batch job of two ranks in a directory of its own."""

    def __init__(self, slurm, directory, *options, requeue="", sleep=0):
        self.slurm, self.directory = slurm, directory
        self.script, self.log = f"{directory}.sh", f"{directory}.log"
        self.number = self.submit(ENDLESS, *options, requeue=requeue, sleep=sleep)

    def submit(self, updates, *options, requeue="", sleep=0):
        command = " ".join([RUNNER, "run", CONFIG, "--dir", self.directory, "--resume",
                            *sets(max_train_iter=updates, **KEYS)])
        with open(self.script, "w", encoding="ascii") as file:
            file.write(SCRIPT.format(command=command, requeue=requeue, sleep=sleep))
        return self.slurm("sbatch", "--parsable", "-n2", "--open-mode=append", f"--output={self.log}", *options,
                          self.script).strip()

    def output(self):
        if not os.path.exists(self.log):
            return ""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def await_checkpoint(self):
        self.slurm.wait(lambda: os.path.exists(f"{self.directory}/ckpt/state/latest"), "the first checkpoint")

    def await_state(self, *states, timeout=60):
        self.slurm.wait(lambda: self.slurm.state(self.number) in states, f"{states} of {self.directory}", timeout,
                        lambda: f"job {self.number} is {self.slurm.state(self.number)}, with the ranks "
                                f"{ranks_in(self.directory)}, and has said:\n{self.output()}")
        check(not ranks_in(self.directory), f"a rank is left: {ranks_in(self.directory)}")

    def cancel(self):
        """Also a job that is just about to be requeued once more."""
        def is_cancelled():
            self.slurm("scancel", self.number, check_code=False)
            return self.slurm.state(self.number) == "CANCELLED"
        self.slurm.wait(is_cancelled, "the end of a cancelled job")
        self.await_state("CANCELLED")

    def check_stopped(self):
        check("continues from this checkpoint" in self.output(), self.output())

    def go_on(self, what):
        """As a user who submits the script again, for some updates more."""
        updates = result(self.directory)["train_iter"] + SHORT
        self.number = self.submit(updates)
        self.await_state("COMPLETED", "FAILED", timeout=120)
        found, expected = result(self.directory), reference(updates)
        check(found["param_hash"] == expected and found["ranks"] == 2,
              f"{what}: {found['param_hash']}, {found['ranks']} ranks, not {expected}\n{self.output()}")
        say(what)


def ranks_in(directory):
    """Processes that train there."""
    return processes("cmdline", lambda words: words[0] == RUNNER.encode() and directory.encode() in words)


def check_srun(slurm, scratch):
    for mpi in ("none", "pmi2"):
        directory = scratch(f"srun{mpi}")
        slurm("srun", "-n2", f"--mpi={mpi}", RUNNER, "run", CONFIG, "--dir", directory,
              *sets(max_train_iter=SHORT, **KEYS))
        found = result(directory)
        check(found["param_hash"] == reference(SHORT) and found["ranks"] == 2, f"srun --mpi={mpi}: {found}")
        say(f"srun --mpi={mpi}")


def check_names(directory):
    for pid in ranks_in(directory):
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            check(re.match(r"\d+ \(runner\) ", file.read()), f"rank {pid} is not called runner")


def check_scancel(slurm, scratch):
    for name, *options in (("term", "--signal=TERM"), ("cancel",)):
        job = Job(slurm, scratch(name))
        job.await_checkpoint()
        check_names(job.directory)
        slurm("scancel", *options, job.number)
        job.await_state("FAILED", "CANCELLED")
        job.check_stopped()
        job.go_on(f"scancel {' '.join(options)}".strip() + ", then sbatch again")


def check_signal(slurm, scratch):
    """The signal comes at some time within the minute before the limit."""
    job = Job(slurm, scratch("signal"), "--time=1", "--signal=TERM@60", "--requeue", requeue="yes")
    slurm.wait(lambda: "resuming from" in job.output(), "the next turn", 120)
    job.check_stopped()
    job.cancel()
    say("sbatch --signal=TERM@60 --requeue")


def check_preemption(slurm, scratch):
    job = Job(slurm, scratch("preempted"), "--requeue", requeue="yes")
    job.await_checkpoint()
    urgent = slurm("sbatch", "--parsable", "--partition=high", f"-n{slurm.cores}", "--output=/dev/null",
                   "--wrap=sleep 2").strip()
    slurm.wait(lambda: slurm.state(urgent) == "COMPLETED", "the urgent job")
    slurm.wait(lambda: "resuming from" in job.output(), "the next turn", 120)
    job.check_stopped()
    job.cancel()
    job.go_on("preempted and requeued")


def check_limit(slurm, scratch):
    job = Job(slurm, scratch("late"), "--time=1", "--partition=high", sleep=50)
    job.await_state("TIMEOUT", timeout=150)
    job.check_stopped()
    say("out of time")


def main():
    need_slurm()
    with Scratch() as scratch, Slurm(scratch, 8) as slurm:
        check_srun(slurm, scratch)
        for part in take_share([check_scancel, check_signal, check_preemption, check_limit], "parts", of=2):
            part(slurm, scratch)


main()
