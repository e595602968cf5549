# SPDX-License-Identifier: Apache-2.0
"""A search for settings: Optuna chooses those of each trial, and a trial is one run, or one for each of several seeds.
The study is in the folder of the runs; what the next trial is follows from it and from the trial's number alone, so that
a search that was killed goes on as if it had not been."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import optuna
import yaml
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, Trial, TrialState

from . import campaign, program
from .campaign import Job
from .errors import Error, InputError
from .training import Run

SAMPLERS = ("tpe", "random", "cmaes", "grid")
PRUNERS = ("median", "halving", "none")
_POLL_S = 2.0
_NO_LIMIT = 1e9
_SPARED = 1 / 3  # of a run's env steps: no pruner judges it before, since early returns say little


# -- The space ------------------------------------------------------------------------------------


def read_space(path: Path) -> dict[str, BaseDistribution]:
    """Reads a file of {key: [value, ...]} or {key: {low, high, log or step}}."""
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise InputError(f"{path}: {error}") from None
    if not isinstance(tree, dict) or not tree:
        raise InputError(f"{path}: expected a map from keys to what they may be")
    return {str(key): _read_distribution(f"{path}: {key}", value) for key, value in tree.items()}


def _read_distribution(place: str, value: Any) -> BaseDistribution:
    if isinstance(value, list) and value:
        if all(isinstance(choice, (str, int, float, bool)) for choice in value):
            return CategoricalDistribution(value)
        raise InputError(f"{place}: choices are numbers, texts, true and false")
    if not isinstance(value, dict) or not {"low", "high"} <= value.keys() <= {"low", "high", "log", "step"}:
        raise InputError(f"{place}: expected a list of choices, or a map with low and high, and perhaps log or step")
    numbers = [_read_number(place, name, value[name]) for name in ("low", "high", "step") if name in value]
    whole = all(isinstance(number, int) for number in numbers)
    step = numbers[2] if len(numbers) > 2 else None
    try:
        if whole:
            return IntDistribution(numbers[0], numbers[1], value.get("log", False), step or 1)
        return FloatDistribution(numbers[0], numbers[1], value.get("log", False), step)
    except ValueError as error:
        raise InputError(f"{place}: {error}") from None


def _read_number(place: str, name: str, value: Any) -> int | float:
    """YAML takes 1e-4, which has no dot, for a text."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise InputError(f"{place}: {name}: expected a number, found {value!r}")
    try:
        return value if isinstance(value, (int, float)) else float(value)
    except ValueError:
        raise InputError(f"{place}: {name}: expected a number, found {value!r}") from None


def list_corners(space: Mapping[str, BaseDistribution]) -> list[dict[str, Any]]:
    """Settings that have each choice and each end of a range once, with the first of the others."""
    ends = {key: list(part.choices) if isinstance(part, CategoricalDistribution) else [part.low, part.high]
            for key, part in space.items()}
    first = {key: values[0] for key, values in ends.items()}
    return [{**first, key: value} for key, values in ends.items() for value in values]


# -- Trials ---------------------------------------------------------------------------------------


@dataclass
class Plan:
    """What all trials have in common."""

    folder: Path
    config: Path
    keys: dict[str, Any]
    seeds: Sequence[int]
    space: dict[str, BaseDistribution]
    trials: int
    metric: str = "last"
    sampler: str = "tpe"
    pruner: str = "median"
    sampler_seed: int = 0


@dataclass
class Running:
    """A trial and those of its runs that have not ended yet."""

    trial: Trial
    waiting: list[Job]
    ended: list[Job] = field(default_factory=list)
    job: Optional[Job] = None
    watched: int = 0  # evaluations of its first run
    limit: int = 0  # of its env steps; 0: none, or not read yet


def _build_sampler(plan: Plan, number: int) -> optuna.samplers.BaseSampler:
    seed = plan.sampler_seed * 1_000_003 + number
    if plan.sampler == "grid":
        if not all(isinstance(part, CategoricalDistribution) for part in plan.space.values()):
            raise InputError("--sampler grid: the space has to consist of lists of choices")
        choices = {key: list(part.choices) for key, part in plan.space.items()}
        return optuna.samplers.GridSampler(choices, seed=plan.sampler_seed)
    build = {"tpe": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler,
             "cmaes": optuna.samplers.CmaEsSampler}[plan.sampler]
    return build(seed=seed)


def _build_pruner(name: str) -> optuna.pruners.BasePruner:
    return {"median": optuna.pruners.MedianPruner, "halving": optuna.pruners.SuccessiveHalvingPruner,
            "none": optuna.pruners.NopPruner}[name]()


