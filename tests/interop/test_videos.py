#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Videos of `runner eval` as Pillow reads them: sizes, numbers and times of pictures, colours, the same pictures in
each format and the same file each time; what the file cannot be is said; an interrupted one leaves nothing."""

import json
import os
import signal
import stat
import subprocess
import sys
import time

import numpy as np
from PIL import Image

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, RUNNER, Scratch, call, check, environment, sets, train  # noqa: E402

PONG = os.path.join(ROOT, "configs/pixel_pong_dqn_ddp.yaml")
# In place of the real program, which is large: it keeps what it is given.
FFMPEG = """#!/bin/sh
echo "$@" > "$FFMPEG_SAID"
exec cat > /dev/fd/3
"""


def pictures(path):
    """The pictures [n][height][width][3] of a file, and how long each is shown, in ms."""
    shown, times = [], []
    with Image.open(path) as file:
        for i in range(file.n_frames):
            file.seek(i)
            shown.append(np.asarray(file.convert("RGB")))
            times.append(file.info["duration"])
    return np.stack(shown), times


def film(config, weights, path, *options):
    said = call("eval", config, "--weights", weights, "--json", "--video", path, *options)
    return json.loads(said.stdout), said.stderr


def check_cartpole(scratch):
    train(scratch("cart"), max_train_iter=40, env__stop_value=1e9)
    best = scratch("cart/ckpt/best/policy.safetensors")
    result, said = film(CONFIG, best, scratch("cart.gif"), "--episodes", "2")
    steps = sum(episode["length"] for episode in result["episodes"])
    check([episode["seed"] for episode in result["episodes"]] == [0, 1], f"{result}")
    check(all(episode["length"] == episode["return"] and not episode["cut"] for episode in result["episodes"]),
          f"a step of CartPole is a point: {result}")
    shown, times = pictures(scratch("cart.gif"))
    check(shown.shape == (steps + 2, 200, 300, 3), f"{shown.shape}: a picture for each start and each step")
    check(f"{steps + 2} pictures of 300 x 200 pixels" in said, said)
    check(abs(sum(times) - (steps + 2) * 1000 / 30) <= 5 and set(times) == {30, 40}, f"times: {set(times)}")
    check(2 <= len(np.unique(shown[0].reshape(-1, 3), axis=0)) <= 256, "colours of a drawing")
    check(not (shown[0] == shown[5]).all(), "nothing moves")
    for ending in ("png", "apng"):
        film(CONFIG, best, scratch(f"cart.{ending}"), "--episodes", "2")
        others, times = pictures(scratch(f"cart.{ending}"))
        check(others.shape == shown.shape and (others == shown).all(), f"{ending} shows other pictures")
        check(all(abs(time - 1000 / 30) < 0.01 for time in times), f"{set(times)}")
    film(CONFIG, best, scratch("again.gif"), "--episodes", "2")
    with open(scratch("cart.gif"), "rb") as one, open(scratch("again.gif"), "rb") as other:
        check(one.read() == other.read(), "another file of the same game")
    return best


def check_pong(scratch):
    train(scratch("pong"), config=PONG, max_train_iter=8, env__evaluator_env_num=2, env__n_evaluator_episode=2)
    weights = scratch("pong/ckpt/best/policy.safetensors")
    film(PONG, weights, scratch("pong.gif"), "--episodes", "1", "--scale", "3", "--fps", "50", "--max-frames", "90")
    shown, times = pictures(scratch("pong.gif"))
    check(shown.shape == (90, 252, 252, 3) and set(times) == {20}, f"{shown.shape} {set(times)}")
    small = shown[:, ::3, ::3]
    check((shown == small.repeat(3, axis=1).repeat(3, axis=2)).all(), "a pixel is not 3 x 3 ones")
    check((shown[..., 0] == shown[..., 1]).all() and (shown[..., 0] == shown[..., 2]).all(), "gray is not gray")
    background = small[..., 0] == np.bincount(small[..., 0].ravel()).argmax()
    check(background.mean() > 0.8 and (small[0] != small[89]).any(), "no game of Pong")


def check_refusals(scratch, best):
    for path, options, words in ((scratch("x.avi"), [], "ends in .gif, .png, .apng or .mp4"),
                                 (scratch("x.gif"), ["--fps", "60"], "found 60")):
        said = call("eval", CONFIG, "--weights", best, "--video", path, *options, expect=2).stderr
        check(words in said, said)
        check(not os.path.exists(path), f"{path} is there")
    said = call("eval", CONFIG, "--weights", best, "--video", scratch("x.mp4"), expect=2,
                env=environment(PATH=scratch("nowhere"))).stderr
    check("ffmpeg" in said and ".gif" in said, said)


def check_ffmpeg(scratch, best):
    os.mkdir(scratch("bin"))
    with open(scratch("bin/ffmpeg"), "w", encoding="utf-8") as file:
        file.write(FFMPEG)
    os.chmod(file.name, os.stat(file.name).st_mode | stat.S_IXUSR)
    env = environment(PATH=scratch("bin") + os.pathsep + os.environ["PATH"], FFMPEG_SAID=scratch("said"))
    call("eval", CONFIG, "--weights", best, "--episodes", "1", "--fps", "25", "--video", scratch("cart.mp4"), env=env)
    with open(scratch("said"), encoding="utf-8") as file:
        said = file.read()
    check("-s 300x200 -r 25" in said and "-pix_fmt rgb24" in said, said)
    film(CONFIG, best, scratch("one.png"), "--episodes", "1")
    shown, _ = pictures(scratch("one.png"))
    with open(scratch("cart.mp4"), "rb") as file:
        check(file.read() == shown.tobytes(), "ffmpeg gets other pictures")
    with open(scratch("bin/ffmpeg"), "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nexit 1\n")
    said = call("eval", CONFIG, "--weights", best, "--video", scratch("no.mp4"), env=env, expect=1).stderr
    check("ffmpeg" in said and not os.path.exists(scratch("no.mp4")), said)


def check_interrupt(scratch, best):
    os.mkdir(scratch("cut"))
    command = [RUNNER, "eval", CONFIG, "--weights", best, "--episodes", "4096", "--scale", "8", "--video",
                             scratch("cut/long.gif")]
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    check(process.wait(20) == 130, f"exit code {process.returncode}")
    check(os.listdir(scratch("cut")) == [], f"left over: {os.listdir(scratch('cut'))}")


def check_size(scratch, best):
    """Ten times the pictures take no more memory."""
    most = []
    for episodes in ("2", "40"):
        done = subprocess.run(["python3", "-c", "import resource, subprocess, sys\nsubprocess.run(sys.argv[1:], check=True)\n"
                               "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)",
                               RUNNER, "eval", CONFIG, "--weights", best, "--episodes", episodes, "--quiet",
                                             "--video", scratch("size.gif"), *sets(env__max_evaluator_step=50)],
                              env=environment(), text=True, capture_output=True, check=True)
        most.append(int(done.stdout.split()[-1]))
    check(most[1] < most[0] + 4096, f"{most} KiB")


def main():
    with Scratch() as scratch:
        best = check_cartpole(scratch)
        check_pong(scratch)
        check_refusals(scratch, best)
        check_ffmpeg(scratch, best)
        check_interrupt(scratch, best)
        check_size(scratch, best)


main()
