#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torchrun and torch.distributed.launch, of Debian's PyTorch 1.13 and of a present one: the ranks find each other
through the agent's store where it keeps MASTER_PORT to itself, and without one. Every run ends in the bits of one
rank: on one host, on two nodes, after a rank was killed and torchrun started all again, after SIGTERM, and after
SIGKILL to the agent."""

import functools
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fault"))
from nodes import Nodes, address_of  # noqa: E402
from processes import children, is_running, rank_of  # noqa: E402
from runner import CONFIG, ROOT, RUNNER, SECRET, Scratch, check, environment, free_port, result, sets, skip, train  # noqa: E402

BEGIN = time.monotonic()
SHORT, LONG, ENDLESS = 200, 2000, 10 ** 9  # updates
KEYS = dict(world__shards=2, env__stop_value="1e9", runtime__checkpoint_interval_s=0.05)
# Debian's PyTorch 1.13 does not know Python 3.11's way with flags; a ninth rank's redirection is none.
DEBIAN = ["/usr/bin/torchrun", "--redirects", "9:1", "--tee", "9:1", "--monitor_interval", "0.2"]
PRESENT = os.path.join(ROOT, "build/torch/bin")


def start(launcher, directory, *arguments, prefix=(), ranks=2, updates=SHORT, secret=None, **keys):
    """On one host nothing needs to be typed for the ranks to find and know each other."""
    command = [*prefix, *launcher, f"--nproc_per_node={ranks}", *arguments, "--no_python", RUNNER, "run", CONFIG, "--dir",
               directory, "--resume", *sets(max_train_iter=updates, **KEYS, **keys)]
    env = environment(OMP_NUM_THREADS=1, **({"HEDDLE_SECRET": secret} if secret else {}))
    return subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@functools.lru_cache
def reference(updates):
    with Scratch() as scratch:
        return train(scratch("one"), max_train_iter=updates, **KEYS)["param_hash"]


def finish(runs, directory, what, updates=SHORT):
    outputs = "\n".join(run.communicate(timeout=120)[0] for run in runs)
    check(all(run.returncode == 0 for run in runs), f"{what}: {[run.returncode for run in runs]}\n{outputs}")
    found = result(directory)
    expected = reference(updates)
    check(found["param_hash"] == expected, f"{what}: {found['param_hash']}, not {expected}\n{outputs}")
    check(found["ranks"] == 2, f"{what}: {found['ranks']} ranks")
    print(f"{what}: {time.monotonic() - BEGIN:.0f} s", flush=True)
    return outputs


def wait_for(condition, run, what):
    deadline = time.monotonic() + 60
    while not condition():
        check(run.poll() is None, f"torchrun ended before {what}: {run.poll()}")
        check(time.monotonic() < deadline, f"{what}: not within 60 s")
        time.sleep(0.01)


def wait_for_checkpoint(run, directory):
    """The ranks' process ids, once there is something to go on from."""
    wait_for(lambda: os.path.exists(os.path.join(directory, "ckpt/state/latest")), run, "the first checkpoint")
    return {rank_of(pid): pid for pid in children(run)}


def check_one_host(name, launchers, scratch):
    for number, (launcher, *options) in enumerate(launchers):
        directory = scratch(f"{name}{number}")
        finish([start(launcher, directory, *options)], directory, f"{name}: {' '.join(options)}")


def check_restart(name, launcher, options, scratch):
    """Rank 0 dies, which told the store where it listens."""
    directory = scratch(f"{name}restart")
    run = start(launcher, directory, "--max_restarts=1", *options, updates=LONG)
    try:
        os.kill(wait_for_checkpoint(run, directory)[0], signal.SIGKILL)
        finish([run], directory, f"{name}: rank 0 killed, --max_restarts=1", LONG)
    finally:
        run.kill()