def open_study(plan: Plan) -> optuna.Study:
    """The study in the folder, a new one at first."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna.create_study(storage=f"sqlite:///{plan.folder / 'study.db'}", study_name="sweep", load_if_exists=True,
                               direction="maximize", pruner=_build_pruner(plan.pruner))


class Search:
    """Trials that run side by side, until there are as many as planned. `tell` is called with each that ended."""

    def __init__(self, plan: Plan, slots: int) -> None:
        self.plan, self.study = plan, open_study(plan)
        self.pool = campaign.Pool(slots)
        self.running: list[Running] = []
        self.begun = [self._take(Trial(self.study, frozen._trial_id))
                      for frozen in self.study.get_trials(states=(TrialState.RUNNING,))]

    def _take(self, trial: Trial) -> Running:
        name = f"trial_{trial.number:04d}"
        names = [name] if len(self.plan.seeds) == 1 else [f"{name},seed={seed}" for seed in self.plan.seeds]
        return Running(trial, [Job(self.plan.folder / one, self.plan.config, {**self.plan.keys, **trial.params, "seed": seed})
                               for one, seed in zip(names, self.plan.seeds)])

    def _find(self, number: int) -> FrozenTrial:
        return self.study.get_trials(deepcopy=False)[number]

    def _ask(self) -> Optional[Running]:
        if self.begun:
            return self.begun.pop(0)
        number = len(self.study.get_trials(deepcopy=False))
        if number >= self.plan.trials:
            return None
        self.study.sampler = _build_sampler(self.plan, number)
        return self._take(self.study.ask(self.plan.space))

    def run(self) -> None:
        try:
            while self._start() or self.running:
                job = self.pool.wait(_POLL_S)
                if job:
                    self._advance(next(running for running in self.running if running.job is job))
                for running in list(self.running):
                    self._watch(running)
        except BaseException:
            self.pool.stop()
            raise

    def _start(self) -> bool:
        """Starts trials while there are free slots; returns whether one was started."""
        started = False
        while not self.pool.full:
            running = self._ask()
            if running is None:
                break
            self.running.append(running)
            self._start_next(running)
            started = True
        return started

    def _start_next(self, running: Running) -> None:
        """Starts the next run of a trial, which may have ended in an earlier search; ends the trial after the last."""
        while running.waiting and running.waiting[0].ended:
            running.ended.append(running.waiting.pop(0))
        if running.waiting:
            running.job = running.waiting.pop(0)
            self.pool.start(running.job)
        else:
            self._watch(running)
            if running in self.running:
                self._end(running)

    def _advance(self, running: Running) -> None:
        job, running.job = running.job, None
        assert job
        if job.errors:
            self._fail(running, job)
            return
        running.ended.append(job)
        self._start_next(running)

    def _watch(self, running: Running) -> None:
        """Reports the evaluations of the first run that are new, and ends the trial where the pruner says so."""
        first = running.ended[0] if running.ended else running.job
        if self.plan.pruner == "none" or first is None or not (first.directory / "log").exists():
            return
        running.limit = running.limit or read_limit(first.directory)
        known = self._find(running.trial.number).intermediate_values  # from before a kill as well
        for env_step, value in read_evaluations(first.directory)[running.watched:]:
            running.watched += 1
            if env_step not in known:
                running.trial.report(value, env_step)
            if env_step >= _SPARED * running.limit and running.trial.should_prune():
                if running.job:
                    self.pool.cancel(running.job)
                self._tell(running, TrialState.PRUNED, f"pruned after {env_step} env steps, return {value:.1f}")
                return

    def _end(self, running: Running) -> None:
        values = [campaign.find_value(job.result, self.plan.metric) for job in running.ended]
        if any(value is None for value in values):
            running.ended[values.index(None)].errors = [f"it has no return ({self.plan.metric})"]
            self._fail(running, running.ended[values.index(None)])
            return
        value = sum(values) / len(values)
        self.running.remove(running)
        self.study.tell(running.trial, value)
        best = self.study.best_trial
        self._say(running.trial.number, f"return {value:.1f} (best {best.value:.1f}, trial {best.number})")

    def _fail(self, running: Running, job: Job) -> None:
        self._tell(running, TrialState.FAIL, f"failed: {job.errors[0]}")
        states = [trial.state for trial in self.study.get_trials(deepcopy=False)]
        if states.count(TrialState.FAIL) >= 3 and TrialState.COMPLETE not in states:
            raise Error(f"the first trials failed; the last: {job.errors[0]}")

    def _tell(self, running: Running, state: TrialState, text: str) -> None:
        self.running.remove(running)
        self.study.tell(running.trial, state=state)
        self._say(running.trial.number, text)

    def _say(self, number: int, text: str) -> None:
        params = self._find(number).params
        settings = ", ".join(f"{key.rpartition('.')[2]} {format_value(value)}" for key, value in params.items())
        campaign.say(f"[{number + 1}/{self.plan.trials}] {text}: {settings}")


def format_value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def read_evaluations(directory: Path) -> list[tuple[int, float]]:
    """(env step, mean return) of each evaluation after the first update that the run logged so far."""
    lines = program.run(["report", str(directory), "--csv", "-"]).splitlines()
    rows = (line.split(",") for line in lines)
    return [(int(row[2]), float(row[5])) for row in rows
            if row[0] == "evaluator" and row[4] == "eval_episode_return_mean" and int(row[1]) > 0]


def read_limit(directory: Path) -> int:
    """The env steps at which the run ends; 0 where something else ends it."""
    limit = yaml.safe_load((directory / "total_config.yaml").read_text(encoding="utf-8"))["max_env_step"]
    return int(limit) if float(limit) < _NO_LIMIT else 0


def rank(study: optuna.Study) -> list[FrozenTrial]:
    """The trials that have values, the best first."""
    trials = study.get_trials(states=(TrialState.COMPLETE,))
    return sorted(trials, key=lambda trial: (-trial.value, trial.number))
