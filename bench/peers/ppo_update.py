# SPDX-License-Identifier: Apache-2.0
"""One minibatch's update of PPO on one core, as update.py does it: standardised advantages, forward, clipped
losses, backward, clipped gradient, Adam. The net of DI-engine's Pong config, and the small one that learns
fast."""

from update import compare


def run(options):
    compare(options, "ppo", {"ppo": 320, "ppo_fast": 768})
