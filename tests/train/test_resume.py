#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs that are killed at any moment, stopped, go on with another number of ranks, from damaged
checkpoints or with another config: parameters, returns and logs are those of a run that nobody
touched. HD_KILLS sets the number of kills of the first case."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import runner  # noqa: E402
from runner import ROOT, SLOWDOWN, Scratch, call, check, draw_seed, environment, reduce, result, sets, train  # noqa: E402

KILLS = int(os.environ.get("HD_KILLS", reduce(5)))
DQN = dict(env__stop_value="1e9", max_train_iter=200 * max(KILLS, 5), world__shards=4)
OFTEN = dict(runtime__checkpoint_interval_s=0.1)
ENDLESS = dict(max_train_iter=10**12)
WALL_CLOCK = re.compile(r"\| \S*(?:time|_per_sec)\S* +\| +\S+ ")


def command(directory, ranks, config, keys, *more):
    head = ["run"] if ranks == 1 else ["launch", "--nproc-per-node", str(ranks)]
    return [runner.RUNNER, *head, config, "--dir", directory, "--quiet", *sets(**keys), *more]


def start(*arguments):
    return subprocess.Popen(command(*arguments), env=environment(), stderr=subprocess.PIPE,
                            text=True, start_new_session=True)


def kill_all(process):
    """A launcher's ranks are groups of their own and die with it."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def text_logs(directory):
    """All text logs, without the wall clock."""
    logs = {}
    for folder, _, files in os.walk(os.path.join(directory, "log")):
        for name in files:
            if name.endswith("_logger.txt"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    text = re.sub(r"(?m)^\[[^\]]*\] ", "", file.read())
                logs[name] = WALL_CLOCK.sub("", text)
    return logs


def check_same(directory, reference):
    keys = ("stop", "env_step", "train_iter", "eval_value", "eval_value_raw", "param_hash", "reason")
    a, b = result(directory), result(reference)
    check([a[key] for key in keys] == [b[key] for key in keys], f"{a}\n{b}")
    logs, expected = text_logs(directory), text_logs(reference)
    check(sorted(logs) == sorted(expected), f"{sorted(logs)} {sorted(expected)}")
    for name, text in logs.items():
        for line, (x, y) in enumerate(zip(text.split("\n"), expected[name].split("\n"), strict=True)):
            check(x == y, f"{name}:{line + 1}: {x}\n{y}")


def latest(directory):
    try:
        return os.readlink(os.path.join(directory, "ckpt/state/latest"))
    except OSError:
        return None


def wait_for_checkpoint(directory, process, after=None):
    """Returns whether one came before the run ended."""
    for _ in range(6000):
        if latest(directory) != after:
            return True
        if process.poll() is not None:
            return False
        time.sleep(0.01)
    sys.exit("failed: no checkpoint came")


def check_kills(scratch, name, config, keys, ranks, kills):
    """Killed so many times and gone on with by some number of ranks: at a random moment, start-up
    included, or at one after the next checkpoint, so that the run comes to its end. A run that ends
    before a kill came after a checkpoint is done again, with kills that come earlier."""
    draw = random.Random(draw_seed())
    reference, directory = scratch(name), scratch(name + "_killed")
    train(reference, config=config, ranks=ranks[0], **keys)
    done, resumed, soon = 0, 0, 1.0
    while done < kills:
        before = latest(directory)
        process = start(directory, draw.choice(ranks), config, dict(keys, **OFTEN), "--resume")
        if done % 2 == 0:
            wait_for_checkpoint(directory, process, before)
        try:
            _, said = process.communicate(timeout=soon * draw.uniform(0, 0.3 if done % 2 == 0 else 1.2))
            check(process.returncode == 0, said)
            if resumed > 0:
                break
            shutil.rmtree(directory)
            done, soon = 0, soon / 2
        except subprocess.TimeoutExpired:
            kill_all(process)
            done += 1
            resumed += latest(directory) is not None
    train(directory, "--resume", config=config, ranks=draw.choice(ranks), **keys)
    check_same(directory, reference)
    check(resumed > 0, "no checkpoint was gone on from")
    print(f"{name}: {done} kills, {resumed} with a checkpoint, one param_hash "
          f"{result(directory)['param_hash']}")


def check_stop(scratch):
    """SIGTERM to the launcher, or to one rank alone, makes a checkpoint and leaves with 75."""
    for ranks, then in ((2, 4), (1, 1)):
        directory, keys = scratch(f"stopped{ranks}"), dict(DQN, runtime__checkpoint_interval_s=0)
        process = start(directory, ranks, runner.CONFIG, dict(keys, **ENDLESS))
        log = os.path.join(directory, "log/evaluator/evaluator_logger.txt")
        while not os.path.exists(log):
            check(process.poll() is None, "it ended early")
            time.sleep(0.01)
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30 * SLOWDOWN)
        check(process.returncode == 75 and "continues from this checkpoint" in said,
              f"{process.returncode} {said}")
        keys["max_train_iter"] = result(directory)["train_iter"] + 200
        train(directory, "--resume", ranks=then, **keys)
        train(scratch(f"whole{ranks}"), **keys)
        check_same(directory, scratch(f"whole{ranks}"))
    print("SIGTERM: 75, then the same bits")


def check_twice(scratch):
    """A checkpoint is requested before the first iteration after the one that the run continues from, to which no link
    leads: the run that wrote it was killed before."""
    directory = scratch("twice")
    keys = dict(DQN, runtime__checkpoint_interval_s=0.0001)
    process = start(directory, 1, runner.CONFIG, keys)
    check(wait_for_checkpoint(directory, process), "it ended before its first checkpoint")
    kill_all(process)
    link = os.path.join(directory, "ckpt/state/latest")
    os.remove(link)
    os.symlink("iteration_0", link)
    done = call("run", runner.CONFIG, "--resume", directory, *sets(**keys))
    check("resuming from update" in done.stderr and "warning" not in done.stderr, done.stderr)
    check_same(directory, scratch("dqn"))
    print("the same checkpoint once more: the same bits")


def check_nothing(scratch):
    """Where there is no checkpoint, a line says that the run is a new one."""
    keys = sets(**dict(DQN, max_train_iter=5))
    for directory in (scratch("new"), scratch("without")):
        done = call("run", runner.CONFIG, "--dir", directory, "--resume", *keys)
        check(f"--resume: there is no run {directory}" in done.stderr, done.stderr)
    os.remove(os.path.join(directory, "result.json"))
    shutil.rmtree(os.path.join(directory, "ckpt/state"), ignore_errors=True)
    done = call("run", runner.CONFIG, "--resume", directory, *keys)
    check(f"--resume: {directory} has no checkpoint" in done.stderr, done.stderr)
    check_same(directory, scratch("new"))
    print("nothing to resume: told")


def check_restarts(scratch):
    """A launcher goes on by itself after a rank's death."""
    directory = scratch("restarted")
    process = start(directory, 2, runner.CONFIG, dict(DQN, runtime__checkpoint_interval_s=0.02), "--max-restarts", "3")
    check(wait_for_checkpoint(directory, process), "it ended before its first checkpoint")
    with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
        os.kill(int(file.read().split()[-1]), signal.SIGKILL)
    _, said = process.communicate(timeout=100 * SLOWDOWN)
    check(process.returncode == 0, said)
    check("signal 9" in said and "restart 1 of 3" in said, said)
    check_same(directory, scratch("dqn"))
    print("--max-restarts: the same bits")


