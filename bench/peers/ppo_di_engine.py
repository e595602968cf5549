# SPDX-License-Identifier: Apache-2.0
"""usage: ppo_di_engine.py EPOCHS FILE

The first iteration of DI-engine's own Pong PPO config on CPUs: writes [seconds of the collect of 3,200
samples, seconds of EPOCHS epochs of 10 updates]. Nothing of DI-engine is changed but the number of epochs
and this: evaluations are left out, and the game is gym_pong.py's."""

import json
import os
import sys
import time

import torch
from ding.entry import serial_pipeline_onpolicy
from ding.worker import BaseLearner, InteractionSerialEvaluator, SampleSerialCollector
from dizoo.atari.config.serial.pong.pong_ppo_ddp_config import create_config, main_config

import gym_pong


def timed(function, seconds):
    def call(*arguments, **more):
        begin = time.perf_counter()
        result = function(*arguments, **more)
        seconds.append(time.perf_counter() - begin)
        return result
    return call


def main():
    epochs, path = int(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(2)
    gym_pong.register()
    seconds = []

    def finish(learner, data, env_step):
        train(learner, data, env_step)
        assert learner.train_iter == 10 * epochs
        with open(path, "w", encoding="utf-8") as file:
            json.dump(seconds, file)
        os._exit(0)  # its env processes end with it

    train = timed(BaseLearner.train, seconds)
    BaseLearner.train = finish
    SampleSerialCollector.collect = timed(SampleSerialCollector.collect, seconds)
    InteractionSerialEvaluator.should_eval = lambda *_: False
    main_config.policy.cuda = main_config.policy.multi_gpu = False
    main_config.policy.learn.epoch_per_collect = epochs
    serial_pipeline_onpolicy((main_config, create_config), seed=0, max_env_step=int(3e6))


if __name__ == "__main__":
    main()
