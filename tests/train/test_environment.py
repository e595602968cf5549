#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each row of the table in docs/configuration.md, section "Variables of libraries": what is cleared holds up nothing, what
is heeded or passed on arrives, and no result depends on any of it. The default number of workers follows a quota."""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, RUNNER, Scratch, call, check, environment, result, sets, train  # noqa: E402

SHORT = dict(max_train_iter=40, env__stop_value="1e9")
CONV = dict(config=os.path.join(ROOT, "configs/pixel_pong_dqn_ddp.yaml"), strategy="{}", world__shards=1, max_train_iter=4,
            env__collector_env_num=2, policy__model__encoder_hidden_size_list="[4,4,4,8]", policy__learn__batch_size=8,
            policy__collect__n_sample=16, policy__eval__evaluator__eval_freq=1000000)
# Each of these made a run hang, crash or end, or is another kind of setting.
STARPU = dict(STARPU_LIMIT_MAX_SUBMITTED_TASKS=2, STARPU_LIMIT_MIN_SUBMITTED_TASKS=1, STARPU_WATCHDOG_TIMEOUT=1000,
              STARPU_WATCHDOG_CRASH=1, STARPU_DISABLE_KERNELS=1, STARPU_TASK_BREAK_ON_EXEC=3, STARPU_RESERVE_NCPU=1,
              STARPU_WORKERS_CPUID=7, STARPU_CALIBRATE=2, STARPU_HOME="/nonexistent", STARPU_NCUDA=3,
              STARPU_DISK_SWAP="/nonexistent", STARPU_DISK_SWAP_SIZE=10, STARPU_MIN_PRIO=0, STARPU_MAX_PRIO=0)
BINDING = dict(OMP_PROC_BIND="true", OMP_PLACES="cores", GOMP_CPU_AFFINITY="0", KMP_AFFINITY="compact")
OTHER_MACHINE = dict(HWLOC_SYNTHETIC="package:2 core:8 pu:1", HWLOC_XMLFILE="/nonexistent", HWLOC_FSROOT="/nonexistent",
                     HWLOC_THISSYSTEM=0, HWLOC_ALLOW="all", HWLOC_CPUID_PATH="/nonexistent",
                     HWLOC_DUMPED_HWDATA_DIR="/nonexistent")


def check_same(scratch, reference, name, **variables):
    """Returns what a run said under these variables."""
    done = call("run", CONFIG, "--dir", scratch(name), *sets(**SHORT), env=environment(**variables), timeout=60)
    found = result(scratch(name))["param_hash"]
    check(found == reference, f"another result under {variables}: {found}")
    return done.stderr


def check_cleared(scratch, reference, name, variables):
    said = check_same(scratch, reference, name, **variables)
    told = re.findall("cleared from the environment: (.*?) [(]", said)
    check(len(told) == 1 and set(told[0].split(", ")) == set(variables), f"{name}: {said}")
    done = call("launch", "--nproc-per-node", "2", CONFIG, "--dir", scratch(name + "2"), "--quiet", *sets(**SHORT),
                env=environment(**variables))
    check(done.stderr.count("cleared from the environment") == 1, f"{name} of two ranks: {done.stderr}")
    check(result(scratch(name + "2"))["param_hash"] == reference, f"another result of two ranks under {name}")


def check_starpu(scratch, reference):
    check_cleared(scratch, reference, "starpu", STARPU)
    check("1 worker in rank 0" in check_same(scratch, reference, "ncpu", STARPU_NCPU=1), "STARPU_NCPU is not heeded")
    said = check_same(scratch, reference, "dm", STARPU_SCHED="dm", STARPU_PERF_MODEL_DIR=scratch("models"), STARPU_FXT_TRACE=0,
                      STARPU_FXT_PREFIX=scratch.path)
    check("cleared" not in said and os.listdir(scratch("models/codelets")), f"of models and traces: {said}")
    for variable in ("STARPU_NCPU=0", "STARPU_NCPU=2 ", "STARPU_NCPU=100000", "STARPU_SCHED=dmdar"):
        done = call("run", CONFIG, "--dir", scratch("never"), env=environment(**dict([variable.split("=")])), expect=2)
        check(variable in done.stderr and not os.path.exists(scratch("never")), f"{variable}: {done.stderr}")


def check_openmp(scratch, reference):
    check_cleared(scratch, reference, "binding", BINDING)
    cores = len(os.sched_getaffinity(0))
    said = call("doctor", env=environment(**BINDING)).stdout
    check(f"may use {cores} core" in said, f"a binding of OpenMP's is taken for the process's: {said}")
    passed = dict(OMP_NUM_THREADS=7, OMP_DYNAMIC="true", OMP_SCHEDULE="dynamic", OMP_THREAD_LIMIT=3, OMP_STACKSIZE=1)
    check_same(scratch, reference, "openmp", **passed)
    hashes = {train(scratch(f"conv{n}"), **CONV, env=environment(**env))["param_hash"] for n, env in enumerate(({}, passed))}
    check(len(hashes) == 1, f"other convolutions under {passed}: {hashes}")


def check_hwloc(scratch, reference):
    check_cleared(scratch, reference, "hwloc", OTHER_MACHINE)
    check("hwloc: " in check_same(scratch, reference, "verbose", HWLOC_COMPONENTS_VERBOSE=1), "hwloc is not heard")


def check_malloc(scratch, reference):
    check_same(scratch, reference, "malloc", MALLOC_PERTURB_=165, MALLOC_ARENA_MAX=1, MALLOC_TOP_PAD_=0)


def check_loader(scratch, reference):
    """The launcher's and its ranks'."""
    done = call("launch", "--nproc-per-node", "2", CONFIG, "--dir", scratch("preload"), "--quiet", *sets(**SHORT),
                env=environment(LD_PRELOAD="/nonexistent.so"))
    check(done.stderr.count("/nonexistent.so") == 3, f"LD_PRELOAD is not passed on: {done.stderr}")


def check_ucx(scratch, reference):
    env = environment(UCX_TLS="tcp,self", UCX_LOG_LEVEL="info")
    plugin = os.path.join(os.path.dirname(RUNNER), "plugins/heddle_ucx.so")
    if os.path.exists(plugin):
        found = train(scratch("ucx"), ranks=2, nodes=2, env=env, runtime__transport="ucx", **SHORT)
        check(found["param_hash"] == reference, "another result under UCX_TLS")


ROWS = {"STARPU_": check_starpu, "OMP_": check_openmp, "HWLOC_": check_hwloc, "MALLOC_": check_malloc, "LD_": check_loader,
        "UCX_": check_ucx}


def check_rows():
    """That the table has no row that is not tested."""
    with open(os.path.join(ROOT, "docs/configuration.md"), encoding="utf-8") as file:
        table = file.read().split("### Variables of libraries", 1)[1].split("\n\nVariables of tests", 1)[0]
    found = set(re.findall(r"`((?:[A-Z]+_)+)", "".join(line.split("|")[1] for line in table.splitlines() if line[:1] == "|")))
    found = {name[:name.index("_") + 1] for name in found}
    check(found == {*ROWS, "GOMP_", "KMP_"}, f"rows of the table: {found}")


def check_quota(scratch, reference):
    """Half a core's worth of time, as a container has it, in a namespace of its own."""
    with open("/proc/self/cgroup", encoding="ascii") as file:
        groups = dict((controllers, path) for _, controllers, path in (line.strip().split(":", 2) for line in file))
    files = [("" + path, "cpu.max", "50000 100000") for name, path in groups.items() if not name]
    files += [("/cpu" + path, name, text) for names, path in groups.items() if "cpu" in names.split(",")
              for name, text in (("cpu.cfs_quota_us", "50000"), ("cpu.cfs_period_us", "100000"))]
    script = "set -e; mount -t tmpfs none /sys/fs/cgroup\n" + "".join(
        f"mkdir -p '/sys/fs/cgroup{path}'; echo '{text}' >'/sys/fs/cgroup{path}/{name}'\n" for path, name, text in files)
    if subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True).returncode != 0:
        print("no right to mount a file system: no quota was tried")
        return
    for keys, said in ((SHORT, "1 worker in rank 0 (the host's quota is 0.5 cores' worth of time)"),
                       (dict(SHORT, runtime__workers=2), "2 workers in rank 0; ")):
        directory = scratch(f"quota{len(keys)}")
        done = subprocess.run(["unshare", "-m", "sh", "-c", script + 'exec "$@"', "sh", RUNNER, "run", CONFIG, "--dir", directory,
                               *sets(**keys)], env=environment(), text=True, capture_output=True)
        check(done.returncode == 0 and said in done.stderr, f"under a quota: {done.stderr}")
        check(result(directory)["param_hash"] == reference, "another result under a quota")


def main():
    check_rows()
    with Scratch() as scratch:
        reference = train(scratch("reference"), **SHORT)["param_hash"]
        for check_row in (*ROWS.values(), check_quota):
            check_row(scratch, reference)


main()
