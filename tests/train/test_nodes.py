#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several nodes: 4 shards end in the same bits on one rank, under mpirun with messages instead of shared
memory, among launchers that only know of each other by --master-addr, and on two nodes with a link of
1 Gbit/s between them, which the bytes have crossed."""

import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from nodes import Nodes, mpirun, need_mpi  # noqa: E402
from runner import (CONFIG, ROOT, RUNNER, SECRET, Scratch, call, check, environment, free_port, result, sets,  # noqa: E402
                    train)

PPO = os.path.join(ROOT, "configs/cartpole_ppo_ddp.yaml")
UPDATES = 60
FIXED = dict(world__shards=4, env__stop_value="1e9", max_train_iter=UPDATES)
SLICED = dict(strategy__shard_optimizer_above_mb=0, strategy__bucket_mb=0.02)  # as larger nets do by default


def hash_of(done, directory):
    check(done.returncode == 0, f"exit code {done.returncode}: {done.stdout}{done.stderr}")
    return result(directory)["param_hash"]


def under_mpirun(directory, ranks, config=CONFIG, per_node=1, **keys):
    keys = {"runtime__transport": "mpi", **FIXED, **keys}
    return hash_of(mpirun(ranks, "run", config, "--dir", directory, "--quiet", *sets(**keys), per_node=per_node),
                   directory)


def check_mpirun(scratch, reference):
    cases = [dict(ranks=ranks) for ranks in (1, 2, 4)]
    cases += [dict(ranks=4, **SLICED), dict(ranks=2, **SLICED), dict(ranks=2, runtime__transport="auto"),
              dict(ranks=4, per_node=2), dict(ranks=4, per_node=2, **SLICED), dict(ranks=4, per_node=4),
              dict(ranks=2, runtime__executor="sequential"),
              dict(ranks=4, runtime__executor="sequential", **SLICED)]
    for number, case in enumerate(cases):
        found = under_mpirun(scratch(f"mpi{number}"), **case)
        check(found == reference, f"under mpirun, {case}: {found}, not {reference}")


def check_rounded(scratch):
    """Vectors of rounded blocks, in every way that MPI carries them."""
    keys = dict(strategy__exchange_precision="int8", strategy__error_feedback=1)
    reference = train(scratch("rounded"), **FIXED, **keys)["param_hash"]
    for exchange in ("direct", "pairs", "halves"):
        found = under_mpirun(scratch(f"rounded {exchange}"), 4, runtime__exchange=exchange, **keys)
        check(found == reference, f"int8 under mpirun, {exchange}: {found}, not {reference}")


def check_ppo(scratch):
    keys = dict(FIXED, max_train_iter=20)
    reference = train(scratch("ppo"), config=PPO, **keys)["param_hash"]
    for ranks, executor in ((2, "starpu"), (4, "starpu"), (2, "sequential")):
        found = under_mpirun(scratch(f"ppo{ranks}{executor}"), ranks, PPO, runtime__executor=executor,
                             max_train_iter=20)
        check(found == reference, f"PPO on {ranks} ranks, {executor}: {found}, not {reference}")


def check_launchers(scratch, reference):
    """Two and four nodes on this host, by what `auto` finds and by TCP."""
    cases = [dict(ranks=4, nodes=2)]
    cases += [dict(ranks=4, nodes=nodes, runtime__transport="tcp", **more)
              for nodes in (2, 4) for more in ({}, SLICED, dict(runtime__executor="sequential", runtime__link_hash="true"))]
    for number, case in enumerate(cases):
        found = train(scratch(f"nodes{number}"), **FIXED, **case)["param_hash"]
        check(found == reference, f"{case}: {found}, not {reference}")
    print(f"{len(cases)} ways to launch nodes by hand: same bits")


def check_srun(scratch, reference):
    """What srun tells its tasks, said by hand."""
    directory = scratch("srun")
    common = dict(SLURM_NTASKS=2, SLURM_JOB_ID=os.getpid(), SLURM_STEP_ID=0, SLURM_STEP_TASKS_PER_NODE="1(x2)",
                  SLURM_STEP_NODELIST="localhost", HEDDLE_SECRET=SECRET)
    command = [RUNNER, "run", CONFIG, "--dir", directory, "--quiet", *sets(**FIXED)]
    runs = [subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             env=environment(SLURM_PROCID=rank, SLURM_NODEID=rank, SLURM_LOCALID=0, **common))
            for rank in range(2)]
    outputs = [run.communicate(timeout=120)[0] for run in runs]
    check(all(run.returncode == 0 for run in runs), "\n".join(outputs))
    check(result(directory)["param_hash"] == reference and result(directory)["ranks"] == 2, "under srun")


def check_refusals(scratch):
    done = call("launch", CONFIG, "--nproc-per-node", "2", "--dir", scratch("refused"),
                *sets(runtime__transport="mpi"), expect=2)
    check("mpirun" in done.stderr and done.stderr.count("runtime.transport is mpi") == 1, done.stderr)
    loaded = subprocess.run(["ldd", RUNNER], text=True, capture_output=True, check=True).stdout
    check("libmpi" not in loaded, "the program itself needs MPI")


def check_containers(scratch):
    """With process ids of their own on one host, ranks share no memory; shared memory asked for says so."""
    apart = ["unshare", "--pid", "--mount-proc", "--fork"]
    if subprocess.run([*apart, "true"], capture_output=True).returncode != 0:
        print("left out: this user may make no pid namespaces")
        return
    command = [*apart, RUNNER, "launch", "--nnodes=2", "--master-addr=127.0.0.1", f"--master-port={free_port()}", CONFIG,
               "--dir", scratch("apart"), *sets(runtime__transport="shm", **FIXED)]
    runs = [subprocess.Popen([*command, f"--node-rank={node}"], env=environment(HEDDLE_SECRET=SECRET), text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for node in range(2)]
    said = "".join(run.communicate(timeout=120)[0] for run in runs)
    check([run.returncode for run in runs] == [2, 2], said)
    check(said.count("runtime.transport is shm, but the ranks cannot open each other's memory") == 1 and
          "runtime.transport: auto finds what joins them" in said, said)


def check_nodes(scratch, reference):
    with Nodes(1000) as nodes:
        for ranks, transport in ((1, "mpi"), (2, "mpi"), (1, "tcp"), (2, "tcp"), (2, "ucx")):
            directory, before = scratch(f"nodes{ranks}{transport}"), nodes.sent()
            found = hash_of(nodes.mpirun(ranks, "run", CONFIG, "--dir", directory, "--quiet",
                                         *sets(runtime__transport=transport, **FIXED), UCX_TLS="tcp,self"), directory)
            check(found == reference, f"two nodes, {ranks} ranks each, {transport}: {found}, not {reference}")
            crossed = [after - b for after, b in zip(nodes.sent(), before)]
            print(f"two nodes, {ranks} ranks each, {transport}: {crossed[0] / UPDATES / 1000:.0f} and "
                  f"{crossed[1] / UPDATES / 1000:.0f} kB per update crossed the link")
            counted = float(re.search(r"sent ([\d.]+) kB per update", call("trace", directory).stdout).group(1)) * 1000
            check(0.9 * crossed[0] < counted * UPDATES < crossed[0], f"the trace counts {counted} bytes per update")
            # Half a gradient of 100 kB to be added, and half the sum.
            check(min(crossed) > UPDATES * 90000, f"only {crossed} bytes crossed the link")
        check_outage(scratch, nodes, reference)


def check_outage(scratch, nodes, reference):
    """Launchers on two nodes; then the link is away for longer than a rank may be silent."""
    def cut():
        while not os.path.exists(scratch("outage/log/evaluator")):
            time.sleep(0.01)
        nodes.cut(4)

    def launch(name, disturb=lambda: None, **keys):
        said = nodes.launch(2, CONFIG, "--dir", scratch(name), "--quiet",
                            *sets(**{**FIXED, "runtime__transport": "tcp", **keys}), disturb=disturb)
        return result(scratch(name))["param_hash"], said

    found, _ = launch("launchers")
    check(found == reference, f"two nodes with launchers: {found}, not {reference}")
    keys = dict(max_train_iter=1500, runtime__heartbeat_timeout_s=2)
    reference = train(scratch("whole"), ranks=2, **{**FIXED, **keys})["param_hash"]
    found, text = launch("outage", cut, **keys)
    check("acknowledged nothing" in text, f"the link was not away: {text}")
    check(found == reference, f"after an outage: {found}, not {reference}")
    print("a link that was away for 4 s: same bits")


def check_channels(scratch, reference):
    """Four buckets are exchanged side by side on one host, and one between hosts, whose cable they would share."""
    channels = []
    for nodes in (1, 2):
        directory = scratch(f"channels{nodes}")
        found = train(directory, ranks=2, nodes=nodes, **FIXED, **SLICED)["param_hash"]
        check(found == reference, f"buckets on {nodes} hosts: {found}, not {reference}")
        with open(os.path.join(directory, "log/metrics.jsonl"), encoding="utf-8") as file:
            channels.append(json.loads(file.readline())["start"]["channels"])
    check(channels[0] - channels[1] == 3, f"channels on one host and on two: {channels}")


def main():
    with Scratch() as scratch:
        reference = train(scratch("reference"), **FIXED)["param_hash"]
        check_channels(scratch, reference)
        check_launchers(scratch, reference)
        check_srun(scratch, reference)
        check_containers(scratch)
        need_mpi()
        check_refusals(scratch)
        check_mpirun(scratch, reference)
        check_ppo(scratch)
        check_rounded(scratch)
        print(f"one host ends in {reference} each time")
        check_nodes(scratch, reference)


main()
