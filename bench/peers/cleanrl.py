# SPDX-License-Identifier: Apache-2.0
"""Returns of the same training by CleanRL's own scripts (cleanrl_script.py) and by Heddle with their settings, at the
same number of env steps. A seed is a run of one thread on one core, and two of them run at a time. The return of a run
is the mean undiscounted return of the training episodes, whose actions are drawn, that ended in the last tenth of its
steps; environments count it (cleanrl_record.py), the same way on both sides."""

import concurrent.futures
import dataclasses
import itertools
import math
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import time

from machine import ROOT
from turns import OURS, Missing, environment, pinned, save
from worker import KEEP_MEMORY

HERE = os.path.join(ROOT, "bench/peers")
CORES = (0, 1)
LAST = 0.1  # of the steps
# Half the width of a 95 % band of a mean of n numbers, in standard errors (Student's t, n - 1 degrees of freedom).
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}


@dataclasses.dataclass
class Case:
    env_id: str
    script: str
    run_file: str
    rollout: int  # env steps
    rollouts: int
    envs: int
    arguments: tuple = ()  # of the script, in place of its defaults
    sets: tuple = ()  # of the run file
    frames: int = 1  # steps of the innermost environment, which records episodes, in an env step

    @property
    def steps(self):
        return self.rollout * self.rollouts


CASES = {
    "LunarLander": Case("LunarLander-v3", "ppo.py", "cleanrl_lunar_lander", 512, 586, 4, ("--anneal-lr", "False")),
    "HalfCheetah": Case("HalfCheetah-v5", "ppo_continuous_action.py", "cleanrl_half_cheetah", 2048, 100, 1,
                        ("--anneal-lr", "False")),
    "Pendulum": Case("Pendulum-v1", "sac_continuous_action.py", "cleanrl_pendulum", 1, 10000, 1,
                     ("--learning-starts", "1000")),
    "InvertedPendulum": Case("InvertedPendulum-v5", "sac_continuous_action.py", "cleanrl_pendulum", 1, 20000, 1,
                             ("--learning-starts", "1000"), ("env.env_id=InvertedPendulum-v5",)),
    "HopperSAC": Case("Hopper-v4", "sac_continuous_action.py", "cleanrl_pendulum", 1, 100000, 1, (),
                      ("env.env_id=Hopper-v4", "policy.random_collect_size=5000",
                       "policy.other.replay_buffer.replay_buffer_size=100000")),
    "HalfCheetahAnnealed": Case("HalfCheetah-v4", "ppo_continuous_action.py", "cleanrl_half_cheetah", 2048, 488, 1, (),
                                ("env.env_id=HalfCheetah-v4", "policy.learn.schedule.learning_rate={type: linear, end: 0}")),
    "Breakout": Case("ale_py:BreakoutNoFrameskip-v4", "ppo_atari.py", "cleanrl_breakout", 1024, 350, 8, frames=4),
    "Hopper": Case("Hopper-v5", "ppo_continuous_action.py", "cleanrl_half_cheetah", 2048, 98, 1,
                   ("--anneal-lr", "False"), ("env.env_id=Hopper-v5",)),
}


def theirs(options, case, seed, folder):
    env = {**os.environ, **KEEP_MEMORY, "OMP_NUM_THREADS": "1"}
    return [sys.executable, os.path.join(HERE, "cleanrl_script.py"), case.script, "--env-id", case.env_id, "--cuda", "False",
            "--seed", seed, "--total-timesteps", case.steps, *case.arguments], env, folder


def ours(options, case, seed, folder):
    return [f"{options.build}/runner", "run", f"bench/peers/{case.run_file}.yaml", "--dir", f"{folder}/run", "--quiet",
            "--seed", seed, "--set", "runtime.workers=1", "--set", f"max_env_step={case.steps}",
            *(word for text in case.sets for word in ("--set", text))], environment(options), ROOT


def read_return(folder, case):
    """The environment that evaluates before the first step plays one episode, so that it does not count."""
    totals = []
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            for line in file:
                steps, total = line.split()
                if int(steps) > (1 - LAST) * case.steps / case.envs * case.frames:
                    totals.append(float(total))
    return statistics.fmean(totals)


