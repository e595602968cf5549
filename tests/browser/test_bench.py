#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of runner bench in a real browser: of runs of its own, and of results that are made up. HD_SHOTS=DIR keeps
pictures of what it saw."""

import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from browser import Browser, find  # noqa: E402
from results import write_results  # noqa: E402
from runner import CONFIG, Scratch, call, check, skip  # noqa: E402

NAME = "</script><script>document.title='owned'</script>&lt;<!--<b>"
SECTIONS = "[...document.querySelectorAll('section')].map((s) => s.id)"
MARKS = "[...document.querySelectorAll('#{} svg')].map((s) => s.querySelectorAll('circle:not(.run)').length)"


def shoot(browser, name):
    if "HD_SHOTS" in os.environ:
        os.makedirs(os.environ["HD_SHOTS"], exist_ok=True)
        browser.screenshot(os.path.join(os.environ["HD_SHOTS"], name + ".png"))


def text_of(browser, section):
    return browser.evaluate(f"document.getElementById('{section}').textContent")


def check_looks(browser, page, name):
    grounds = []
    for width, dark in ((1200, False), (1200, True), (390, False)):
        browser.open(page, width=width, dark=dark)
        shoot(browser, f"{name}{width}{'dark' if dark else ''}")
        check(browser.evaluate("document.documentElement.scrollWidth") <= width, f"{name}: wider than {width}")
        grounds.append(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
    check(grounds[0] == grounds[2] != grounds[1], f"{name}: dark is not dark")


def check_runs(browser, scratch):
    """Rates and goals of one file; each candidate has left an iteration."""
    words = (CONFIG, "--strategies", "serial,pipelined", "--ranks", "2", "--json", scratch("all.jsonl"), "--quiet",
             "--set", "env.stop_value=25")
    call("bench", *words, "--updates", "20", "--warmup", "10", "--repeats", "3")
    call("bench", *words, "--to-goal", "--seeds", "0-2", "--page", scratch("first.html"))
    call("bench", scratch("all.jsonl"), "--page", scratch("page.html"))
    browser.open(scratch("first.html"))
    first = [text_of(browser, section) for section in ("rates", "goal", "from")]
    check_looks(browser, scratch("page.html"), "bench")
    browser.open(scratch("page.html"))
    check(browser.evaluate(SECTIONS) == ["rates", "times", "iteration", "goal", "from"], "sections")
    check(first == [text_of(browser, section) for section in ("rates", "goal", "from")], "another page of earlier results")
    check(browser.evaluate(MARKS.format("rates")) == [2, 1] and browser.evaluate(MARKS.format("goal")) == [2, 2, 2], "intervals")
    check(browser.evaluate("document.querySelectorAll('#rates circle.run').length") == 6, "a dot for each run")
    widths = browser.evaluate("[...document.querySelectorAll('.stack')].map((bar) => "
                              "[...bar.children].reduce((sum, x) => sum + parseFloat(x.style.width), 0))")
    check(len(widths) == 2 and all(abs(width - 100) < 0.01 for width in widths), f"bars: {widths}")
    browser.hover(".stack", 0.1, 0.5)
    tip = browser.evaluate("document.getElementById('tip').textContent")
    check("serial" in tip and "loss_grad" in tip and "idle" in tip, f"tip of a bar: {tip}")
    colours = browser.evaluate("""[...document.querySelectorAll('#iteration canvas')].map((c) =>
        new Set(new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer)).size)""")
    check(len(colours) == 2 and min(colours) > 5, f"timelines: {colours}")
    shown = re.findall(r": iteration (\d+) took", text_of(browser, "iteration"))
    check(len(shown) == 2 and shown[0] == shown[1], f"not the same iteration: {shown}")
    found = ""
    for row in (0.3, 0.5, 0.7):
        for step in range(40):
            browser.hover("#iteration canvas", 0.12 + step / 60, row)
            found = found or browser.evaluate("(() => { const t = byId('tip'); return t.hidden ? '' : t.textContent; })()")
    check("iteration" in found and "took" in found, f"tip of the timeline: {found!r}")
    check(browser.evaluate("document.querySelectorAll('#goal tbody tr').length") == 2 and "3 of 3" in text_of(browser, "goal"), "goals")
    check(not browser.problems, f"bench: {browser.problems}")


def check_made_up(browser, scratch):
    runs = [dict(candidate=name, turn=turn, updates_per_s=100 * factor + turn)
            for name, factor in (("serial", 1), (NAME, 1.5), (f"a strategy {'of a long name ' * 6}", 0.7)) for turn in range(1, 7)]
    busy = {"load": [3, 3], "mhz": [3000, 2400], "cpus": 2, "others": 1.25, "stolen": 0}
    runs.append(dict(candidate="of another program", turn=1, updates_per_s=80, busy=None, exposed=None, idle=None, verbs={}))
    write_results(scratch("made.jsonl"), [dict(run, load=busy) if run["turn"] == 6 and "long" in run["candidate"] else run for run in runs])
    said = call("bench", scratch("made.jsonl"), "--page", scratch("made.html")).stdout
    with open(scratch("made.html"), encoding="utf-8") as file:
        check("</script><script>document" not in file.read(), "a name ends the page's script")
    check_looks(browser, scratch("made.html"), "bench_made_up")
    check(browser.evaluate(SECTIONS) == ["rates", "times", "from"], "nothing was traced, and no goal measured")
    claims = browser.evaluate("[...document.querySelectorAll('.said li')].map((item) => item.textContent)")
    check(len(claims) == 3 and all(claim in said for claim in claims) and claims[0].startswith(f"{NAME} is faster than"), f"{claims}")
    check(browser.evaluate(MARKS.format("rates")) == [4, 2], "one turn has a rate, and nothing is claimed of it")
    check(browser.evaluate("document.querySelectorAll('.stack').length") == 3, "bars of what is not known")
    check("1 of 6 runs, others on 1.2 CPUs" in text_of(browser, "rates"), "the machine was disturbed")
    # The whole text of every row is within its chart.
    beyond = browser.evaluate("""[...document.querySelectorAll('#rates svg text')].filter((t) => t.getBoundingClientRect().right >
        t.ownerSVGElement.getBoundingClientRect().right + 1).map((t) => t.textContent)""")
    check(not beyond, f"cut off: {beyond}")
    data = json.loads(browser.evaluate("byId('data').textContent"))["bench"]
    check(data["rates"]["candidates"][1]["faster"]["low"] > 0, "the data")
    check(not browser.problems, f"made up: {browser.problems}")


def main():
    path = find()
    if not path:
        skip("no browser; scripts/packages tests/browser/packages.txt installs one")
    with Scratch() as scratch, Browser(path) as browser:
        check_runs(browser, scratch)
        check_made_up(browser, scratch)


main()
