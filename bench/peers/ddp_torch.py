# SPDX-License-Identifier: Apache-2.0
"""A worker of two ranks, one core each, over gloo: {net, way, batch, seconds} -> milliseconds of an update
(median). Ways of exchanging gradients: `none` (two processes that train apart), `ddp` (PyTorch's
DistributedDataParallel), `flat` (one all-reduce of all gradients), `per_tensor` (DI-engine's: two
all-reduces and a look at the result for each tensor)."""

import os
import socket
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch.nn.parallel import DistributedDataParallel

from learner import Dqn
from worker import serve

RANKS = 2


def exchange_flat(net):
    grads = [p.grad for p in net.parameters()]
    flat = torch.cat([g.reshape(-1) for g in grads])
    dist.all_reduce(flat)
    flat /= RANKS
    torch._foreach_copy_(grads, [part.view_as(g) for part, g in
                                 zip(flat.split([g.numel() for g in grads]), grads)])


def exchange_per_tensor(net):
    for p in net.parameters():
        there = torch.tensor(1.0)
        dist.all_reduce(p.grad)
        dist.all_reduce(there)
        if not torch.isclose(there, torch.tensor(0.0)):
            p.grad /= there.item()


EXCHANGES = {"none": None, "ddp": None, "flat": exchange_flat, "per_tensor": exchange_per_tensor}


class Rank:
    def __init__(self):
        self.learners = {}

    def learner(self, net, way):
        if (net, way) not in self.learners:
            learner = Dqn(net, ["channels_last"])
            if way == "ddp":
                learner.trained = DistributedDataParallel(learner.online, gradient_as_bucket_view=True)
            self.learners[net, way] = learner
            self.update(learner, way, 3)
        return self.learners[net, way]

    def update(self, learner, way, times):
        batch = Dqn.make_batch(self.batch, seed=dist.get_rank())
        spent = []
        for _ in range(times):
            begin = time.perf_counter()
            learner.update(batch, EXCHANGES[way])
            spent.append(time.perf_counter() - begin)
        return spent

    def measure(self, request):
        self.batch = request["batch"]
        learner = self.learner(request["net"], request["way"])
        dist.barrier()
        one = torch.tensor(statistics.median(self.update(learner, request["way"], 3)))
        dist.all_reduce(one, dist.ReduceOp.MAX)
        times = max(5, int(request["seconds"] / one.item()))
        dist.barrier()
        spent = torch.tensor(statistics.median(self.update(learner, request["way"], times)))
        dist.all_reduce(spent)
        return 1e3 * spent.item() / RANKS


def run_rank(number, port):
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[number]})
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    dist.init_process_group("gloo", rank=number, world_size=RANKS)
    rank = Rank()

    def answer(request):
        dist.broadcast_object_list([request])
        return rank.measure(request)

    if number == 0:
        serve(answer)
        dist.broadcast_object_list([None])
        return
    request = [None]
    dist.broadcast_object_list(request)
    while request[0]:
        rank.measure(request[0])
        dist.broadcast_object_list(request)


def main():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    other = processes.get_context("spawn").Process(target=run_rank, args=(1, port), daemon=True)
    other.start()
    run_rank(0, port)
    other.join()


if __name__ == "__main__":
    sys.exit(main())
