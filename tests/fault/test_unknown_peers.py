#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unknown peers, other users of the host and ranks without the secret change nothing: neither what a run ends in
nor whether it ends, while it starts and while it runs. tests/long/test_unknown_peers.py does it a hundred times."""

import hashlib
import os
import re
import resource
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import attacks  # noqa: E402
from processes import (CONFIG, build_library, check, children, end, environment, errors, free_port, rank_of, start,
                       wait_for_training)
from runner import SECRET, Scratch, result, sets, skip, train

FIXED = dict(env__stop_value="1e9", max_train_iter=60)
LINKS = sets(runtime__transport="tcp", **FIXED)


def by_hand(rank, port, directory, secret=SECRET, options=LINKS, user=None, **more):
    env = environment(RANK=rank, WORLD_SIZE=2, LOCAL_RANK=0, LOCAL_WORLD_SIZE=1, MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=port, HEDDLE_SECRET=secret, **more)
    if user is None:
        return start("run", CONFIG, "--dir", directory, "--quiet", *options, env=env)
    return subprocess.Popen([os.environ.get("HD_RUNNER", "build/runner"), "run", CONFIG, "--dir", directory, "--quiet",
                             *options], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True, preexec_fn=user)


def wait_for_port(process, port=None, n=1):
    """The ports of a rank that starts, once there are n."""
    limit = time.monotonic() + 20
    while len(ports := attacks.listening_ports(process.pid)) < n:
        check(time.monotonic() < limit and process.poll() is None, "rank 0 does not listen")
        time.sleep(0.002)
    return ports - {port}


def finish(ranks, directory, reference, what):
    begin = time.monotonic()
    texts = []
    for rank in ranks:
        code, text, _ = end(rank, 30)
        check(code == 0, f"{what}: exit code {code}: {text}")
        texts.append(text)
    check(result(directory)["param_hash"] == reference, f"{what}: other bits")
    check(texts[0].count("warning: dropped a connection") <= 2, f"{what}: told more than once: {texts[0]}")
    return texts[0], time.monotonic() - begin


def wait_all(pids):
    for pid in pids:
        check(os.waitpid(pid, 0)[1] == 0, "an attack was answered")


def check_at_start(scratch, reference):
    """All the attacks meet rank 0 while it waits for rank 1: of another user, and of this one."""
    port = free_port()
    ranks = [by_hand(0, port, scratch("start"))]
    wait_for_port(ranks[0])
    kinds = (*attacks.BYTES, *attacks.HELLOS)
    if os.geteuid() == 0:
        wait_all([attacks.as_nobody(attack, port) for attack in kinds])
    for attack in kinds:
        attack(port)
    slow = attacks.hold(port, 60, b"HED")
    ranks.append(by_hand(1, port, scratch("start")))
    text, _ = finish(ranks, scratch("start"), reference, "attacks at the start")
    check("dropped a connection from 127.0.0.1 port " in text, text)
    del slow
    print(f"{len(kinds)} attacks at the start, of another user and of this one: same bits, told once")


def check_replay(scratch, reference):
    """What rank 1 said is worth nothing on another connection, before and after it has joined."""
    port = free_port()
    root = by_hand(0, port, scratch("replay"))
    wait_for_port(root)
    recorder = attacks.Recorder(port)
    ranks = [root, by_hand(1, recorder.port, scratch("replay"), options=sets(**FIXED))]
    other = free_port()
    second = by_hand(0, other, scratch("again"))
    wait_for_port(second)
    limit = time.monotonic() + 20
    while len(recorder.said) < 1000 and time.monotonic() < limit:
        time.sleep(0.01)
    attacks.replay(other, recorder.said)
    both = [second, by_hand(1, other, scratch("again"))]
    finish(both, scratch("again"), reference, "a hello replayed to another run of the same secret")
    for rank in ranks:
        end(rank, 30)
    print("a hello replayed: dropped")


def check_speaker(scratch):
    """The attacks speak the protocol: with the secret, rank 0 hears the same hello, and refuses its config."""
    port = free_port()
    root = by_hand(0, port, scratch("speaker"))
    wait_for_port(root)
    key = hashlib.blake2b(SECRET.encode(), digest_size=32).digest()
    answer = attacks.say_hello(port, secret=key)
    check(answer[6] == attacks.WELCOME, f"a perfect hello with the secret: {answer[:16]}")
    code, text, _ = end(root, 20)
    check(code in (1, 2) and "rank 1" in text, f"a rank that leaves: {code}: {text}")


POISON = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/uio.h>
/* Negates the numbers that this rank sends to others. */
ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    ssize_t (*next)(int, const struct msghdr *, int) = dlsym(RTLD_NEXT, "sendmsg");
    for (size_t i = 0; i < m->msg_iovlen; i++)
        for (size_t b = 3; m->msg_iov[i].iov_len > 1000 && b < m->msg_iov[i].iov_len; b += 4)
            ((char *)m->msg_iov[i].iov_base)[b] ^= 0x80;
    return next(fd, m, flags);
}
"""


