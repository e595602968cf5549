# SPDX-License-Identifier: Apache-2.0
"""A browser without a window, driven by the DevTools protocol over a pipe: messages are JSON texts that end
with a zero, from us by its descriptor 3, to us by 4."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PATIENCE_S = 60


def find():
    """The path of a browser, or None. HD_BROWSER in the environment names another."""
    return next(filter(None, map(shutil.which, (os.environ.get("HD_BROWSER", ""), *NAMES))), None)


class Browser:
    """`problems` collects what a page should not do: errors, warnings, requests to anywhere but files."""

    def __init__(self, path):
        self.profile = tempfile.mkdtemp(prefix="heddle-browser-")
        below, self.out = os.pipe()
        self.inward, above = os.pipe()
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{below} 4>&{above}', path, "--headless", "--no-sandbox",
             "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
             f"--user-data-dir={self.profile}", "--remote-debugging-pipe", "about:blank"],
            pass_fds=(below, above), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(below)
        os.close(above)
        self.number, self.unread, self.problems = 0, b"", []
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            os.write(self.out, b'{"id": 0, "method": "Browser.close"}\0')
        try:
            self.process.wait(PATIENCE_S / 4)  # it ends its children first
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.inward)
        os.close(self.out)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self):
        while b"\0" not in self.unread:
            if not select.select([self.inward], [], [], PATIENCE_S)[0]:
                sys.exit(f"failed: the browser has not answered for {PATIENCE_S} s")
            some = os.read(self.inward, 1 << 16)
            if not some:
                sys.exit("failed: the browser ended")
            self.unread += some
        text, _, self.unread = self.unread.partition(b"\0")
        return json.loads(text)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.number:
            self.note(answer.get("method"), answer.get("params", {}))
        if "error" in answer:
            sys.exit(f"failed: {method}: {answer['error']}")
        return answer["result"]

    def note(self, method, params):
        if method == "Runtime.exceptionThrown":
            self.problems.append(params["exceptionDetails"].get("exception", {}).get("description"))
        elif method == "Runtime.consoleAPICalled":
            self.problems.append(f"console.{params['type']}: {params['args']}")
        elif method == "Log.entryAdded":
            self.problems.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            if not params["request"]["url"].startswith(("file:", "data:")):
                self.problems.append("request to " + params["request"]["url"])

    def open(self, path, width=1280, dark=False):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
                  mobile=False)
        self.evaluate("document.documentElement.dataset.ready = 'old'")
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        self.wait("document.documentElement?.dataset.ready === 'yes'")
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            sys.exit(f"failed: {expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, expression):
        end = time.monotonic() + PATIENCE_S
        while not self.evaluate(expression):
            if time.monotonic() > end:
                sys.exit(f"failed: never came true: {expression}; {self.problems}")
            time.sleep(0.02)

    def place(self, selector, x, y):
        """The point at shares x and y of an element, which is scrolled into sight."""
        box = self.evaluate(f"""(() => {{ const e = document.querySelector({json.dumps(selector)});
            e.scrollIntoView({{block: "center"}}); const b = e.getBoundingClientRect();
            return [b.left, b.top, b.width, b.height]; }})()""")
        return box[0] + x * box[2], box[1] + y * box[3]

    def mouse(self, kind, point, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=point[0], y=point[1], **more)

    def hover(self, selector, x=0.5, y=0.5):
        self.mouse("mouseMoved", self.place(selector, x, y))

    def drag(self, selector, start, end):
        button = {"button": "left", "buttons": 1, "clickCount": 1}
        self.mouse("mousePressed", self.place(selector, *start), **button)
        self.mouse("mouseMoved", self.place(selector, *end), **button)
        self.mouse("mouseReleased", self.place(selector, *end), **button)

    def click(self, selector):
        self.drag(selector, (0.5, 0.5), (0.5, 0.5))

    def screenshot(self, path):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))
