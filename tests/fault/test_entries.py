#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run directories into which somebody put entries of his own, on file systems that fail now and then: a run that goes
on leaves them as they are, follows none, loses no good checkpoint and ends in the bits of a run that nobody touched, or
it names what is in its way. HD_ENTRIES and HD_FLAKES set how many entries and failing file systems there are."""

import collections
import contextlib
import os
import random
import stat
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import checkpoints  # noqa: E402
from runner import CONFIG, RUNNER, Scratch, check, draw_seed, environment, result, sets  # noqa: E402
from ways import take_share  # noqa: E402

ENTRIES, FLAKES = int(os.environ.get("HD_ENTRIES", "300")), int(os.environ.get("HD_FLAKES", "60"))
PER_RUN = 5  # entries
KEYS = dict(env__stop_value="1e9", world__shards=2, policy__eval__evaluator__eval_freq=20)

# NEW and OLD are the iterations of the run's checkpoints.
NAMES = ["ckpt/state/iteration_NEW.backup", "ckpt/state/iteration_NEW (good)", "ckpt/state/iteration_0NEW",
         "ckpt/state/iteration_+5", "ckpt/state/iteration_", "ckpt/state/iteration_1", "ckpt/state/iteration_NEW000",
         "ckpt/state/iteration_99999999999999999999", "ckpt/state/latest.old", "ckpt/state/notes",
         "ckpt/state/journal/notes.3", "ckpt/state/journal/replay.0.3", "ckpt/state/iteration_OLD/notes",
         "ckpt/state/iteration_NEW/notes", "ckpt/iteration_5.old", "ckpt/best/notes", "ckpt/best.old", "ckpt/notes",
         "video/iteration_3.gif.old", "video/notes", ".reserve/notes/notes", "notes", "run",
         "log.old", "log/notes", "log/evaluator/notes", "log/serial/events.out.tfevents.old", "failed/notes"]
KINDS = ("file", "folder", "empty folder", "link", "link to a folder", "link to nothing", "pipe", "unreadable",
         "checkpoint of another run", "cut checkpoint")
# What stands for a part of the run itself.
PARTS = ["log", "log/serial", "log/metrics.jsonl", "ckpt", "ckpt/best", "ckpt/state", "ckpt/state/latest",
         "ckpt/state/iteration_NEW", "ckpt/state/iteration_NEW/manifest.json", "total_config.yaml", "result.json"]


class Base:
    """A stopped run, another one, and a file and a folder elsewhere that nobody may touch."""

    def __init__(self, scratch):
        self.path, self.other, self.work = scratch("run"), scratch("other"), scratch("work")
        self.file, self.folder = scratch("victim"), scratch("victims")
        os.mkdir(self.folder)
        for path in (self.file, os.path.join(self.folder, "file")):
            checkpoints.replace(path, b"precious\n" * 1000)
        checkpoints.make_run(self.path, CONFIG, KEYS)
        checkpoints.make_run(self.other, CONFIG, dict(KEYS, seed=7), checkpoints=1)
        self.old, self.new = checkpoints.iterations(self.path)[-2:]
        checkpoints.copy(self.path, self.work)
        self.until = checkpoints.Manifest(self.path, self.new).json["metadata"]["executor"]["counters"]["update"] + 200
        code, said = self.resume()
        check(code == 0, said)
        self.hash = result(self.work)["param_hash"]

    def renew(self):
        subprocess.run(["chmod", "-R", "u+rwX", self.work], check=False)
        checkpoints.copy(self.path, self.work)

    def resume(self, ranks=1, **env):
        head = ["launch", "--nproc-per-node", str(ranks)] if ranks > 1 else ["run"]
        command = [*head, CONFIG, "--resume", self.work, "--quiet",
                   *sets(**KEYS, max_train_iter=self.until, runtime__checkpoint_interval_s=0.02)]
        done = subprocess.run([RUNNER, *command], env=environment(**env), capture_output=True, text=True,
                              errors="replace", timeout=300, check=False)
        return done.returncode, done.stderr

    def place(self, name):
        return os.path.join(self.work, name.replace("NEW", str(self.new)).replace("OLD", str(self.old)))


def put(base, path, kind):
    """Puts an entry; returns whether there was room for one of this name."""
    if os.path.lexists(path) or not os.path.isdir(os.path.dirname(path)) and os.path.lexists(os.path.dirname(path)):
        return False
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if kind in ("file", "unreadable"):
        checkpoints.replace(path, b"mine\n")
    elif kind.endswith("folder") and "link" not in kind:
        os.mkdir(path)
        if kind == "folder":
            checkpoints.replace(os.path.join(path, "mine"), b"mine\n")
    elif kind.startswith("link"):
        os.symlink({"link": base.file, "link to a folder": base.folder}.get(kind, "/nonexistent/x"), path)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        subprocess.run(["cp", "-r", os.path.join(checkpoints.state(base.other),
                                                 f"iteration_{checkpoints.iterations(base.other)[-1]}"), path], check=True)
        if kind == "cut checkpoint":
            os.truncate(os.path.join(path, "manifest.json"), 100)
    if kind == "unreadable":
        os.chmod(path, 0)
    return True


def look(path):
    """What an entry is: its type and content, a folder's by name."""
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return os.readlink(path)
    if stat.S_ISDIR(mode):
        return {name: look(os.path.join(path, name)) for name in os.listdir(path)}
    if not stat.S_ISREG(mode):
        return stat.S_IFMT(mode)
    with open(path, "rb") as file:
        return file.read()


