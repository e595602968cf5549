# SPDX-License-Identifier: Apache-2.0
"""The program `runner`: where it is, how it is started, and what it says."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

from .errors import Error, InputError

_PACKAGE = Path(__file__).resolve().parent
BAD_INPUT, INTERRUPTED = 2, 130
_PR_SET_PDEATHSIG = 1


def find_runner() -> Path:
    """$HEDDLE_RUNNER, else the program in this package, of the clone that this package lies in, or of PATH."""
    named = os.environ.get("HEDDLE_RUNNER")
    if named:
        if not os.access(named, os.X_OK):
            raise InputError(f"HEDDLE_RUNNER: {named} is no program")
        return Path(named).absolute()
    places = [_PACKAGE / "_program/bin/runner", _PACKAGE.parents[1] / "build/runner"]
    found = next((place for place in places if os.access(place, os.X_OK)), None) or shutil.which("runner")
    if not found:
        raise Error(f"there is no program `runner`: it is not in {places[0].parent} nor {places[1].parent}, and not in PATH; "
                    "HEDDLE_RUNNER names it")
    return Path(found)


def find_configs() -> Path:
    """The folder of run files, presets and graphs that came with the program."""
    runner = find_runner().resolve()
    places = [root / "share/heddle/configs" for root in (runner.parents[1], runner.parent)]
    for place in places:
        if (place / "graphs").is_dir():
            return place
    raise Error(f"there are no run files beside {runner}: neither {places[0]} nor {places[1]} is there")


def build_environment() -> dict[str, str]:
    """The environment of the program, whose environments of gymnasium step in this Python where nothing else names one."""
    return {"HEDDLE_PYTHON": sys.executable, **os.environ}


def format_set(key: str, value: Any) -> str:
    """The argument of --set; a text that is given means what it means in a run file, quoted or not."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    return f"{key}={value if isinstance(value, str) else json.dumps(_to_plain(value))}"


def _to_plain(value: Any) -> Any:
    """Numbers and arrays of numpy as those of Python; what JSON has not is refused."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _to_plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_plain(part) for part in value]
    if value is None or not isinstance(value, (bool, int, float, str)):
        raise InputError(f"values of keys are numbers, texts, true or false, lists and maps, found {value!r}")
    return value


def build_sets(keys: Mapping[str, Any]) -> list[str]:
    return [part for key, value in keys.items() for part in ("--set", format_set(key, value))]


def build_arguments(config: str | os.PathLike[str], directory: str | os.PathLike[str], keys: Mapping[str, Any], *,
                    ranks: int = 1, resume: bool = False) -> list[str]:
    """The arguments of a training run, which begins in `directory` or goes on there."""
    start = ["run"] if ranks == 1 else ["launch", "--nproc-per-node", str(ranks)]
    return [*start, os.fspath(config), "--dir", os.fspath(directory), *(["--resume"] if resume else []),
            *build_sets(keys)]


def start(arguments: Sequence[str], *, cores: Iterable[int] | None = None, **options: Any) -> subprocess.Popen[str]:
    """Starts the program in a process group of its own, so that a Ctrl-C of the terminal reaches it once, from here. It
    stops with a checkpoint when this process dies."""
    libc = ctypes.CDLL(None)
    wanted = None if cores is None else set(cores)

    def prepare() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if wanted:
            os.sched_setaffinity(0, wanted)

    return subprocess.Popen([os.fspath(find_runner()), *arguments], stdin=subprocess.DEVNULL, text=True, errors="replace",
                            env=build_environment(), start_new_session=True, preexec_fn=prepare, **options)


def run(arguments: Sequence[str]) -> str:
    """Runs a command to its end and returns its stdout. Raises InputError or Error with what it said."""
    done = subprocess.run([os.fspath(find_runner()), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace", env=build_environment(), check=False)
    check(done.returncode, done.stderr.splitlines())
    return done.stdout


def check(code: int, lines: Iterable[str]) -> None:
    """Raises what an exit code stands for, with the errors among the lines."""
    if code == 0:
        return
    lines = list(lines)
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    text = "\n".join(errors or lines[-3:]) or f"runner ended with code {code}"
    if code == INTERRUPTED:
        raise KeyboardInterrupt(text)
    raise (InputError if code == BAD_INPUT else Error)(text)


def follow(process: subprocess.Popen[str], show: Callable[[str], None]) -> int:
    """Gives each line of the process to `show` until it ends, and returns its exit code. A KeyboardInterrupt stops it,
    with a checkpoint."""
    assert process.stderr
    interrupted = False
    while True:
        try:
            for line in process.stderr:
                show(line.rstrip("\n"))
            code = process.wait()
            return INTERRUPTED if interrupted else code
        except KeyboardInterrupt:
            process.send_signal(signal.SIGKILL if interrupted else signal.SIGINT)
            interrupted = True
