# SPDX-License-Identifier: Apache-2.0
"""usage: bench/nodes [--config CONFIG] [--mbit 1000,10000] [--strategies serial,bucketed:bucket_mb=2]
                   [--transports mpi,ucx] [--updates N] [--repeats N] [OPTION ...]

Trains on two nodes, a rank each: network namespaces of this machine, joined by a link that is shaped to
each of the given speeds (Mbit/s). Prints updates/s, the share of time in which only communication went
on, and what crossed the link per update, for each strategy (NAME, or NAME:PARAMETER=VALUE with one of its
numbers changed); strategies without lags must end in one param_hash. Needs root, iproute2 and an mpirun. Other options go to `runner`."""

import argparse
import json
import os
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests"))
from machine import ROOT, machine  # noqa: E402
from nodes import Nodes, need_mpi  # noqa: E402


def read_arguments():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=True)
    parser.add_argument("--config", default="configs/pixel_pong_dqn_ddp.yaml")
    parser.add_argument("--mbit", default="1000,10000")
    parser.add_argument("--strategies", default="serial,bucketed:bucket_mb=2")
    parser.add_argument("--transports", default="mpi")
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    return parser.parse_known_args()


def measure(nodes, options, more, strategy, transport):
    with tempfile.TemporaryDirectory(prefix="heddle-nodes-") as scratch:
        directory = os.path.join(scratch, "run")
        before = sum(nodes.sent())
        name, _, parameter = strategy.partition(":")
        more = [*more, *(["--set", f"strategy.{parameter}"] if parameter else [])]
        done = nodes.mpirun(1, "run", options.config, "--strategy", name, "--dir", directory, "--quiet",
                            "--measure-after", str(options.warmup), "--set",
                            f"max_train_iter={options.warmup + options.updates}", "--set",
                            "env.stop_value=1e9", "--set", f"runtime.transport={transport}", *more,
                            timeout=600)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        with open(os.path.join(directory, "rates.json"), encoding="utf-8") as file:
            rates = json.load(file)
        rates["link_bytes"] = (sum(nodes.sent()) - before) / 2 / (options.warmup + options.updates)
        return rates


def show(mbit, transport, strategy, runs):
    rate = statistics.median(run["updates"] / run["seconds"] for run in runs)
    exposed = statistics.median(run["exposed_s"] / run["seconds"] for run in runs)
    busy = statistics.median(run["busy_s"] / run["seconds"] / run["workers"] for run in runs)
    crossed = statistics.median(run["link_bytes"] for run in runs) / 1e6
    print(f"{mbit:>7} {transport:>9} {strategy:>24} {rate:>10.2f} {1000 / rate:>10.1f} "
          f"{1000 * exposed / rate:>10.1f} {100 * exposed:>8.1f} % {100 * busy:>4.0f} % {crossed:>8.2f}  "
          f"{runs[0]['param_hash']}", flush=True)


def main():
    options, more = read_arguments()
    os.chdir(ROOT)
    need_mpi()
    strategies, transports = options.strategies.split(","), options.transports.split(",")
    print(f"{options.config} on two nodes of one rank each ({machine()}); {options.updates} updates, median of "
          f"{options.repeats}\n")
    print(" Mbit/s transport                 strategy  updates/s  ms/update exposed ms    exposed   busy MB/update  param_hash")
    hashes = set()
    with Nodes(1000) as nodes:
        for mbit in map(int, options.mbit.split(",")):
            nodes.set_rate(mbit)
            runs = {(t, s): [] for t in transports for s in strategies}
            for _ in range(options.repeats):
                for (transport, strategy), found in runs.items():
                    found.append(measure(nodes, options, more, strategy, transport))
            for (transport, strategy), found in runs.items():
                show(mbit, transport, strategy, found)
                hashes |= {run["param_hash"] for run in found}
    if len(hashes) > 1:
        sys.exit(f"runs ended in different parameters: {hashes}")


main()
