# SPDX-License-Identifier: Apache-2.0
"""One rank of PyTorch's DDP over gloo, with torchrun's variables: NET BATCH SECONDS [HOOK]. HOOK: `fp16` or `bf16`, in which
gradients are sent. Rank 0 prints a line of JSON: milliseconds of an update, how many were measured, and how many there
were. Without WORLD_SIZE it trains alone."""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from learner import Dqn

WARM_UP = 3


HOOKS = {"fp16": default_hooks.fp16_compress_hook, "bf16": default_hooks.bf16_compress_hook}


def main(net, batch, seconds, hook=None):
    ranks, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    learner = Dqn(net, ["channels_last"])
    if ranks > 1:
        dist.init_process_group("gloo", rank=rank, world_size=ranks)
        learner.trained = DistributedDataParallel(learner.online, gradient_as_bucket_view=True)
        if hook:
            learner.trained.register_comm_hook(None, HOOKS[hook])
    rows = Dqn.make_batch(int(batch), seed=rank)

    def update(times):
        begin = time.perf_counter()
        for _ in range(times):
            learner.update(rows, None)
        return (time.perf_counter() - begin) / times

    one = torch.tensor(update(WARM_UP))
    if ranks > 1:
        dist.all_reduce(one, dist.ReduceOp.MAX)
    times = max(5, int(float(seconds) / one.item()))
    spent = update(times)
    if rank == 0:
        print(json.dumps({"ms": 1e3 * spent, "measured": times, "updates": times + WARM_UP}), flush=True)
    if ranks > 1:
        dist.barrier()
        dist.destroy_process_group()
    os._exit(0)  # PyTorch's own threads sometimes end a process that exits by `terminate`


main(*sys.argv[1:])