def check_poisoned(scratch, reference):
    """A rank 1 of another user comes first, and is refused until it gives up; the true one joins afterwards."""
    library = build_library(scratch("poison.so"), POISON)
    os.chmod(scratch.path, 0o755)
    port = free_port()
    ranks = [by_hand(0, port, scratch("poison"))]
    wait_for_port(ranks[0])
    evil = by_hand(1, port, "/tmp", secret=SECRET[::-1], user=attacks.become_nobody, LD_PRELOAD=library,
                   HD_RENDEZVOUS_TIMEOUT_S=3, HOME="/tmp")
    code, text, _ = end(evil, 20)
    check(code == 1 and "cannot reach rank 0" in text, f"the poisoned rank: {code}: {text}")
    ranks.append(by_hand(1, port, scratch("poison")))
    finish(ranks, scratch("poison"), reference, "a poisoned rank")
    print("a poisoned rank of another user: refused, same bits")


def check_silent(scratch, reference):
    """2,000 silent connections to the rendezvous."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    port = free_port()
    ranks = [by_hand(0, port, scratch("silent"))]
    wait_for_port(ranks[0])
    held = attacks.hold(port, min(hard, 4096) - 200 if hard < 2200 else 2000)
    begin = time.monotonic()
    ranks.append(by_hand(1, port, scratch("silent")))
    finish(ranks, scratch("silent"), reference, "silent connections")
    seconds = time.monotonic() - begin
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    print(f"{len(held)} silent connections: same bits after {seconds:.1f} s")


def check_running(scratch):
    """Nobody listens once all ranks of a host have joined, so there is nothing left to attack."""
    launcher = start("launch", "--nproc-per-node", "2", CONFIG, "--dir", scratch("running"), "--quiet",
                     *sets(env__stop_value="1e9", max_train_iter=10**9))
    wait_for_training(launcher, scratch("running"))
    for pid in (launcher.pid, *children(launcher)):
        check(not attacks.listening_ports(pid), "a rank listens while it trains")
    launcher.send_signal(signal.SIGTERM)
    code, text, _ = end(launcher, 20)
    check(code == 75, f"{code}: {text}")
    print("nothing listens while a run of one host trains")


def check_links(scratch, reference):
    """Ranks of several hosts listen for their partners until these have come; rank 1 is late."""
    port, late = free_port(), build_library(scratch("late.so"), attacks.LATE_HELLO)
    ranks = [by_hand(0, port, scratch("links"))]
    wait_for_port(ranks[0])
    ranks.append(by_hand(1, port, scratch("links"), LD_PRELOAD=late, LATE_US=4000000))
    while not (linked := attacks.listening_ports(ranks[0].pid) - {port}):
        check(ranks[0].poll() is None, "rank 0 has ended")
    held = []
    for link in linked:
        held += attacks.hold(link, 300) + attacks.hold(link, 40, b"HED")
        for attack in (*attacks.BYTES, *attacks.HELLOS):
            attack(link)
        if os.geteuid() == 0:
            wait_all([attacks.as_nobody(attack, link) for attack in attacks.BYTES])
    check(attacks.listening_ports(ranks[0].pid) == linked, "rank 0 does not wait for its partner any more")
    finish(ranks, scratch("links"), reference, "attacks on the links' ports")
    print(f"{len(linked)} ports of links, {len(held)} silent connections and all attacks: same bits")


def check_links_running(scratch):
    """Nor does anybody listen between hosts once all are connected."""
    port = free_port()
    ranks = [by_hand(rank, port, scratch("far"), options=sets(runtime__transport="tcp", env__stop_value="1e9",
                                                              max_train_iter=10**9)) for rank in range(2)]
    wait_for_training(ranks[0], scratch("far"))
    check(not any(attacks.listening_ports(rank.pid) for rank in ranks), "a rank of several hosts listens while it trains")
    ranks[0].send_signal(signal.SIGTERM)
    for rank in ranks:
        code, text, _ = end(rank, 30)
        check(code == 75, f"{code}: {text}")
    print("nothing listens while a run of several hosts trains")


def catches(pid, number):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        caught = int(re.search(r"^SigCgt:\s*(\w+)", file.read(), re.M).group(1), 16)
    return caught >> (number - 1) & 1


def check_signal_at_start():
    """SIGTERM to one rank that starts: all stop, and nobody waits for it."""
    for delay in (0.0, 0.05, 0.15):
        with Scratch() as scratch:
            launcher = start("launch", "--nproc-per-node", "2", CONFIG, "--dir", scratch("run"), "--quiet",
                             *sets(env__stop_value="1e9", max_train_iter=10**9))
            while len(pids := children(launcher)) < 2:
                time.sleep(0.001)
            rank_of(pids[1])  # waits until it is a program of its own
            while delay > 0 and not catches(pids[1], signal.SIGTERM):
                time.sleep(0.001)
            time.sleep(delay)
            os.kill(pids[1], signal.SIGTERM)
            code, text, _ = end(launcher, 20)
            # A signal before the rank's first line kills it.
            check(code == 75 or (delay == 0 and code == 1), f"{delay} s after the start: {code}: {text}")
            check("does not run" not in text, text)
    print("SIGTERM to a rank that starts stops all at once")


def check_waiting():
    """Who waits says so after three seconds."""
    with Scratch() as scratch:
        alone = environment(RANK=0, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port(),
                            HEDDLE_SECRET=SECRET, HD_RENDEZVOUS_TIMEOUT_S=4)
        ranks = [start("run", CONFIG, "--dir", scratch("alone"), env=alone),
                 start("launch", CONFIG, "--nnodes", "2", "--node-rank", "1", "--master-addr", "no.such.host.invalid",
                       "--dir", scratch("lost"),
                       env=environment(HEDDLE_SECRET=SECRET, HD_RENDEZVOUS_TIMEOUT_S=4))]
        texts = ["".join(rank.communicate(timeout=60)) for rank in ranks]
    check("waiting for rank 1 of 2 at 127.0.0.1 port " in texts[0] and len(errors(texts[0])) == 1, texts[0])
    check("waiting for rank 0 at no.such.host.invalid port 29500: " in texts[1], texts[1])
    print("who waits says for whom")


def check_without_secret():
    with Scratch() as scratch:
        command = ["launch", CONFIG, "--nnodes", "2", "--master-addr", "127.0.0.1", "--dir", scratch("x")]
        code, text, _ = end(start(*command), 10)
        check(code == 2 and "--secret-file" in text and "--insecure" in text, f"{code}: {text}")
        with open(scratch("secret"), "wb") as file:
            file.write(os.urandom(32))
        os.chmod(scratch("secret"), 0o644)
        code, text, _ = end(start(*command, "--secret-file", scratch("secret")), 10)
        check(code == 2 and f"chmod 600 {scratch('secret')}" in text, f"{code}: {text}")


def main():
    with Scratch() as scratch:
        reference = train(scratch("reference"), **FIXED)["param_hash"]
        check_without_secret()
        check_waiting()
        check_signal_at_start()
        check_speaker(scratch)
        check_at_start(scratch, reference)
        check_replay(scratch, reference)
        check_silent(scratch, reference)
        check_running(scratch)
        check_links(scratch, reference)
        check_links_running(scratch)
        if os.geteuid() != 0:
            skip("only root can run a rank as another user; all else passed")
        check_poisoned(scratch, reference)


main()