def check_refusals(scratch):
    directory = scratch("damaged")
    train(directory, config=runner.CONFIG, **DQN, runtime__checkpoint_interval_s=0.01)  # two are left
    newest = os.path.realpath(os.path.join(directory, "ckpt/state/latest"))
    keys = dict(DQN, policy__learn__batch_size=32, policy__nstep=3)
    done = call("run", runner.CONFIG, "--resume", directory, *sets(**keys), expect=2)
    check("policy.learn.batch_size: 64 in its total_config.yaml, 32 now" in done.stderr and
          "policy.nstep: 1 in its total_config.yaml, 3 now" in done.stderr and
          "These may differ" in done.stderr, done.stderr)
    holder = start(scratch("held"), 1, runner.CONFIG, {**DQN, **ENDLESS, **OFTEN})
    check(wait_for_checkpoint(scratch("held"), holder), "the run that holds its directory ended")
    done = call("run", runner.CONFIG, "--resume", scratch("held"), *sets(**DQN), expect=2)
    check("another run" in done.stderr, done.stderr)
    kill_all(holder)
    os.remove(os.path.join(directory, "result.json"))  # else it has ended
    with open(os.path.join(newest, "policy"), "r+b") as file:
        first = file.read(1)[0]
        file.seek(0)
        file.write(bytes([first ^ 1]))
    done = call("run", runner.CONFIG, "--resume", directory, *sets(**DQN))
    check("policy is damaged" in done.stderr and "trying" in done.stderr, done.stderr)
    check_same(directory, scratch("dqn"))
    print("refusals and damage: as they should be")


