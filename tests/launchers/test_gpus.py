#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which ranks share a GPU, for launchers times the ways in which they give ranks GPUs: all ranks of a host see all of
them, or CUDA_VISIBLE_DEVICES shows each its own. All rows end in the same bits, and the GPUs that a rank takes and the
way of the gradients are told. GPUs are emulated."""

import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import runner  # noqa: E402
from nodes import mpi_environment, need_mpi  # noqa: E402
from runner import CONFIG, ROOT, SECRET, TIMEOUT, Scratch, check, environment, free_port, result, sets, skip  # noqa: E402
from slurm import Slurm, need_slurm  # noqa: E402
from ways import take_share  # noqa: E402

KEYS = dict(policy__cuda="true", world__shards=4, max_train_iter=3, runtime__workers=1, env__stop_value="1e9",
            policy__eval__evaluator__eval_freq=1000000)
SHARED = "ranks share a GPU"
TORCHRUN = os.path.join(ROOT, "build/torch/bin/torchrun")
# What a rank is shown; CUDA_VISIBLE_DEVICES of local rank R; keys; GPUs of a rank; words, and words that are not said.
WAYS = {
    "all": ("", {}, 2, (), SHARED),
    "its own": ("$R", {}, 1, (), SHARED),
    "pairs": ("$((2 * R)),$((2 * R + 1))", {}, 2, (), SHARED),
    "mapped": ("", dict(runtime__cuda_devices="[3,1]"), 1, (), SHARED),
    "mapped alone": ("$((2 * R)),$((2 * R + 1))", dict(runtime__cuda_devices="[1]"), 1, (), SHARED),
    "the same one": ("2", {}, 1, (f"2 {SHARED}",), "no GPU"),
    "overlapping": ("$R,$((R + 1))", dict(runtime__gpus=2), 2, (f"2 {SHARED}",), "no GPU"),
    "uneven": ("$(test $R = 0 && echo 0 || echo 1,2)", {}, 1, (), SHARED),
}
RANK = "${LOCAL_RANK:-${OMPI_COMM_WORLD_LOCAL_RANK:-$SLURM_LOCALID}}"


def rank_command(directory, shown, keys):
    """What a launcher starts as each rank."""
    shows = f"R={RANK}; export CUDA_VISIBLE_DEVICES={shown}; " if shown else ""
    options = ["run", CONFIG, "--dir", directory, *sets(**KEYS | keys)]
    return ["sh", "-c", f'{shows}exec "$0" "$@"', runner.RUNNER, *options]


def by_hand(command, env):
    port = free_port()
    ranks = [subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=dict(env, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2",
                                       MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), HEDDLE_SECRET=SECRET))
             for rank in range(2)]
    said = "".join(rank.communicate(timeout=TIMEOUT)[0] for rank in ranks)
    return said, all(rank.returncode == 0 for rank in ranks)


def by(*launcher, **more):
    def start(command, env):
        done = subprocess.run([*launcher, *command], env=dict(env, **more), text=True, timeout=TIMEOUT,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.stdout, done.returncode == 0
    return start


def count_gpus(directory):
    with open(os.path.join(directory, "log/metrics.jsonl"), encoding="utf-8") as file:
        return json.loads(file.readline())["start"]["gpus"]


def check_row(scratch, launcher, start, way, env):
    shown, keys, gpus, words, never = WAYS[way]
    directory = scratch(f"{launcher}, {way}")
    said, ended = start(rank_command(directory, shown, keys), env)
    check(ended and all(word in said for word in words) and never not in said, f"{directory}: {said}")
    found = count_gpus(directory)
    check(len(found) == gpus, f"{directory}: rank 0 has {found}")
    print(f"{launcher:10}{way:14}{gpus} of a rank", flush=True)
    return result(directory)["param_hash"]


def check_refused(scratch):
    """A map is of GPUs as the rank sees them. A rank without any leaves the others without, or ends the run."""
    env = environment(HD_EMULATED_DEVICES=4, HD_RENDEZVOUS_TIMEOUT_S=5)
    one_has = "$(test $R = 0 && echo 0)"
    for shown, keys, ends, word in (
            ("$R", dict(runtime__cuda_devices="[0,1]"), False, "shows it 1 GPU"),
            (one_has, {}, False, "this machine has no GPU"),
            (one_has, dict(policy__cuda="auto"), False, "emulated GPU"),  # their results would differ
            (one_has, dict(policy__cuda="auto", runtime__allow_fingerprint_mismatch="true"), True,
             "no GPU is used: another rank has none")):
        said, ended = by_hand(rank_command(scratch("refused"), shown, keys), env)
        check(ended == ends and word in said, f"{shown} {keys}: {said}")
        shutil.rmtree(scratch("refused"), ignore_errors=True)


def start_launchers(scratch):
    """{launcher: what starts two ranks by it}, one after another; a launcher that is not there ends the test."""
    if not os.path.exists(TORCHRUN):
        skip("there is no build/torch (scripts/torch makes it)")
    yield "torchrun", by(TORCHRUN, "--nproc_per_node=2", "--no_python")
    need_mpi()
    yield "mpirun", by("mpirun", "-n", "2")
    need_slurm()
    with Slurm(scratch, 2) as slurm:
        yield "srun", by("srun", "-n", "2", **slurm.env)


def main():
    runner.RUNNER = runner.find_emulated()
    env = mpi_environment(HD_EMULATED_DEVICES=4, OMP_NUM_THREADS=1, HEDDLE_PLUGINS=os.path.join(ROOT, "build/plugins"))
    with Scratch() as scratch:
        check_refused(scratch)
        hashes = {check_row(scratch, "by hand", by_hand, way, env) for way in take_share(WAYS, "ways", of=2)}
        for name, start in start_launchers(scratch):
            hashes.update(check_row(scratch, name, start, way, env) for way in ("all", "its own"))
        check(len(hashes) == 1, f"the rows end in {hashes}")


main()
