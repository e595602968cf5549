# SPDX-License-Identifier: Apache-2.0
"""One rank: the lists that torch's DistributedSampler deals, to it in its group and to all in others. Cases of
[samples, shards, shuffle, drop_last, epochs] come in, lists [case][shard][epoch] go out; shards None is the group."""

import json
import sys

import torch.distributed as dist
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def lists_of(sampler, epochs):
    """Through a DataLoader, as it is used."""
    lists = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        batches = DataLoader(range(len(sampler.dataset)), batch_size=4, sampler=sampler)
        lists.append([int(i) for batch in batches for i in batch])
    return lists


def deal(samples, shards, shuffle, drop_last, epochs):
    if shards is None:
        mine = lists_of(DistributedSampler(range(samples), shuffle=shuffle, drop_last=drop_last), epochs)
        everyone = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, mine)
        return everyone
    return [lists_of(DistributedSampler(range(samples), shards, shard, shuffle=shuffle, drop_last=drop_last), epochs)
            for shard in range(shards)]


def main():
    dist.init_process_group("gloo")
    print(json.dumps([deal(*case) for case in json.load(sys.stdin)]))
    dist.destroy_process_group()


main()
