# SPDX-License-Identifier: Apache-2.0
"""usage: dqn_di_engine.py WARM UPDATES FILE

Trains with DI-engine's own Pong DQN config on CPUs and writes [updates per second after WARM updates,
megabytes that its process would grow by until the replay is full, at the rate at which it grew].
Nothing of DI-engine is changed but this: evaluations are left out, and the game is gym_pong.py's."""

import json
import os
import sys
import time

import torch
from ding.entry import serial_pipeline
from ding.worker import BaseLearner, InteractionSerialEvaluator
from dizoo.atari.config.serial.pong.pong_dqn_ddp_config import create_config, main_config

import gym_pong


def resident_mb():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


class Clock:
    """Wraps the learner's step."""

    def __init__(self, warm, updates, path):
        self.warm, self.last, self.path = warm, warm + updates, path
        self.train = BaseLearner.train
        self.begin = self.resident = self.env_step = 0

    def __call__(self, learner, data, env_step):
        self.train(learner, data, env_step)
        if learner.train_iter == self.warm:
            self.begin, self.resident, self.env_step = time.perf_counter(), resident_mb(), env_step
        if learner.train_iter == self.last:
            rate = (self.last - self.warm) / (time.perf_counter() - self.begin)
            growth = (resident_mb() - self.resident) / (env_step - self.env_step)
            left = main_config.policy.other.replay_buffer.replay_buffer_size - env_step
            with open(self.path, "w", encoding="utf-8") as file:
                json.dump([rate, growth * left], file)
            os._exit(0)  # its env processes end with it


def main():
    warm, updates, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(2)
    gym_pong.register()
    InteractionSerialEvaluator.should_eval = lambda *_: False
    clock = Clock(warm, updates, path)
    BaseLearner.train = lambda *arguments: clock(*arguments)
    main_config.policy.cuda = main_config.policy.multi_gpu = False
    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(3e6))


if __name__ == "__main__":
    main()