def find(path):
    """The entry, or what a run called it, or its folder, when it went on from before it."""
    folder, name = os.path.split(path)
    for place in (path, path + ".damaged"):
        with contextlib.suppress(OSError):
            return look(place)
    return look(os.path.join(folder + ".damaged", name))


def is_refused(base, path, code, said):
    """A run may refuse what stands at a log or a folder of its own, by its name."""
    return code == 2 and os.path.relpath(path, base.work).split(" ")[0] in said


def check_untouched(base, before, what):
    for path, content in before.items():
        try:
            now = find(path)
        except OSError as gone:
            sys.exit(f"failed: {what}: {gone}")
        check(now == content, f"{what}: {path} was changed")
    check(look(base.file) == b"precious\n" * 1000 and look(base.folder) == {"file": look(base.file)}, f"{what}: outside")


def play_entries(base, number, table):
    """Some entries, a resume, and a second one after those were moved away that the run refused."""
    draw, before = random.Random(draw_seed() + number), {}
    base.renew()
    while len(before) < PER_RUN:
        name, kind = draw.choice(NAMES), draw.choice(KINDS)
        path = base.place(name)
        if put(base, path, kind):
            before[path] = look(path)
            table[kind] += 1
    what = f"{number}: {sorted(before)}"
    for _ in range(PER_RUN + 1):
        code, said = base.resume()
        check_untouched(base, before, f"{what}: {code} {said}")
        in_the_way = [path for path in before if is_refused(base, path, code, said)]
        if not in_the_way:
            break
        for path in in_the_way:
            table["(refused by name)"] += 1
            del before[path]
            os.rename(path, base.work + f".moved_{number}_{len(before)}")
    check(code == 0 and result(base.work)["param_hash"] == base.hash, f"{what}: {code} {said}")


def play_part(base, part, kind, table):
    """An entry in place of a part of the run: the run names it, or does without."""
    base.renew()
    path = base.place(part)
    if os.path.lexists(path):
        os.rename(path, path + ".mine")
    check(put(base, path, kind), f"{part}: no room")
    kept = {path + ".mine": look(path + ".mine")} if os.path.lexists(path + ".mine") else {}
    code, said = base.resume()
    table[f"{kind} for a part of the run"] += 1
    check_untouched(base, kept, f"{part}: {code} {said}")
    if code == 0:
        check(result(base.work)["param_hash"] == base.hash, f"{kind} for {part}: another hash: {said}")
    else:
        check(code in (1, 2) and part.split("/")[-1].replace("NEW", str(base.new)) in said, f"{kind} for {part}: {code} {said}")


