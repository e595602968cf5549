#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`runner check-env` finds no fault in environments that keep the rules, and each fault that is planted."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, call, check, sets, skip  # noqa: E402

PYTHON = os.path.join(ROOT, "build/plugins/gymnasium")
WALK = {"env__type": "gymnasium", "env__env_id": "gymnasium_envs:Walk-v0", "env__options__python": PYTHON,
        "env__options__path": os.path.join(ROOT, "tests/kernels/envs"), "policy__model__obs_shape": "auto",
        "policy__model__action_shape": "auto"}
FAULTS = [  # arguments, options, what is told
    ("{remembers: true}", {}, ["an episode depends on those before it", "save: pickle"]),
    ("{unseeded: true}", {}, ["the same seeds and actions show the same: not so", "self.np_random"]),
    ("{shared: true}", {}, ["environments of a group do not touch one another: not so", "class variable"]),
    ("{failure: one number}", {}, ["shape (1,)", "step 5 from seed"]),
    ("{failure: nan}", {}, ["an observation is not finite"]),
    ("{failure: no reward}", {}, ["the reward is None"]),
    ("{failure: leak, fail_at: 0}", {}, ["memory grew by"]),
    ("{short_seeds: true}", {}, ["Seed must be between 0 and 2**32 - 1"]),
    ("{short_seeds: true}", {"env__options__seed_bits": 32}, []),
]


def main():
    for config in (CONFIG, os.path.join(ROOT, "configs/pixel_pong_ppo_fast.yaml")):
        said = call("check-env", config).stdout
        check("no faults" in said and said.count("ok  ") >= 6 and "FAULT" not in said, said)
    call("check-env", os.path.join(ROOT, "configs/none.yaml"), expect=2)
    if not os.path.exists(os.path.join(PYTHON, "bin/python")):
        skip("there is no Python with Gymnasium (scripts/gymnasium makes one)")
    for arguments, options, told in FAULTS:
        done = call("check-env", CONFIG, *sets(**WALK, **options, env__options__kwargs=arguments), expect=1 if told else 0)
        check(("FAULT" in done.stdout) == bool(told), done.stdout)
        for words in told:
            check(words in done.stdout, f"{arguments}: '{words}' is not in {done.stdout}")
        print(f"{arguments}: {told[0] if told else 'no faults'}")


main()
