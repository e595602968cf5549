#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`runner launch --nnodes MIN:MAX`: nodes join late, leave, die, vanish from the network and come back; the master's
node goes; ranks fail; launchers that do not fit want to join. Every run ends in the bits of one that nobody touched."""

import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from elastic import STOPPED, Job, children  # noqa: E402
from nodes import Nodes, address_of  # noqa: E402
from processes import check, environment, is_running, sets  # noqa: E402
from runner import CONFIG, SECRET, Scratch, call, free_port, result  # noqa: E402

FIRST = "node 0 of 2, ranks 0 to 1 of 4"
SECOND = "node 1 of 2, ranks 2 to 3 of 4"
ALONE = "node 0 of 1, ranks 0 to 1 of 2"
AGAIN = ", from the newest good checkpoint"


def check_come_and_go(scratch):
    """A node joins late and is told to leave; a spare node takes its place and is killed."""
    with Job(scratch, "go") as job:
        master = job.start()
        job.wait_for_training()
        second = job.start()
        second.wait_for(SECOND + AGAIN)
        third = job.start()
        third.wait_for("round 2 has 2 nodes: this one waits as a spare")
        job.wait_for_training()
        second.send(signal.SIGTERM)
        second.end(STOPPED)
        third.wait_for(SECOND + AGAIN)
        job.wait_for_training()
        ranks = third.ranks()
        check(len(ranks) == 2, f"ranks {ranks}")
        third.send(signal.SIGKILL)
        master.wait_for("is gone: 1 node is left")
        master.wait_for(ALONE + AGAIN)
        check(not any(map(is_running, ranks)), "a rank outlives its launcher")
        job.wait_for_training()
        said = job.stop()
        check(said.count("round ") == 5, f"a round for each change, and one line that one ends: {said}")
        check(result(job.directory)["reason"] == "stopped", "result.json")
        updates = job.finish()
    print(f"nodes that join late, leave, die and replace each other: same bits after {updates} updates")


def check_failures(scratch):
    """Ranks that fail count, nodes that come do not."""
    with Job(scratch, "failures") as job:
        launchers = [job.start("--max-restarts", "1", "--node-rank", str(node)) for node in range(2)]
        for restarts in range(2):
            job.wait_for_training()
            os.kill(launchers[1].ranks()[restarts], signal.SIGKILL)
            if restarts == 0:
                launchers[0].wait_for("restart 1 of 1 in 0.5 s")
        said = [launcher.end(1) for launcher in launchers]
        for text in said:
            check("the job has ended: rank 3 (pid " in text and "was killed by signal 9" in text, text)
        check(result(job.directory)["reason"] == "failed", "result.json")
        job.finish()
    print("a rank that is killed twice with one restart: told on both nodes")


def check_master(scratch, number, code, text):
    """The launcher of the master's node ends; the others end with it, and can go on."""
    with Job(scratch, number.name) as job:
        master, second = job.start("--node-rank", "0"), job.start("--node-rank", "1")
        job.wait_for_training()
        coordinator = [pid for pid in children(master.process.pid) if pid not in master.ranks()]
        check(len(coordinator) == 1, f"{coordinator} beside the ranks")
        master.send(number)
        check(text in second.end(code, 20), second.said())
        master.process.wait()
        limit = time.monotonic() + 5
        while is_running(coordinator[0]) and time.monotonic() < limit:
            time.sleep(0.02)
        check(not is_running(coordinator[0]), "the coordinator is left")
        job.finish()
    print(f"{number.name} to the launcher of the master's node ends all")


def check_refused(scratch):
    """Who would not fit is told so, and the run goes on; so is who finds no job."""
    with Job(scratch, "refused", nnodes="2:3") as job:
        master = job.start()
        master.wait_for("waiting for 1 more node: 1 of at least 2 is here")
        cases = ((["--nproc-per-node", "1"], "--nproc-per-node is 1 on"), (["--nnodes", "1:3"], "--nnodes is 1:3 on"),
                 (["--set", "seed=7"], "the configuration on"))
        for options, text in cases:
            check("the job refuses this launcher: " + text in job.start(*options).end(2),
                  f"{options}: {job.launchers[-1].said()}")
            check(master.said().count("refused a launcher that wanted to join") == 1 + cases.index((options, text)),
                  master.said())
        other = job.start(secret="another secret, of somebody who is unknown", timeout_s=1)
        check("does not know the run's secret" in other.end(1), other.said())
        master.send(signal.SIGINT)
        master.end(130)
        late = job.start("--node-rank", "1", timeout_s=1)
        check("cannot join the job at 127.0.0.1 port" in late.end(1), late.said())
    print("launchers that do not fit are refused")


def check_words(scratch):
    """Ranges that mean nothing are refused before anything starts."""
    env = environment(HEDDLE_SECRET=SECRET)
    for words, text in ((["3:2"], "found '3:2'"), (["0:2"], "found '0:2'"), ([":2"], "found ':2'"),
                        (["1:x"], "found '1:x'"), (["3:3"], "cannot be divided among")):
        command = ["launch", "--nnodes", *words, "--nproc-per-node", "1", "--master-addr", "127.0.0.1", "--master-port",
                   str(free_port()), CONFIG, "--dir", scratch("words"), *sets(world__shards=4)]
        done = call(*command, env=env, expect=2)
        check(text in done.stderr, f"{words}: {done.stderr}")
    check(not os.path.exists(scratch("words")), "a run directory was made")


def check_network(scratch):
    """A node vanishes from the network and comes back, another one joins late; then the master's node vanishes."""
    with Nodes(1000, 3) as nodes:
        with Job(scratch, "network", address=address_of(0), nodes=nodes) as job:
            master, second = job.start(node=0), job.start(node=1)
            second.wait_for(SECOND)
            job.wait_for_training()
            ranks = second.ranks()
            nodes.set_link(1, "down")
            begin = time.monotonic()
            second.wait_for("is lost: the ranks of this node have ended")
            check(not any(map(is_running, ranks)), "ranks of a node that is cut off are left")
            master.wait_for("has not answered for")
            master.wait_for(ALONE + AGAIN)
            print(f"a node that vanishes: the others go on after {time.monotonic() - begin:.1f} s")
            job.wait_for_training()
            nodes.set_link(1, "up")
            master.wait_for(FIRST, times=2)
            second.wait_for(SECOND, times=2)
            third = job.start(node=2)
            third.wait_for("this one waits as a spare")
            job.wait_for_training()
            nodes.set_link(1, "down")
            third.wait_for(SECOND + AGAIN)
            job.wait_for_training()
            nodes.set_link(0, "down")
            second.end(1)
            check("cannot join the job at 10.77.0.1 port" in third.end(1), third.said())
            master.wait_for(ALONE, times=2)
            master.send(signal.SIGKILL)  # and all that is of its node
            master.process.wait()
            for node in range(2):
                nodes.set_link(node, "up")
            job.finish(nodes=(1, 0))
    print("the network takes nodes away and gives them back: same bits")


def main():
    with Scratch() as scratch:
        check_words(scratch)
        check_come_and_go(scratch)
        check_failures(scratch)
        check_master(scratch, signal.SIGTERM, STOPPED, "the launcher of the master's node was told to end")
        check_master(scratch, signal.SIGKILL, 1, "the launcher of the master's node has ended")
        check_refused(scratch)
        check_network(scratch)


main()
