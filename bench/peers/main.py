# SPDX-License-Identifier: Apache-2.0
"""usage: bench/peers/run [--repeats N] [--short] [--env NAME ...] [--net NAME ...] [--save] [CASE ...]

Measures the same work in what people use today and in Heddle, in turns so that a slow minute of the
machine hits all alike, and prints how many times faster Heddle is. Cases (default: all):

  update      one DQN update, one core: PyTorch's fastest way of those in update.py
  ppo_update  one minibatch's update of PPO, likewise
  passes      one pass through lists of layers, one core: to act, and forward and backward; IMPALA's net, gru,
              lstm, dense layers; --net gru takes one of them
  ddp         two ranks of one core each: PyTorch's DDP over gloo, DI-engine's way, Heddle's exchange
  envs        stepping 8 Atari Pongs on one core: ALE's vector env, EnvPool
  dqn         training Pong with DQN on two cores: DI-engine itself
  ppo         one iteration of Pong with PPO on two cores, 3,200 samples and 100 updates: DI-engine itself
  ppo_fast    training Pong with PPO and a small net on two cores: the best of several PyTorch programs
  sac         updates of soft actor-critic on one core: CleanRL's, and two faster ones in PyTorch
  package     acting on numpy arrays with CartPole's net, and stepping 16 CartPoles, from Python on one core:
              PyTorch, gymnasium's vector environments
  classic     training CartPole and Pendulum with PPO, DQN and SAC on two cores: Stable-Baselines3
  cleanrl     returns on LunarLander, HalfCheetah, Hopper and Breakout with PPO and on Pendulum, InvertedPendulum
              and Hopper with SAC, through the bridge to Gymnasium, at the same number of steps: CleanRL's scripts;
              --repeats is the number of seeds, --env HopperSAC takes one case

--short lets DI-engine train one epoch of an iteration of ppo, which counts ten times; else it takes more
than a minute a turn. It takes a quarter of the steps of cleanrl. --save appends what is measured to
bench/results/peers.jsonl. PyTorch and the others are installed by bench/peers/setup; Heddle is build/runner and
build/bench/bench_parts (--build DIR for others)."""

import argparse
import importlib
import signal
import subprocess
import sys

CASES = ["update", "ppo_update", "passes", "ddp", "envs", "dqn", "ppo", "ppo_fast", "sac", "package", "classic", "cleanrl"]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--build", default="build")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("--net", action="append", default=[])
    parser.add_argument("--save", action="store_true")
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], metavar="CASE")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what runs ends with us
    subprocess.run(["cmake", "--build", options.build, "--target", "runner", "bench_parts"], check=True,
                   stdout=subprocess.DEVNULL)
    for name in options.cases or CASES:
        importlib.import_module(name).run(options)


main()
