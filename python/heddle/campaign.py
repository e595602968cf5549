# SPDX-License-Identifier: Apache-2.0
"""Sets of runs: each is an ordinary run directory in the folder of the set, several train side by side on cores of their
own, and what was interrupted or killed goes on where it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from . import program
from .errors import Error, InputError
from .training import Run

_POLL_S, _PROGRESS_S = 0.1, 30.0


@dataclass
class Job:
    """A run of a set. `keys` are those that it overrides."""

    directory: Path
    config: Path
    keys: dict[str, Any]
    errors: list[str] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return (self.directory / "total_config.yaml").exists() and Run(self.directory).ended

    @property
    def result(self) -> dict[str, Any]:
        return Run(self.directory).result


@dataclass
class Active:
    job: Job
    process: subprocess.Popen[str]
    slot: int
    log: Path
    told_s: float = field(default_factory=time.monotonic)

    def tell_progress(self) -> None:
        """Says now and then how far the run is, as the program says it."""
        if time.monotonic() - self.told_s < _PROGRESS_S:
            return
        self.told_s = time.monotonic()
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        newest = next((line for line in reversed(lines) if line.startswith("update ")), None)
        if newest:
            say(f"  {self.job.directory.name}: {newest}")


def split_cores(jobs: int) -> list[list[int]]:
    """The cores of each of the jobs that run side by side; fewer cores than jobs are shared."""
    cores = sorted(os.sched_getaffinity(0))
    if jobs > len(cores):
        return [[cores[i % len(cores)]] for i in range(jobs)]
    return [cores[i * len(cores) // jobs:(i + 1) * len(cores) // jobs] for i in range(jobs)]


class Pool:
    """Runs jobs, at most `slots` at a time. What a job says goes to the file `runner.log` of its run directory."""

    def __init__(self, slots: int) -> None:
        if slots < 1:
            raise InputError(f"--jobs: expected a number from 1, found {slots}")
        self.cores = split_cores(slots)
        self.active: list[Active] = []

    @property
    def full(self) -> bool:
        return len(self.active) == len(self.cores)

    def start(self, job: Job) -> None:
        used = {active.slot for active in self.active}
        slot = next(i for i in range(len(self.cores)) if i not in used)
        job.directory.parent.mkdir(parents=True, exist_ok=True)
        log = job.directory.with_name(job.directory.name + ".log")
        arguments = program.build_arguments(job.config, job.directory, job.keys, resume=True)
        with open(log, "w", encoding="utf-8") as file:
            process = program.start(arguments, cores=self.cores[slot], stdout=subprocess.DEVNULL, stderr=file)
        self.active.append(Active(job, process, slot, log))

    def wait(self, timeout_s: Optional[float] = None) -> Optional[Job]:
        """Waits for a job to end, at most `timeout_s`. A job that failed has its errors. Raises KeyboardInterrupt
        when all jobs were stopped by one."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            while self.active:
                for active in self.active:
                    if active.process.poll() is not None:
                        return self._finish(active)
                    active.tell_progress()
                if until is not None and time.monotonic() >= until:
                    break
                time.sleep(_POLL_S)
        except KeyboardInterrupt:
            self.stop()
            raise KeyboardInterrupt("stopped; the same command goes on") from None
        return None

    def _finish(self, active: Active) -> Job:
        self.active.remove(active)
        lines = active.log.read_text(encoding="utf-8", errors="replace").splitlines()
        active.log.unlink()
        job = active.job
        try:
            program.check(active.process.returncode, lines)
        except Error as error:
            job.errors = str(error).splitlines()
        except KeyboardInterrupt:
            job.errors = ["it was interrupted"]
        return job

    def stop(self) -> None:
        """Stops all jobs: each writes a checkpoint."""
        for active in self.active:
            active.process.send_signal(signal.SIGINT)
        for active in self.active:
            active.process.wait()

    def cancel(self, job: Job) -> None:
        """Stops a job that nobody waits for any more."""
        active = next(active for active in self.active if active.job is job)
        active.process.send_signal(signal.SIGINT)
        active.process.wait()
        self._finish(active)


def run_all(jobs: Iterable[Job], slots: int) -> list[Job]:
    """Runs those jobs that have not ended, tells of each that ends, and returns those that failed."""
    jobs = list(jobs)
    waiting = [job for job in jobs if not job.ended]
    done = len(jobs) - len(waiting)
    if done:
        say(f"{done} of {len(jobs)} runs have ended before")
    pool, failed = Pool(slots), []
    while waiting or pool.active:
        while waiting and not pool.full:
            pool.start(waiting.pop(0))
        job = pool.wait()
        if job is None:
            continue
        done += 1
        say(f"[{done}/{len(jobs)}] {job.directory.name}: {describe(job)}")
        if job.errors:
            failed.append(job)
    return failed


def describe(job: Job) -> str:
    """How a job ended, in a line."""
    if job.errors:
        return "failed: " + job.errors[0]
    result = job.result
    value = find_value(result, "last")
    text = "no evaluation" if value is None else f"return {value:.1f}"
    return (f"{result['reason']} after {result['env_step']} env steps, {text}, in {result['wall_s']:.0f} s")


def find_value(result: Mapping[str, Any], metric: str) -> Optional[float]:
    """A return of result.json: of the last evaluation, the best one, or of training episodes late ("train")."""
    if metric == "last" and result.get("last_value") is None:
        return result.get("eval_value")
    return result.get({"last": "last_value", "best": "best_value", "train": "train_value"}[metric])


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def take_manifest(folder: Path, name: str, manifest: Mapping[str, Any], extends: Iterable[str] = ()) -> None:
    """Writes what a set of runs is into its folder, or compares it with what stands there: all but the fields of
    `extends` has to be the same."""
    path = folder / name
    if path.exists():
        there = json.loads(path.read_text(encoding="utf-8"))
        for key in {**there, **manifest}:
            if key not in extends and there.get(key) != manifest.get(key):
                raise InputError(f"{path}: this set of runs was begun with {key} {there.get(key)!r}, not "
                                 f"{manifest.get(key)!r}: name another folder by --dir")
    elif folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty and no set of runs that `heddle {path.stem}` began: name another folder "
                         "by --dir")
    folder.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".tmp")
    partial.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    partial.replace(path)