FLAKY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
static int fails(const char *path)
{
    static atomic_uint calls;
    const char *dir = getenv("FLAKY_DIR"), *seed = getenv("FLAKY_SEED");
    if (!dir || !seed || strncmp(path, dir, strlen(dir)) != 0)
        return 0;
    unsigned x = (unsigned)atoi(seed) * 2654435761u ^ ++calls * 2246822519u;
    x = (x ^ x >> 15) * 2246822519u, x = (x ^ x >> 13) * 3266489917u, x ^= x >> 16;
    if (x % 1000 >= (unsigned)atoi(getenv("FLAKY_PER_MILLE")))
        return 0;
    errno = x / 1000 % 2 ? EIO : ESTALE;
    return 1;
}
static int fails_at(int fd, const char *name)
{
    char link[64], path[4096] = "";
    if (fd == AT_FDCWD || (name && name[0] == '/'))
        return fails(name);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return readlink(link, path, sizeof path - 1) > 0 && fails(path);
}
#define MODE(flags) va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest)
int open(const char *path, int flags, ...) { MODE(flags); return fails(path) ? -1 : REAL(open)(path, flags, mode); }
int openat(int fd, const char *path, int flags, ...) { MODE(flags); return fails_at(fd, path) ? -1 : REAL(openat)(fd, path, flags, mode); }
ssize_t read(int fd, void *data, size_t bytes) { return fails_at(fd, NULL) ? -1 : REAL(read)(fd, data, bytes); }
ssize_t write(int fd, const void *data, size_t bytes) { return fails_at(fd, NULL) ? -1 : REAL(write)(fd, data, bytes); }
int fsync(int fd) { return fails_at(fd, NULL) ? -1 : REAL(fsync)(fd); }
int ftruncate(int fd, off_t bytes) { return fails_at(fd, NULL) ? -1 : REAL(ftruncate)(fd, bytes); }
int rename(const char *from, const char *to) { return fails(to) ? -1 : REAL(rename)(from, to); }
int unlink(const char *path) { return fails(path) ? -1 : REAL(unlink)(path); }
int unlinkat(int fd, const char *path, int flags) { return fails_at(fd, path) ? -1 : REAL(unlinkat)(fd, path, flags); }
int mkdir(const char *path, mode_t mode) { return fails(path) ? -1 : REAL(mkdir)(path, mode); }
int stat(const char *path, struct stat *is) { return fails(path) ? -1 : REAL(stat)(path, is); }
int lstat(const char *path, struct stat *is) { return fails(path) ? -1 : REAL(lstat)(path, is); }
int fstatat(int fd, const char *path, struct stat *is, int flags) { return fails_at(fd, path) ? -1 : REAL(fstatat)(fd, path, is, flags); }
int access(const char *path, int mode) { return fails(path) ? -1 : REAL(access)(path, mode); }
"""


def play_flake(base, library, number, table):
    """A run goes on where calls fail with EIO and ESTALE, and once more where none does."""
    draw, before = random.Random(draw_seed() + 10**6 + number), {}
    base.renew()
    for name in ("ckpt/state/iteration_NEW.backup", "ckpt/state/iteration_1", "notes", "ckpt/state/journal/notes.3"):
        put(base, base.place(name), "folder" if "iteration" in name else "file")
        before[base.place(name)] = look(base.place(name))
    code, said = base.resume(ranks=draw.choice((1, 1, 2)), LD_PRELOAD=library, FLAKY_DIR=base.work, FLAKY_SEED=number,
                             FLAKY_PER_MILLE=draw.choice((1, 5, 20, 80)))
    what = f"file system {number}: {code} {said}"
    check_untouched(base, before, what)
    check(code == 0 or code in (1, 2) and "error: " in said, what)
    if code == 0:
        check(result(base.work)["param_hash"] == base.hash, what)
    else:
        check(max(checkpoints.iterations(base.work)) >= base.new, f"{what}: a checkpoint is lost")
        again, now = base.resume()
        check(again == 0 and "invalid" not in now, f"{what}; then {again} {now}")
        check(result(base.work)["param_hash"] == base.hash, f"{what}; then another hash")
    check_untouched(base, before, what)
    told = "trained to the end" if code == 0 else "told and resumed"
    table[f"file systems that fail: {told}{', with warnings' if code == 0 and 'warning' in said else ''}"] += 1


def main():
    table = collections.Counter()
    with Scratch() as scratch:
        base, library = Base(scratch), scratch("flaky.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-w", "-x", "c", "-", "-o", library, "-ldl"], input=FLAKY,
                       text=True, check=True)
        for number in take_share(range(ENTRIES // PER_RUN), "entries", of=12):
            play_entries(base, number, table)
        kinds = ("file", "folder", "link", "link to a folder", "pipe")
        for part, kind in take_share([(part, kind) for part in PARTS for kind in kinds], "parts", of=8):
            play_part(base, part, kind, table)
        for number in take_share(range(FLAKES), "flakes", of=12):
            play_flake(base, library, number, table)
    print("tried, none failed:")
    for kind, n in sorted(table.items()):
        print(f"  {n:4} {kind}")


if __name__ == "__main__":
    main()
