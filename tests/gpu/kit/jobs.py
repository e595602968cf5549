# SPDX-License-Identifier: Apache-2.0
"""How the kit's steps run: programs of the bundle with a time limit, each with its log; what came of a step
is a line of JSON in OUT/results.jsonl."""

import json
import os
import signal
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PASSED, FAILED, SKIPPED, MEASURED = "passed", "failed", "skipped", "measured"
NO_GPU, TIMED_OUT, NO_TIME = "no GPU", "timed out", "no time left"
SECONDS_TO_END = 10  # that a program has when it is asked to


def ld_path(*folders):
    return ":".join(folder for folder in folders if folder)


def last_line(text):
    return (text.strip().splitlines() or ["silence"])[-1]


def read_lines(path):
    """The JSON lines of a file, none if there is no such file."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class Done:
    """A program that has ended: `code`, None if it had to be stopped; `seconds`; what it `said`."""

    def __init__(self, code, seconds, said):
        self.code, self.seconds, self.said = code, seconds, said

    def outcome(self):
        if self.code is None:
            return {"outcome": TIMED_OUT, "why": f"stopped after {self.seconds:.0f} s"}
        if self.code == 77:
            return {"outcome": SKIPPED, "why": last_line(self.said)}
        if self.code != 0:
            return {"outcome": FAILED, "why": f"exit code {self.code}: {last_line(self.said)}"}
        return {"outcome": PASSED}


class Kit:
    """A bundle at work. `libraries`: folders of CUDA's; `gpu`: its name, None if there is none; `tiny`: on
    the emulation, where everything is small; `seconds`: what is left for all steps."""

    def __init__(self, out, libraries, gpu, tiny, seconds):
        self.out, self.libraries, self.gpu, self.tiny = os.path.abspath(out), libraries, gpu, tiny
        self.about = read_json(os.path.join(ROOT, "bundle.json"))
        self.end = time.monotonic() + seconds
        self.results = []
        os.makedirs(os.path.join(self.out, "logs"), exist_ok=True)

    def file(self, *names):
        path = os.path.join(self.out, *names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def program(self, name):
        return os.path.join(ROOT, "bin", name)

    def config(self, name):
        return os.path.join(ROOT, "configs", name)

    def environment(self, **more):
        """Of the bundle's programs."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("STARPU_")}
        folders = [os.path.join(ROOT, "lib"), *self.libraries, kept.get("LD_LIBRARY_PATH")]
        return {**kept, "LD_LIBRARY_PATH": ld_path(*folders), "HEDDLE_PLUGINS": os.path.join(ROOT, "plugins"),
                "OMP_NUM_THREADS": "1", **{name: str(value) for name, value in more.items()}}

    def left(self):
        return self.end - time.monotonic()

    def start(self, name, command, env=None, cwd=None):
        log = self.file("logs", name.replace("/", "-") + ".txt")
        with open(log, "w", encoding="utf-8") as file:
            file.write("$ " + " ".join(map(str, command)) + "\n")
            file.flush()
            process = subprocess.Popen([str(word) for word in command], stdout=file, stderr=file, cwd=cwd or self.out,
                                       stdin=subprocess.DEVNULL, env=env or self.environment(), start_new_session=True)
        process.log, process.began = log, time.monotonic()
        return process

    def finish(self, process, limit):
        """Waits at most `limit` seconds; then the program and all that it started are ended."""
        code = None
        try:
            code = process.wait(timeout=max(1, min(limit, self.left())))
        except subprocess.TimeoutExpired:
            self.stop(process)
        seconds = time.monotonic() - process.began
        signal_group(process, signal.SIGKILL)
        with open(process.log, encoding="utf-8", errors="replace") as file:
            return Done(code, seconds, file.read())

    def stop(self, process):
        """Its exit code after SIGTERM; None if it had to be killed."""
        signal_group(process, signal.SIGTERM)
        try:
            return process.wait(timeout=SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            signal_group(process, signal.SIGKILL)
            process.wait()
            return None

    def execute(self, name, command, limit, env=None, cwd=None):
        try:
            process = self.start(name, command, env, cwd)
        except OSError as error:
            return Done(127, 0, str(error))
        return self.finish(process, limit)

    def record(self, step, outcome, **fields):
        line = {"step": step, "outcome": outcome, **fields}
        self.results.append(line)
        with open(self.file("results.jsonl"), "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(f"  {step:44s} {brief(line)}", flush=True)
        return line


def signal_group(process, number):
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass


def brief(line):
    """What a summary says of a result."""
    said = line["outcome"]
    if "value" in line:
        said += f"  {line['value']:.5g} {line.get('unit', '')}"
    for name in ("what", "why"):
        if line.get(name):
            said += f"  {str(line[name])[:100]}"
    return said
