#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pages of runs that go on (`runner report --http`, `runner compare --http`): they show what is logged as it comes, and runs
of a folder that begin later. How pages look is for tests/browser, and what the server answers to whom for test_watch.py."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, RUNNER, SLOWDOWN, Scratch, call, check, environment, sets, write_run  # noqa: E402

PATIENCE_S = 30 * SLOWDOWN


class Page:
    """A page that the program serves."""

    def __init__(self, *words):
        self.process = subprocess.Popen([RUNNER, *words, "--http", "0"], env=environment(), text=True,
                                        stderr=subprocess.PIPE)
        self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", self.process.stderr.readline())[1])
        self.events = self.get("/events")

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request("GET", path)
        return connection.getresponse()

    def read(self):
        text = self.get("/").read().decode()
        return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])

    def wait(self, condition):
        """The first event from now on for which the condition holds."""
        while True:
            line = self.events.readline()
            check(line, "the stream ended")
            if line.startswith(b"data: ") and condition(json.loads(line[6:])):
                return json.loads(line[6:])

    def close(self):
        self.process.send_signal(signal.SIGINT)
        check(self.process.wait(PATIENCE_S) in (0, 130), f"exit code {self.process.returncode}: {self.process.stderr.read()}")


def check_folder(scratch):
    folder = scratch("set")
    for seed in (9, 10):
        write_run(f"{folder}/seed={seed}", {"seed": seed, "rate": 1}, last_value=seed)
    page = Page("compare", folder, "--group-by", "rate")
    shown = page.read()
    check(shown["live"] is True and [run["dir"] for run in shown["runs"]] == [f"{folder}/seed={seed}" for seed in (9, 10)],
          f"{[run['dir'] for run in shown['runs']]}")
    write_run(f"{folder}/seed=11", {"seed": 11, "rate": 2}, last_value=11)
    shown = page.wait(lambda event: len(event["runs"]) == 3)
    check(len(shown["grouping"]["groups"]) == 2, f"{shown['grouping']}")
    page.close()
    shown = json.loads(call("compare", folder, "--json").stdout)
    check([run["last"] for run in shown["runs"]] == [9, 10, 11], f"{shown['runs']}")
    os.mkdir(scratch("empty"))
    check("missing run directory" in call("compare", f"{folder}/seed=9", expect=2).stderr, "one run is none to compare")
    check(scratch("empty") in call("compare", scratch("empty"), folder, expect=2).stderr, "a folder without runs")


def check_run(scratch):
    directory = scratch("run")
    run = subprocess.Popen([RUNNER, "run", CONFIG, "--dir", directory, *sets(env__stop_value="1e9")], env=environment(),
                           text=True, stderr=subprocess.PIPE)
    run.stderr.readline()
    page = Page("report", directory)
    first = page.wait(lambda event: event["runs"][0]["samples"]["rows"])
    rows = len(first["runs"][0]["samples"]["rows"])
    page.wait(lambda event: len(event["runs"][0]["samples"]["rows"]) > rows)
    run.send_signal(signal.SIGINT)
    run.communicate()
    last = page.wait(lambda event: event["runs"][0]["result"])
    check(last["runs"][0]["result"]["reason"] == "stopped", f"{last['runs'][0]['result']}")
    page.close()


def main():
    with Scratch() as scratch:
        check_folder(scratch)
        check_run(scratch)


main()
