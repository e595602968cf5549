# SPDX-License-Identifier: Apache-2.0
"""A worker that updates in PyTorch: {algorithm, net, way, batch, seconds} -> milliseconds of CPU time that
an update takes (median)."""

import os
import statistics
import time

import torch

from learner import ALGORITHMS
from worker import serve

learners = {}


def warm_learner(algorithm, net, way, batch):
    key = (algorithm, net, *way)
    if key not in learners:
        learners[key] = ALGORITHMS[algorithm](net, way)
        for _ in range(3):
            learners[key].update(batch)
    return learners[key]


def measure(request):
    algorithm = request["algorithm"]
    batch = ALGORITHMS[algorithm].make_batch(request["batch"])
    learner = warm_learner(algorithm, request["net"], request["way"], batch)
    learner.update(batch)
    times, end = [], time.process_time() + request["seconds"]
    while time.process_time() < end or len(times) < 5:
        begin = time.process_time()
        learner.update(batch)
        times.append(time.process_time() - begin)
    return 1e3 * statistics.median(times)


torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
torch.set_flush_denormal(True)
serve(measure)