class Field:
    """The cores, and what runs on them."""

    def __init__(self):
        self.cores, self.running = queue.Queue(), set()
        for core in CORES:
            self.cores.put(core)

    def play(self, contender, options, case, seed):
        """(return, seconds, seconds of CPU) of a run."""
        with tempfile.TemporaryDirectory(prefix="heddle-peers-") as folder:
            episodes = os.path.join(folder, "episodes")
            os.mkdir(episodes)
            words, env, where = contender(options, case, seed, folder)
            core = self.cores.get()
            try:
                begin = time.monotonic()
                cpu = self.wait(pinned([core], *words), {**env, "PEERS_EPISODES": episodes}, where)
                return read_return(episodes, case), time.monotonic() - begin, cpu
            finally:
                self.cores.put(core)

    def wait(self, command, env, where):
        with tempfile.TemporaryFile("w+") as said:
            process = subprocess.Popen(command, cwd=where, env=env, stdout=subprocess.DEVNULL, stderr=said)
            self.running.add(process)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.running.remove(process)
            said.seek(0)
            if process.returncode != 0:
                raise Missing((said.read().splitlines() or [f"exit code {process.returncode}"])[-1])
        return usage.ru_utime + usage.ru_stime

    def play_all(self, contenders, options, case):
        """{name: what each seed found}."""
        with concurrent.futures.ThreadPoolExecutor(len(CORES)) as pool:
            asked = [(name, pool.submit(self.play, contender, options, case, seed))
                     for seed in range(1, options.repeats + 1) for name, contender in contenders.items()]
            try:
                found = {name: [] for name in contenders}
                for name, future in asked:
                    found[name].append(future.result())
                return found
            finally:
                for _, future in asked:
                    future.cancel()
                for process in self.running.copy():
                    process.terminate()


def band(returns):
    """The 95 % confidence band of their mean."""
    mean, n = statistics.fmean(returns), len(returns)
    half = STUDENT[n] * statistics.stdev(returns) / math.sqrt(n)
    return [mean - half, mean + half]


def permute(a, b):
    """The share of the ways to deal the returns to both sides that part the means as far as they are (p, two-sided)."""
    both, apart = a + b, abs(statistics.fmean(a) - statistics.fmean(b))
    deals = list(itertools.combinations(range(len(both)), len(a)))
    far = 0
    for deal in deals:
        one = sum(both[i] for i in deal)
        far += abs(one / len(a) - (sum(both) - one) / len(b)) >= apart * (1 - 1e-9)
    return far / len(deals)


def run(options):
    if options.repeats not in STUDENT:
        sys.exit(f"cleanrl: --repeats is the number of seeds, {min(STUDENT)} to {max(STUDENT)}")
    for name, case in CASES.items():
        if options.env and name not in options.env:
            continue
        if options.short:
            case = dataclasses.replace(case, rollouts=case.rollouts // 4)
        label = f"cleanrl: {case.env_id}, {case.script}, {case.steps} env steps"
        contenders = {OURS: ours, "CleanRL": theirs}
        try:
            found = Field().play_all(contenders, options, case)
        except Missing as why:
            print(f"\n{label}: not measured: {why}", flush=True)
            continue
        report(options, label, found)


def report(options, label, found):
    print(f"\n{label} [return, {options.repeats} seeds]")
    lines, returns = [], {}
    for name, runs in found.items():
        returns[name], seconds, cpu = (list(column) for column in zip(*runs))
        low, high = band(returns[name])
        print(f"  {name:10s} {statistics.fmean(returns[name]):9.1f}  (95 % band {low:.1f} to {high:.1f})  "
              f"{statistics.median(seconds):7.1f} s  {statistics.median(cpu):7.1f} s of CPU   "
              f"{' '.join(f'{value:.1f}' for value in returns[name])}")
        lines.append({"case": label, "contender": name, "unit": "return", "median": statistics.median(returns[name]),
                      "min": min(returns[name]), "max": max(returns[name]), "repeats": len(returns[name]),
                      "mean": statistics.fmean(returns[name]), "band_95": [low, high], "returns": returns[name],
                      "wall_s": statistics.median(seconds), "cpu_s": statistics.median(cpu)})
    p = permute(returns[OURS], returns["CleanRL"])
    print(f"  means differ by {statistics.fmean(returns[OURS]) - statistics.fmean(returns['CleanRL']):.1f}, p = {p:.3f} "
          "(permutation test)", flush=True)
    if options.save:
        save([{**line, "p_permutation": p} for line in lines])
