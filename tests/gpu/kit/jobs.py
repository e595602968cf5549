# SPDX-License-Identifier: Apache-2.0
"""How the kit's steps run: programs of the bundle with a time limit, each with its log; what came of a step
is a line of JSON in results.jsonl. Files lie in the bundle's folder `work`; OUT gets them packed, after each
result, so that a kit which is killed has told all that it knew."""

import collections
import ctypes
import glob
import io
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PASSED, FAILED, SKIPPED, MEASURED = "passed", "failed", "skipped", "measured"
NO_GPU, TIMED_OUT, NO_TIME = "no GPU", "timed out", "no time left"
SECONDS_TO_END = 10  # that a program has when it is asked to
PACK_EVERY_S = 2
FILE_MAX, PACK_MAX = 256 << 10, 12 << 20  # bytes: of a packed file, of all of them
NOT_PACKED = re.compile(r"/(ckpt|log|inductor)(/|$)|/events\.")
# Builds of runner for processors that have all of these; the first that fits acts on CPUs where speed counts.
RUNNERS = {"runner-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}}


LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def end_with_kit():
    """Called in a program's process: it does not outlive a kit that is killed, nor its thread."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


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


def read_text(path):
    """Of a file of the kernel's, "" if it is gone."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


class Done:
    """A program that has ended: `code`, None if it had to be stopped; `seconds`; what it `said`."""

    def __init__(self, code, seconds, said):
        self.code, self.seconds, self.said = code, seconds, said

    def outcome(self):
        if self.code is None:
            return {"outcome": TIMED_OUT, "why": f"stopped after {self.seconds:.0f} s"}
        if self.code == 77 and re.search("^skipped: ", self.said, re.MULTILINE):  # as a test says it
            return {"outcome": SKIPPED, "why": last_line(self.said)}
        if self.code != 0:
            return {"outcome": FAILED, "why": f"exit code {self.code}: {last_line(self.said)}"}
        return {"outcome": PASSED}


class Kit:
    """A bundle at work. `libraries`: folders of CUDA's; `gpu`: its name, None if there is none; `tiny`: on
    the emulation, where everything is small; `seconds`: what is left for all steps; `name`: of the packed
    results."""

    def __init__(self, out, name, libraries, tiny, seconds):
        self.out, self.name, self.libraries, self.tiny = os.path.abspath(out), name, libraries, tiny
        self.gpu, self.work = None, os.path.join(ROOT, "work")
        self.about = read_json(os.path.join(ROOT, "bundle.json"))
        self.end = time.monotonic() + seconds
        self.results, self.packed, self.lock = [], 0, threading.Lock()
        for folder in (self.out, os.path.join(self.work, "logs")):
            os.makedirs(folder, exist_ok=True)

    def file(self, *names):
        path = os.path.join(self.work, *names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def program(self, name):
        return os.path.join(ROOT, "bin", name)

    def test(self, name):
        """The command that runs a test's cases for GPUs."""
        suite = self.about["tests"][name]
        return [self.program("test_" + suite.partition("/")[0]), "--cuda", suite]

    def fast_runner(self):
        """The build of runner for this processor; its bits differ from those of the common one."""
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            flags = next((set(line.split()) for line in file if line.startswith("flags")), set())
        for name, needed in RUNNERS.items():
            if os.path.exists(self.program(name)) and needed <= flags:
                return self.program(name)
        return self.program("runner")

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
            process = subprocess.Popen([str(word) for word in command], stdout=file, stderr=file, cwd=cwd or self.work,
                                       stdin=subprocess.DEVNULL, env=env or self.environment(), start_new_session=True,
                                       preexec_fn=end_with_kit)
        process.log, process.began = log, time.monotonic()
        return process

    def finish(self, process, limit):
        """Waits at most `limit` seconds; then the program and all that it started are ended."""
        code = None
        try:
            code = process.wait(timeout=max(1, min(limit, self.left())))
        except subprocess.TimeoutExpired:
            log_threads(process)
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
        """Also called by threads."""
        line = {"step": step, "outcome": outcome, **fields}
        with self.lock:
            self.results.append(line)
            with open(self.file("results.jsonl"), "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(f"  {step:44s} {brief(line)}", flush=True)
            if time.monotonic() > self.packed + PACK_EVERY_S:
                self.pack()

    def summary(self):
        lines = [f"{line['step']:52s} {brief(line)}" for line in self.results]
        tally = collections.Counter(line["outcome"] for line in self.results)
        return "\n".join([*lines, ", ".join(f"{n} {outcome}" for outcome, n in tally.items())]) + "\n"

    def pack(self):
        """OUT/NAME.txt and OUT/NAME.tar.gz, each whole at every moment."""
        replace(os.path.join(self.out, self.name + ".txt"), self.summary().encode())
        replace(os.path.join(self.out, self.name + ".tar.gz"), packed(self.work))
        self.packed = time.monotonic()


def replace(path, content):
    with open(path + ".new", "wb") as file:
        file.write(content)
    os.replace(path + ".new", path)


def packed(folder):
    """An archive of a folder's files, those with results first, without the end of what is too much."""
    paths = [os.path.join(top, name) for top, _, names in os.walk(folder) for name in names]
    paths = [path for path in paths if not NOT_PACKED.search(path[len(folder):])]
    paths.sort(key=lambda path: (path.count("/"), os.path.getsize(path)))
    buffer, size = io.BytesIO(), 0
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as archive:
        for path in paths:
            with open(path, "rb") as file:
                if path.endswith(".txt"):  # the end of a log tells more
                    file.seek(max(0, os.path.getsize(path) - FILE_MAX))
                content = file.read(PACK_MAX if path.endswith(".jsonl") else FILE_MAX)
            size += len(content)
            if size > PACK_MAX:
                break
            member = tarfile.TarInfo(os.path.relpath(path, folder))
            member.size, member.mtime = len(content), int(os.path.getmtime(path))
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def processes_of(session):
    """Those that a program started with start_new_session is and has started."""
    found = []
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(stat, encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[3]) == session:
            found.append(stat.split("/")[2])
    return found


def log_threads(process):
    """Appends to a program's log where each of its threads is: what the kernel says, and the debugger that this
    machine has, if it has one."""
    debugger = shutil.which("cuda-gdb", path=os.environ["PATH"] + ":/usr/local/cuda/bin") or shutil.which("gdb")
    with open(process.log, "a", encoding="utf-8") as log:
        for pid in processes_of(process.pid):
            log.write(f"\nthreads of process {pid}:\n")
            for thread in sorted(glob.glob(f"/proc/{pid}/task/*")):
                log.write(f"{thread}: {read_text(thread + '/comm')} in {read_text(thread + '/wchan')}\n")
            log.flush()
            if not debugger:
                continue
            words = [debugger, "-p", pid, "-batch", "-nx", "-ex", "thread apply all backtrace 24"]
            try:
                subprocess.run(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=False, timeout=20)
            except subprocess.TimeoutExpired:
                log.write("the debugger did not end\n")


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