def check_stop(name, launcher, options, scratch, number):
    """The ranks stop with a checkpoint, also where their agent is killed."""
    directory = scratch(f"{name}stop")
    run = start(launcher, directory, *options, updates=ENDLESS)
    try:
        ranks = wait_for_checkpoint(run, directory)
        run.send_signal(number)
        output = run.communicate(timeout=60)[0]
    finally:
        run.kill()
    check(run.returncode != 0 and "continues from this checkpoint" in output, f"{run.returncode}: {output}")
    deadline = time.monotonic() + 60  # a rank has closed its output before it is gone
    while any(map(is_running, ranks.values())):
        check(time.monotonic() < deadline, "a rank is left")
        time.sleep(0.01)
    updates = result(directory)["train_iter"] + SHORT
    finish([start(launcher, directory, *options, updates=updates)], directory, f"{name}: {number.name}, then --resume", updates)


def check_nodes(name, launcher, options_of, scratch, kills=False):
    """Agents that restart their ranks because another one does count no attempt."""
    with Nodes(1000) as nodes:
        directory, before = scratch(f"{name}nodes"), nodes.sent()
        updates = LONG if kills else SHORT
        runs = [start(launcher, directory, "--nnodes=2", "--max_restarts=1", *options_of(node), ranks=1,
                      prefix=nodes.inside(node), updates=updates, secret=SECRET, runtime__transport="tcp")
                for node in range(2)]
        if kills:
            os.kill(next(iter(wait_for_checkpoint(runs[1], directory).values())), signal.SIGKILL)
        what = f"{name}: two nodes, {' '.join(options_of(1))}{', a rank killed' if kills else ''}"
        finish(runs, directory, what, updates)
        check(min(after - b for after, b in zip(nodes.sent(), before)) > 10 ** 6, "nothing crossed the link")


def check_secret(launcher, scratch):
    """Ranks of several nodes, here all on this host, need a secret that was given to them."""
    port = free_port()
    runs = [start(launcher, scratch("secret"), "--nnodes=2", f"--node_rank={node}", "--rdzv_backend=static",
                  f"--master_port={port}", ranks=1) for node in range(2)]
    for run in runs:
        output = run.communicate(timeout=60)[0]
        check(run.returncode != 0 and "2 ranks on several nodes have no secret" in output and "HEDDLE_SECRET" in output,
              f"without a secret: {run.returncode}: {output}")


def static_nodes(node):
    return ["--rdzv_backend=static", f"--node_rank={node}", f"--master_addr={address_of(0)}", "--master_port=29400"]


def c10d_nodes(node):
    return ["--rdzv_backend=c10d", f"--rdzv_endpoint={address_of(0)}:29400", "--rdzv_id=run",
            f"--rdzv_conf=is_host={1 - node},join_timeout=60", f"--local_addr={address_of(node)}"]


def check_debian(scratch):
    if not os.path.exists(DEBIAN[0]):
        print("skipped: there is no torchrun of Debian (python3-torch)")
        return False
    static = ["--rdzv_backend=static", f"--master_port={free_port()}"]
    launch = ["/usr/bin/python3", "-m", "torch.distributed.launch", "--use_env", *DEBIAN[1:]]
    check_one_host("1.13", [(DEBIAN, "--standalone"), (DEBIAN, *static), (launch, f"--master_port={free_port()}")],
                   scratch)
    check_restart("1.13", DEBIAN, static, scratch)
    check_stop("1.13", DEBIAN, static, scratch, signal.SIGKILL)
    check_nodes("1.13", DEBIAN, static_nodes, scratch)
    return True


def check_present(scratch):
    torchrun = os.path.join(PRESENT, "torchrun")
    if not os.path.exists(torchrun):
        print("skipped: there is no build/torch; scripts/torch makes it")
        return False
    launch = [os.path.join(PRESENT, "python"), "-m", "torch.distributed.launch", "--use-env"]
    check_one_host("2.15", [([torchrun], "--standalone"), (launch, f"--master_port={free_port()}")], scratch)
    check_restart("2.15", [torchrun], ["--standalone"], scratch)
    check_stop("2.15", [torchrun], ["--standalone"], scratch, signal.SIGTERM)
    check_nodes("2.15", [torchrun], c10d_nodes, scratch, kills=True)
    check_secret([torchrun], scratch)
    return True


def main():
    with Scratch() as scratch:
        done = [check_debian(scratch), check_present(scratch)]
        if not all(done):
            skip("one version of torchrun is missing")


if __name__ == "__main__":
    main()
