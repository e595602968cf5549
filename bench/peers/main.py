# SPDX-License-Identifier: Apache-2.0
"""usage: bench/peers/run [--repeats N] [--save] [CASE ...]

Measures the same work in what people use today and in Heddle, in turns so that a slow minute of the
machine hits all alike, and prints how many times faster Heddle is. Cases (default: all):

  update   one DQN update, one core: PyTorch's fastest way of those in update.py
  ddp      two ranks of one core each: PyTorch's DDP over gloo, DI-engine's way, Heddle's exchange
  envs     stepping 8 Atari Pongs on one core: ALE's vector env, EnvPool
  dqn      training Pong with DQN on two cores: DI-engine itself

--save appends what is measured to bench/results/peers.jsonl. PyTorch and the others are installed by
bench/peers/setup; Heddle is build/runner and build/bench/bench_parts (--build DIR for others)."""

import argparse
import importlib
import signal
import subprocess
import sys

CASES = ["update", "ddp", "envs", "dqn"]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--build", default="build")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], metavar="CASE")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what runs ends with us
    subprocess.run(["cmake", "--build", options.build, "--target", "runner", "bench_parts"], check=True,
                   stdout=subprocess.DEVNULL)
    for name in options.cases or CASES:
        importlib.import_module(name).run(options)


main()
