#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs that get one of 15 signals at a random moment: to rank 0, to rank 1, to the launcher or torchrun's agent, to a
worker of a Gymnasium environment, or to all at once; DQN, PPO, SAC, the built-in Pong and a Gymnasium environment;
shared memory, two nodes of our launcher, two nodes of torchrun; gone on with by a restart or by --resume. Each ends in
the bits of a run that nobody touched, and leaves nothing. HD_KILLS=n: how many (300); HD_FAULT_SEED: which moments."""

import collections
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fault"))
from processes import (CONFIG, PPO, ROOT, check, check_left, children, end, environment, free_port,  # noqa: E402
                       rank_of, sets, start)
from runner import SECRET, Scratch, result, train  # noqa: E402

KILLS = int(os.environ.get("HD_KILLS", "300"))
SEED = int(os.environ.get("HD_FAULT_SEED", "1"))
NUMBERS = [getattr(signal, "SIG" + name) for name in ("HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR2 SEGV ALRM TERM "
                                                      "XCPU SYS").split()]
TARGETS = ("rank 0", "rank 1", "launcher", "worker", "group")
TORCHRUN = os.path.join(ROOT, "build/torch/bin/torchrun")
WAYS = ("shm", "nodes", *["torchrun"] * os.path.exists(TORCHRUN))
RUNS = {  # config, keys, seconds within which the signal comes
    "dqn": (CONFIG, dict(env__stop_value="1e9", max_train_iter=1200, world__shards=4), 1.5),
    "ppo": (PPO, dict(env__stop_value="1e9", max_train_iter=2000, world__shards=2, strategy__policy_lag=1,
                      strategy__eval_lag=1, strategy__batch_buffers=2), 1.5),
    "pong": (os.path.join(ROOT, "configs/pixel_pong_dqn_ddp.yaml"),
             dict(env__stop_value="1e9", max_train_iter=40, world__shards=2, strategy__eval_lag=1,
                  policy__other__replay_buffer__replay_buffer_size=2000), 5),
    "sac": (os.path.join(ROOT, "configs/pendulum_sac.yaml"),
            dict(env__stop_value="1e9", max_train_iter=600, world__shards=2, policy__model__layers="[{dense: 32}, relu]",
                 policy__random_collect_size=200), 2.5),
}
GYM = os.path.join(ROOT, "configs/gym_cartpole_dqn.yaml")
if os.path.exists(os.path.join(ROOT, "build/plugins/gymnasium")):
    RUNS["gymnasium"] = (GYM, dict(env__stop_value="1e9", max_train_iter=800, world__shards=2), 5)


Process = collections.namedtuple("Process", "pid")


def launch(way, env, *options):
    """The launchers of a run with two ranks."""
    port = free_port()
    if way == "torchrun":
        agent = [TORCHRUN, "--nnodes=2", "--nproc_per_node=1", "--rdzv_backend=static", "--master_addr=127.0.0.1",
                 f"--master_port={port}", "--no_python"]
        return [start("run", *options, *sets(runtime__transport="tcp"), env=env, prefix=[*agent, f"--node_rank={node}"])
                for node in range(2)]
    if way != "nodes":
        return [start("launch", "--nproc-per-node", "2", *options, *sets(runtime__transport=way), env=env)]
    return [start("launch", "--nnodes", "2", "--node-rank", str(node), "--master-addr", "127.0.0.1", "--master-port",
                  str(port), *options, *sets(runtime__transport="tcp"), env=env) for node in range(2)]


def disturb(launchers, target, number):
    """Sends the signal; returns the processes of the run, and whether it got the signal."""
    ranks = {}
    for launcher in launchers:
        for pid in children(launcher):
            try:
                ranks[rank_of(pid)] = pid
            except OSError:  # it has gone
                pass
    workers = [pid for rank in ranks.values() for pid in children(Process(rank))]
    pids = [launcher.pid for launcher in launchers] + list(ranks.values()) + workers
    chosen = {"launcher": pids[:1], "worker": workers[:1], "group": pids}.get(target)
    if chosen is None:
        chosen = [ranks.get(int(target[-1]), 0)]
    sent = 0
    for pid in chosen:
        try:
            if pid:
                os.kill(pid, number)
                sent += 1
        except ProcessLookupError:
            pass
    return pids, sent > 0


def end_lonely_agents(launchers):
    """An agent of torchrun waits a quarter of an hour for another that died before they met."""
    while all(launcher.poll() is None for launcher in launchers):
        time.sleep(0.05)
    for launcher in launchers:
        try:
            launcher.wait(20)
        except subprocess.TimeoutExpired:
            launcher.terminate()


def play(name, way, target, number, restarts, draw, scratch):
    """One run; returns how often it was signalled, and what it ended with."""
    config, keys, seconds = RUNS[name]
    env = environment(TMPDIR=scratch("tmp"), HEDDLE_SECRET=SECRET)
    os.mkdir(scratch("tmp"))
    options = [config, "--dir", scratch("run"), "--quiet", "--resume", *sets(**keys, runtime__checkpoint_interval_s=0.1),
               *(["--max-restarts", "2"] if restarts else [])]
    launchers = launch(way, env, *options)
    time.sleep(draw.uniform(0, seconds) + 2 * (way == "torchrun"))  # whose Python takes a while to start
    pids, sent = disturb(launchers, target, number)
    if way == "torchrun":
        end_lonely_agents(launchers)
    codes = [end(launcher, 90)[0] for launcher in launchers]
    deadline = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)  # ranks die with their launcher
    if any(codes):
        for launcher in launch(way, env, *options):
            code, text, _ = end(launcher, 300)
            check(code == 0, f"--resume: {code}: {text}")
    check_left(scratch("run"), pids)
    parts = [name for _, folders, names in os.walk(scratch("run")) for name in folders + names if ".part" in name]
    check(not parts, f"left: {parts}, exit codes {codes}, {result(scratch('run'))['reason']}")
    left = {name for name in os.listdir(scratch("tmp")) if not name.startswith(("torchelastic_", "torchinductor_"))}  # torchrun's own
    check(left <= {f"heddle-{os.getuid()}"}, f"/tmp: {left}")
    return sent, codes


def main():
    draw = random.Random(SEED)
    with Scratch() as scratch:
        hashes = {name: train(scratch(name), config=config, **keys)["param_hash"]
                  for name, (config, keys, _) in RUNS.items()}
    kills, at_once, table = 0, 0, collections.Counter()
    while kills < KILLS:
        name, way, target = draw.choice(list(RUNS)), draw.choice(WAYS), draw.choice(TARGETS)
        number, restarts = NUMBERS[kills % len(NUMBERS)], draw.random() < 0.5
        how = f"round {kills}: {name} {way}, {number.name} to {target}{', restarts' if restarts else ''}"
        with Scratch() as scratch:
            try:
                sent, codes = play(name, way, target, number, restarts and way == "shm", draw, scratch)
                found = result(scratch("run"))["param_hash"]
            except SystemExit as error:
                sys.exit(f"{how}: {error}")
        check(found == hashes[name], f"{how}: {found}, not {hashes[name]}")
        kills += sent
        table[f"{name} {way} {target}"] += sent
        at_once += sent and not any(codes)
        print(f"{how}: {codes}", flush=True)
    print(*(f"{n:4d} {what}" for what, n in sorted(table.items()) if n), sep="\n")
    print(f"{kills} kills (HD_FAULT_SEED={SEED}), {at_once} of which a restart mended: the same bits, nothing left")


main()
