#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Videos of CartPole and Pong in a real browser: as files, on the report page of a run that recorded evaluations, and
live on the page of `runner watch`. Screenshots have the colours of the games, and change. HD_SHOTS=DIR keeps them."""

import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from browser import Browser, find  # noqa: E402
from runner import CONFIG, ROOT, RUNNER, Scratch, call, check, environment, skip, train  # noqa: E402

PONG = os.path.join(ROOT, "configs/pixel_pong_dqn_ddp.yaml")
SIZES = {"cart.gif": [300, 200], "cart.png": [300, 200], "pong.gif": [168, 168]}
PAGE = """<!DOCTYPE html><script>document.documentElement.dataset.ready = "yes"</script>""" + "".join(
    f'<img id="{name}" src="{name}">' for name in SIZES)
LOADED = "[...document.images].length > 0 && [...document.images].every((i) => i.complete && i.naturalWidth > 0)"


def shot(browser, scratch, name):
    path = os.path.join(os.environ.get("HD_SHOTS", scratch.path), name + ".png")
    browser.screenshot(path)
    with open(path, "rb") as file:
        return file.read()


def colours(browser, image):
    """How many colours an image shows at present; a picture of the game has more than one."""
    return browser.evaluate(f"""(() => {{ const i = document.getElementById({image!r}), c = document.createElement("canvas");
        c.width = i.naturalWidth; c.height = i.naturalHeight; const d = c.getContext("2d"); d.drawImage(i, 0, 0);
        return new Set(new Uint32Array(d.getImageData(0, 0, c.width, c.height).data.buffer)).size; }})()""")


def check_files(browser, scratch, cart, pong):
    call("eval", CONFIG, "--weights", cart, "--episodes", "1", "--video", scratch("cart.gif"))
    call("eval", CONFIG, "--weights", cart, "--episodes", "1", "--video", scratch("cart.png"))
    call("eval", PONG, "--weights", pong, "--episodes", "1", "--scale", "2", "--max-frames", "300", "--video",
         scratch("pong.gif"))
    with open(scratch("files.html"), "w", encoding="utf-8") as file:
        file.write(PAGE)
    browser.open(scratch("files.html"))
    browser.wait(LOADED)
    sizes = browser.evaluate("Object.fromEntries([...document.images].map((i) => [i.id, [i.naturalWidth, i.naturalHeight]]))")
    check(sizes == SIZES, f"{sizes}")
    first = shot(browser, scratch, "videos")
    end = time.monotonic() + 10
    while shot(browser, scratch, "videos_later") == first:
        check(time.monotonic() < end, "nothing moves")
    check(not browser.problems, f"videos: {browser.problems}")


def check_report(browser, scratch):
    browser.open(scratch("cart/report.html"))
    browser.wait(LOADED)
    check(browser.evaluate("[...document.querySelectorAll('.videos figcaption')].map((e) => e.textContent)") ==
          ["update 0", "update 80", "update 160"], "which evaluations are shown")
    check(browser.evaluate("[...document.images].map((i) => i.naturalWidth)") == [300] * 3, "pictures of the report")
    shot(browser, scratch, "report_with_videos")
    check(not browser.problems, f"report: {browser.problems}")
    browser.open(scratch("pong/report.html"))
    check(browser.evaluate("document.images.length") == 0, "a run without videos shows some")


def check_watch(browser, scratch, config, weights, size):
    process = subprocess.Popen([RUNNER, "watch", config, "--weights", weights, "--http", "0"], env=environment(),
                               text=True, stderr=subprocess.PIPE)
    try:
        url = re.search(r"http://127\.0\.0\.1:\d+/", process.stderr.readline())[0]
        browser.call("Page.navigate", url=url)
        browser.wait("document.getElementById('step')?.textContent > 3 && document.images[0].naturalWidth > 0")
        check(browser.evaluate("[document.images[0].naturalWidth, document.images[0].naturalHeight]") == size, "size")
        check(colours(browser, "picture") > 1, "an empty picture")
        shot(browser, scratch, f"watch_{size[0]}")
        source = browser.evaluate("document.images[0].src")
        browser.wait(f"document.images[0].src !== {source!r}")
        others = [problem for problem in browser.problems if not problem.startswith("request to " + url)]
        check(others == [], f"watch: {others}")
        process.send_signal(signal.SIGTERM)
        browser.wait("document.getElementById('state').textContent !== ''")
        browser.problems.clear()
    finally:
        process.kill()
        process.wait()


def main():
    path = find()
    if not path:
        skip("no browser; scripts/packages tests/browser/packages.txt installs one")
    with Scratch() as scratch, Browser(path) as browser:
        train(scratch("cart"), max_train_iter=200, env__stop_value=1e9, policy__eval__video_every=2)
        train(scratch("pong"), config=PONG, max_train_iter=8, env__evaluator_env_num=2, env__n_evaluator_episode=2)
        cart, pong = (scratch(name + "/ckpt/best/policy.safetensors") for name in ("cart", "pong"))
        check_files(browser, scratch, cart, pong)
        check_report(browser, scratch)
        check_watch(browser, scratch, CONFIG, cart, [300, 200])
        check_watch(browser, scratch, PONG, pong, [84, 84])


main()
