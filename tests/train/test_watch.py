#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`runner watch` in a real terminal (tmux): it draws half blocks that change, tells the episode, follows a run's best
weights, and gives the terminal back after q, Ctrl-C, SIGTERM and a crash. And on a page: its pictures come one after
another, to this host only, whatever else connects."""

import base64
import http.client
import json
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, RUNNER, SLOWDOWN, Scratch, call, check, environment, result, skip, train  # noqa: E402

PATIENCE_S = 20 * SLOWDOWN
STATUS = re.compile(r"episode (\d+)  seed (\d+)  step (\d+)  action (\S+)  return (\S+)  weights (\S+)")
BLOCK = "\u2580"


def wait_for(ask, what):
    end = time.monotonic() + PATIENCE_S
    while not (answer := ask()):
        if time.monotonic() > end:
            sys.exit(f"failed: never came true: {what}")
        time.sleep(0.05)
    return answer


class Terminal:
    """A terminal of 80 x 24 characters with a shell."""

    def __init__(self, scratch):
        self.socket = scratch("tmux")
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "env", "PS1=ready$ ", "sh")
        wait_for(lambda: "ready$" in self.screen(), "a shell")

    def tmux(self, *words):
        return subprocess.run(["tmux", "-S", self.socket, *words], env=environment(COLORTERM="truecolor"), text=True,
                              check=True, capture_output=True).stdout

    def screen(self, *options):
        return self.tmux("capture-pane", "-p", *options)

    def ask(self, name):
        return self.tmux("display-message", "-p", f"#{{{name}}}").strip()

    def type(self, *keys):
        self.tmux("send-keys", *keys)

    def run(self, *words):
        self.type("-l", shlex.join(words))
        self.type("Enter")

    def status(self):
        return STATUS.search(self.screen())

    def close(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], check=False, capture_output=True)


def check_given_back(terminal, how):
    wait_for(lambda: terminal.ask("alternate_on") == "0" and "ready$" in terminal.screen().strip()[-8:],
             f"the first screen after {how}")
    check(terminal.ask("cursor_flag") == "1", f"no cursor after {how}")
    check(BLOCK not in terminal.screen(), f"blocks after {how}")
    terminal.run("echo", f"typed-{how}")
    wait_for(lambda: terminal.screen().count(f"typed-{how}") >= 2, f"an echo after {how}")  # typed, and said
    terminal.type("-R")
    terminal.run("clear")


def check_drawn(terminal):
    first = wait_for(terminal.status, "a line that tells the episode")
    check(terminal.ask("alternate_on") == "1" and terminal.ask("cursor_flag") == "0", "not a screen of its own")
    lines = terminal.screen().splitlines()
    blocks = [line.count(BLOCK) for line in lines]
    check(blocks[:23] == [69] * 23 and blocks[23] == 0, f"300 x 200 pixels fit as 69 x 46: {blocks}")
    colours = set(re.findall(r"[34]8;2;\d+;\d+;\d+", terminal.screen("-e")))
    check(len(colours) > 3, f"colours: {colours}")
    picture = terminal.screen("-e")
    wait_for(lambda: terminal.screen("-e") != picture and (terminal.status() or first)[3] != first[3], "a next step")
    return first


def check_terminal(scratch, best):
    words = [RUNNER, "watch", CONFIG, "--weights", best, "--display", "blocks"]
    terminal = Terminal(scratch)
    try:
        terminal.run(*words)
        first = check_drawn(terminal)
        check(first[1] == "1" and first[2] == "0" and float(first[5]) == float(first[3]), f"{first.groups()}")
        terminal.type("q")
        check_given_back(terminal, "q")
        terminal.run(*words)
        check_drawn(terminal)
        terminal.type("C-c")
        check_given_back(terminal, "ctrl-c")
        for number in (signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT):
            terminal.run(*words)
            check_drawn(terminal)
            shell = int(terminal.ask("pane_pid"))
            with open(f"/proc/{shell}/task/{shell}/children", encoding="utf-8") as file:
                os.kill(int(file.read().split()[0]), number)
            check_given_back(terminal, number.name)
        terminal.run(*words, "--episodes", "1", "--fps", "240")
        wait_for(terminal.status, "an episode")
        check_given_back(terminal, "an episode")
        terminal.run(*words[:-1], "256")
        wait_for(lambda: "38;5;" in terminal.screen("-e"), "256 colours")
        terminal.type("q")
        check_given_back(terminal, "256 colours")
        check_follows(terminal, scratch)
    finally:
        terminal.close()


def check_follows(terminal, scratch):
    """The weights of a run directory are read again when they are others."""
    path = scratch(f"cart/{result(scratch('cart'))['weights']}")
    terminal.run(RUNNER, "watch", scratch("cart"))
    first = wait_for(terminal.status, "a run directory's game")[6]
    time.sleep(1.1)  # ages are told in seconds
    shutil.copy(path, path + ".new")
    os.rename(path + ".new", path)
    wait_for(lambda: (terminal.status() or [0] * 7)[6] not in (0, first), "new weights")
    terminal.type("q")
    check_given_back(terminal, "a run")


def escapes(scratch, best, form):
    """What is sent to a terminal that is not looked at: `script` gives it one."""
    command = shlex.join([RUNNER, "watch", CONFIG, "--weights", best, "--display", form, "--episodes", "1",
                          "--fps", "240"])
    subprocess.run(["script", "-q", "-e", "-c", "stty rows 24 cols 80; " + command, scratch("typescript")],
                   env=environment(TERM="xterm"), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    with open(scratch("typescript"), "rb") as file:
        return file.read()


def check_graphics(scratch, best):
    said = escapes(scratch, best, "kitty")
    pieces = re.findall(rb"\x1b_G([^;]*);([^\x1b]*)\x1b\\", said)
    first = next(i for i in range(len(pieces)) if pieces[i][0].endswith(b"m=0"))
    png = base64.b64decode(b"".join(data for _, data in pieces[:first + 1]))
    check(png[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", png[16:24]) == (300, 200), f"{png[:30]}")
    said = escapes(scratch, best, "sixel")
    image = re.search(rb"\x1bPq\"1;1;(\d+);(\d+)(.*?)\x1b\\", said, re.S)
    width, bands = int(image[1]), image[3].rstrip(b"-").split(b"-")
    check(len(bands) == -(-int(image[2]) // 6), f"{len(bands)} bands of {image[2]} rows")
    for line in bands[0].split(b"$")[:-1]:
        runs = re.findall(rb"!(\d+)[?-~]", line)
        check(sum(map(int, runs)) == width, f"a line of {sum(map(int, runs))} columns, not {width}: {line[:60]}")


# -- The page ------------------------------------------------------------------------------------------


def get(port, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer, content


def events(port, n):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", "/events")
    answer, found = connection.getresponse(), []
    while len(found) < n:
        line = answer.readline()
        if line.startswith(b"data: "):
            found.append(json.loads(line[6:]))
    connection.close()
    return found


def start_page(best, *options):
    process = subprocess.Popen([RUNNER, "watch", CONFIG, "--weights", best, "--http", "0", *options],
                               env=environment(), text=True, stderr=subprocess.PIPE)
    said = process.stderr.readline()
    return process, int(re.search(r"http://127\.0\.0\.1:(\d+)/", said)[1])


def check_page(best):
    process, port = start_page(best, "--fps", "60")
    try:
        answer, page = get(port, "/")
        check(answer.status == 200 and b"EventSource" in page, f"{answer.status} {page[:80]}")
        check("default-src 'none'" in answer.headers["Content-Security-Policy"], f"{answer.headers}")
        check(b"http://" not in page and b"https://" not in page and b"//" not in page.replace(b"://", b""),
              "the page refers to something outside")
        found = events(port, 40)
        steps = [event["step"] for event in found]
        check(sum(later == step + 1 for step, later in zip(steps, steps[1:])) > 20, f"steps: {steps}")
        png = base64.b64decode(found[0]["picture"])
        rows = zlib.decompress(png[png.index(b"IDAT") + 4:-16])
        check(len(rows) == 200 * (1 + 3 * 300), f"{len(rows)} bytes")
        check(len({event["picture"] for event in found}) > 5, "always the same picture")
        check(get(port, "/picture.png")[1][:4] == b"\x89PNG", "no picture")
        for path, headers, status in (("/x", {}, 404), ("/", {"Host": f"evil.example:{port}"}, 403),
                                      ("/events", {"Host": "evil.example"}, 403), ("/", {"Host": f"LOCALHOST:{port}"}, 200)):
            found = get(port, path, **headers)[0].status
            check(found == status, f"{path} {headers}: {found}, not {status}")
        check_odd_clients(port)
        addresses = subprocess.run(["ss", "-ltnH", f"sport = {port}"], text=True, capture_output=True, check=True).stdout
        check(addresses.split()[3] == f"127.0.0.1:{port}", addresses)
        check("nothing can listen" in call("watch", CONFIG, "--weights", best, "--http", str(port), expect=2).stderr,
              "a port that is in use")
    finally:
        process.send_signal(signal.SIGINT)
        check(process.wait(PATIENCE_S) in (0, 130), f"exit code {process.returncode}")


def check_odd_clients(port):
    """Who says nothing, sends too much or reads nothing keeps nobody else waiting."""
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(30)]
    time.sleep(0.2)
    for one in silent:
        one.close()
    for request, status in ((b"GET / HTTP/1.1\r\n" + b"x" * 8192, b"431"), (b"POST / HTTP/1.1\r\nHost: localhost:%d\r\n\r\n"
                                                                            % port, b"405"), (b"GET / HTTP/1.1\r\n\r\n", b"403"),
                            (b"GET / HTTP/1.1\r\nHost: localhost:%d\r\nhost: evil.example\r\n\r\n" % port, b"403")):
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as one:
            one.sendall(request)
            check(status in one.recv(100), f"{request[:30]}: not {status}")
    deaf = [socket.create_connection(("127.0.0.1", port)) for _ in range(16)]  # as many as there are places
    for one in deaf:
        one.sendall(b"GET /events HTTP/1.1\r\nHost: localhost:%d\r\n\r\n" % port)
    time.sleep(0.2)
    check(len(events(port, 10)) == 10, "browsers that read nothing stop others")
    for one in deaf:
        one.close()


def main():
    for program, package in (("tmux", "tmux"), ("script", "bsdutils"), ("ss", "iproute2")):
        if not shutil.which(program):
            skip(f"no {program}; scripts/packages tests/train/packages.txt installs {package}")
    with Scratch() as scratch:
        train(scratch("cart"), max_train_iter=400, env__stop_value=1e9)
        best = scratch("cart/ckpt/best/policy.safetensors")
        said = call("watch", CONFIG, "--weights", best, expect=2).stderr
        check("--http PORT" in said, said)
        check("found 'ansi'" in call("watch", CONFIG, "--weights", best, "--display", "ansi", expect=2).stderr, "a form")
        check_page(best)
        check_graphics(scratch, best)
        check_terminal(scratch, best)


main()
