#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job of one to four nodes in network namespaces: at random moments a node joins, is told to leave, is killed, is cut
off or gets its network back. The run ends in the bits of one that nobody touched. HD_CHANGES=n: how many changes (20);
HD_FAULT_SEED: which."""

import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fault"))
from elastic import STOPPED, Job  # noqa: E402
from nodes import Nodes, address_of  # noqa: E402
from runner import Scratch, check  # noqa: E402

CHANGES = int(os.environ.get("HD_CHANGES", "20"))
SEED = int(os.environ.get("HD_FAULT_SEED", "1"))
NODES = 4


class Player:
    """Brings nodes and takes them away; node 0 is the master's and stays."""

    def __init__(self, job, nodes, draw):
        self.job, self.nodes, self.draw = job, nodes, draw
        self.running, self.cut = {}, set()

    def join(self, node):
        self.running[node] = self.job.start("--quiet", node=node, timeout_s=60)

    def leave(self, node):
        """A launcher that has not begun to watch for signals yet returns 75 as well."""
        self.running[node].send(signal.SIGTERM)
        self.running.pop(node).end(STOPPED)

    def kill(self, node):
        self.running[node].send(signal.SIGKILL)
        self.running.pop(node).end(-signal.SIGKILL)

    def take_network(self, node):
        self.nodes.set_link(node, "down")
        self.cut.add(node)

    def give_network(self, node):
        self.nodes.set_link(node, "up")
        self.cut.remove(node)

    def change(self):
        """One change at a node; returns it in words."""
        node = self.draw.randrange(1, NODES)
        if node in self.cut:
            change = self.give_network
        elif node in self.running:
            change = self.draw.choice((self.leave, self.kill, self.take_network))
        else:
            change = self.join
        change(node)
        return f"{change.__name__.replace('_', ' ')} {node}"


def main():
    draw = random.Random(SEED)
    with Scratch() as scratch, Nodes(1000, NODES) as nodes, \
            Job(scratch, "job", nnodes=f"1:{NODES}", address=address_of(0), nodes=nodes, world__shards=8,
                runtime__heartbeat_timeout_s=4) as job:
        master = job.start(node=0)
        player = Player(job, nodes, draw)
        job.wait_for_training()
        for number in range(CHANGES):
            print(f"change {number}: {player.change()}", flush=True)
            time.sleep(draw.choice((0, 0.5, 2, 5, 8)))
            if draw.random() < 0.5:
                job.wait_for_training(60)
        for node in list(player.cut):
            player.give_network(node)
        job.wait_for_training(120)
        said = job.stop()
        for launcher in player.running.values():
            launcher.process.wait(120)
        rounds = said.count("node 0 of ")
        check(rounds > CHANGES // 4, f"{rounds} rounds are too few for {CHANGES} changes: {said}")
        updates = job.finish(nodes=range(NODES))
    print(f"{CHANGES} changes (HD_FAULT_SEED={SEED}), {rounds} rounds, {updates} updates: the same bits")


main()