def check_hosts(scratch):
    """Four hosts that exchange by halves keep slices in another order than one host; what they leave, ranks of one host go
    on with. LeakSanitizer has crashed where ranks with UCX ended, so that it does not look at these."""
    env = environment(ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
    keys = dict(env__stop_value="1e9", world__shards=8, strategy__bucket_mb=0.02, strategy__shard_optimizer_above_mb=0,
                runtime__exchange="halves", runtime__transport="tcp", runtime__heartbeat_timeout_s=60, **OFTEN)
    reference = train(scratch("hosts"), **keys, max_train_iter=600)
    for ranks in (1, 4):
        directory = scratch(f"hosts to {ranks}")
        train(directory, ranks=8, nodes=4, env=env, **keys, max_train_iter=300)
        head = ["run"] if ranks == 1 else ["launch", "--nproc-per-node", str(ranks)]
        done = call(*head, runner.CONFIG, "--resume", directory, *sets(**keys, max_train_iter=600), env=env)
        check("resuming from update" in done.stderr, done.stderr)
        found = result(directory)
        check((found["param_hash"], found["train_iter"]) == (reference["param_hash"], 600), f"{found}\n{reference}")
    print(f"8 ranks of 4 hosts, then 1 and 4 ranks of one: {reference['param_hash']}")


def main():
    with Scratch() as scratch:
        check_hosts(scratch)
        check_kills(scratch, "dqn", runner.CONFIG, DQN, (1, 2, 4), KILLS)
        rounded = dict(DQN, max_train_iter=1000, strategy__exchange_precision="int8", strategy__error_feedback=1)
        check_kills(scratch, "rounded", runner.CONFIG, rounded, (1, 2, 4), 2)
        check_stop(scratch)
        check_twice(scratch)
        check_nothing(scratch)
        check_restarts(scratch)
        check_refusals(scratch)
        ppo = dict(env__stop_value="1e9", max_train_iter=2000, world__shards=2,
                   strategy__policy_lag=1, strategy__eval_lag=1, strategy__batch_buffers=2)
        check_kills(scratch, "ppo", os.path.join(ROOT, "configs/cartpole_ppo_ddp.yaml"), ppo, (1, 2),
                    2)
        pixels = dict(env__stop_value="1e9", max_train_iter=60, world__shards=2,
                      strategy__eval_lag=1,
                      policy__other__replay_buffer__replay_buffer_size=2000)
        check_kills(scratch, "pixels", os.path.join(ROOT, "configs/pixel_pong_dqn_ddp.yaml"), pixels,
                    (2, 1), 2)


if __name__ == "__main__":
    main()
