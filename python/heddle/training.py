# SPDX-License-Identifier: Apache-2.0
"""Training from Python: the program `runner` trains, and a Run is what it left."""

from __future__ import annotations

import importlib.util
import inspect
import io
import json
import sys
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from . import program
from .builtin import BUILTIN
from .errors import InputError

if TYPE_CHECKING:
    import pandas

    from .policy import Policy

Environment = Union[str, type]


class Run:
    """A run directory.

    directory: its path.
    result: the contents of result.json; empty before the run ends (docs/configuration.md, "What a run leaves behind")."""

    def __init__(self, directory: str | PathLike[str]) -> None:
        self.directory = Path(directory)
        if not (self.directory / "total_config.yaml").exists():
            raise InputError(f"{fspath(directory)} is no run directory: it has no total_config.yaml")

    def __repr__(self) -> str:
        return f"Run({str(self.directory)!r})"

    @property
    def result(self) -> dict[str, Any]:
        try:
            return json.loads((self.directory / "result.json").read_text())
        except FileNotFoundError:
            return {}

    @property
    def ended(self) -> bool:
        """Whether the run is over: its task is solved, or a limit is reached. Other runs can go on."""
        return self.result.get("reason", "stopped") not in ("stopped", "failed")

    @property
    def metrics(self) -> pandas.DataFrame:
        """All numbers that were logged so far: a row for each update at which something was, with `env_step` and
        `seconds`, and a column for each name, such as evaluator/reward_mean; NaN where it was not logged. Needs pandas."""
        import pandas

        text = program.run(["report", fspath(self.directory), "--csv", "-"])
        logged = pandas.read_csv(io.StringIO(text))
        logged["name"] = logged["component"] + "/" + logged["name"]
        when = logged.groupby("update")[["env_step", "seconds"]].max()
        return when.join(logged.pivot(index="update", columns="name", values="value"))

    @property
    def policy(self) -> Policy:
        """The policy with the best weights."""
        from .policy import load

        return load(self.directory)

    @property
    def report(self) -> Path:
        """The page of the run, which is written anew."""
        program.run(["report", fspath(self.directory)])
        return self.directory / "report.html"


def find_config(config: str | PathLike[str]) -> Path:
    """The run file of that path, or the preset of that name."""
    path = Path(config)
    if path.suffix or path.parent != Path("."):
        return path
    presets = program.find_configs() / "presets"
    names = sorted(preset.stem for preset in presets.glob("*.yaml"))
    if str(config) not in names:
        raise InputError(f"there is no preset {str(config)!r}: expected one of {', '.join(names)}, or the path of a run file")
    return presets / f"{config}.yaml"


def _find_folder(module: str) -> Path:
    """The folder in which workers find a module."""
    found = importlib.util.find_spec(module.partition(".")[0])
    if not found or not found.origin:
        raise InputError(f"env: there is no module {module!r} that can be imported")
    origin = Path(found.origin)
    return origin.parents[1] if found.submodule_search_locations else origin.parent


def _name_class(made: type) -> str:
    module = made.__module__
    if module == "__main__" or "." in made.__qualname__:
        raise InputError(f"env: {made.__qualname__} of {module} cannot be imported by the processes that step environments: "
                         "put it into a module of its own, at the top")
    return f"{module}:{made.__qualname__}"


def describe_env(env: Environment) -> dict[str, Any]:
    """The keys of a run file for an environment: a built-in type ("cartpole", "heddle/CartPole-v0"), an id of gymnasium
    ("CartPole-v1"), the name of a class or function ("my_module:MyEnv"), or the class or function itself."""
    if isinstance(env, str):
        name = env
    elif inspect.isclass(env) or inspect.isfunction(env):
        name = _name_class(env)
    else:
        raise InputError(f"env: expected a name or a class, found {env!r}")
    ours = {f"heddle/{title}-v0": arguments for title, arguments in BUILTIN.items()}
    ours.update({arguments["source"]: arguments for arguments in BUILTIN.values()})
    if name in ours:
        return {"env.type": ours[name]["source"], "env.frame_stack": ours[name].get("frame_stack", 1)}
    keys: dict[str, Any] = {"env.type": "gymnasium", "env.env_id": name, "env.options.python": sys.executable}
    module, colon, _ = name.partition(":")
    if colon:
        keys["env.options.path"] = str(_find_folder(module))
    return keys


def _find_directory(name: str) -> Path:
    """A directory that does not exist yet, as the program itself would choose it."""
    path, number = Path(name), 0
    while path.exists():
        number += 1
        path = Path(f"{name}_{number}")
    return path


def _take_keys(given: Mapping[str, Any]) -> dict[str, Any]:
    for key in given:
        if "." not in key and key not in ("max_env_step", "max_train_iter", "exp_name", "graph", "strategy"):
            raise InputError(f"{key!r} is neither an argument of train nor a key of run files, such as "
                             "policy.learn.learning_rate")
    return dict(given)


def train(config: str | PathLike[str], env: Environment | None = None, *, steps: int | None = None,
          seed: int | None = None, ranks: int = 1, directory: str | PathLike[str] | None = None, resume: bool = False,
          progress: bool = True, **keys: Any) -> Run:
    """Trains, and returns the run when it is over.

    config: a preset ("ppo", "a2c", "dqn", "sac"), or the path of a run file.
    env: as in `describe_env`; None: that of the run file.
    steps: environment steps after which the run ends (max_env_step).
    ranks: processes that train together, which changes no bit of the result.
    directory: the run directory; None: a new one in the working directory, named by the run file.
    resume: goes on in `directory`, or begins there if it is new.
    progress: prints what the program says.
    keys: any keys of run files: **{"policy.learn.learning_rate": 3e-4}.

    Raises InputError for what is wrong in arguments, run file or environment, Error for other failures, and
    KeyboardInterrupt when it is interrupted; a run that was interrupted has a checkpoint and can be resumed."""
    path = find_config(config)
    given = {} if env is None else describe_env(env)
    for key, value in (("max_env_step", steps), ("seed", seed)):
        if value is not None:
            given[key] = value
    given.update(_take_keys(keys))
    if resume and directory is None:
        raise InputError("resume needs the directory of the run")
    place = Path(directory) if directory is not None else _find_directory(path.stem)
    lines: list[str] = []

    def show(line: str) -> None:
        lines.append(line)
        if progress:
            print(line, flush=True)

    process = program.start(program.build_arguments(path, place, given, ranks=ranks, resume=resume), stderr=-1)
    code = program.follow(process, show)
    if code == program.INTERRUPTED:
        raise KeyboardInterrupt(f"{place} has a checkpoint: train(..., directory={str(place)!r}, resume=True) goes on")
    program.check(code, lines)
    return Run(place)
