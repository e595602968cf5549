# SPDX-License-Identifier: Apache-2.0
"""Run by `python test_my_env.py` or by pytest."""

from gymnasium.utils.env_checker import check_env

from my_env import MyEnv


def test_interface():
    check_env(MyEnv(), skip_render_check=True)


def test_same_seed_same_episode():
    episodes = []
    for _ in range(2):
        env = MyEnv()
        env.reset(seed=1)
        episodes.append([env.step(action % 3)[:2] for action in range(20)])
    for (obs, reward), (other_obs, other_reward) in zip(*episodes):
        assert (obs == other_obs).all() and reward == other_reward


if __name__ == "__main__":
    test_interface()
    test_same_seed_same_episode()
    print("passed")
