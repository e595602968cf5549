#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program as its users meet it: plans, help, mistakes with their places and exit codes, files."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, Scratch, call, check, environment, result, sets, train  # noqa: E402

PLANS = os.path.join(ROOT, "tests/golden/plans")

RESULT_FIELDS = {"stop", "env_step", "train_iter", "skipped", "eval_value", "eval_value_raw", "eval_train_iter",
                 "last_value", "last_value_raw", "best_value", "best_train_iter", "train_value", "weights", "finish_time",
                 "reason", "detail", "param_hash", "fingerprint", "wall_s", "ranks", "shards", "seed", "env",
                 "command", "version", "host", "start_time", "end_time"}


# -- Plans ---------------------------------------------------------------------------------------


# One for each strategy on CPUs and on GPUs; tests/runner/test_plan.c says how the plans of other ranks and numbers
# of shards follow from them.
CASES = [("serial", 4, 1, 0, 0), ("pipelined", 4, 2, 1, 0), ("serial", 2, 1, 0, 1), ("pipelined", 2, 1, 0, 2)]


def plan_cases():
    """(file name, options)."""
    with_gpus = "adam [global, gpu]" in call("graph", CONFIG, *sets(policy__cuda="true", runtime__gpus=1)).stdout
    for strategy, shards, ranks, rank, gpus in CASES:
        if gpus and not with_gpus:
            continue  # a build without CUDA
        yield (f"{strategy}_{shards}shards_rank{rank}of{ranks}{f'_{gpus}gpu' if gpus else ''}.txt",
               ["--strategy", strategy, "--ranks", str(ranks), "--rank", str(rank),
                *sets(world__shards=shards, policy__cuda="true" if gpus else "false", runtime__gpus=max(gpus, 1))])


def plan_of(options):
    """The plan without the sizes of values and what computes nets, which depend on the build."""
    plan, rest = call("graph", CONFIG, *options).stdout.split("\nnets\n")
    nets, memory = rest.split("\nmemory\n")
    check(re.search(r"^    encoder\.init +dense relu +linear +f32 columns +2560 +512 +512$", nets, re.M), nets)
    check(len(nets.splitlines()) == 2 + 7, nets)  # a net and its head; layers without their activations
    check(re.search(r"^  replay +\d+\.\d MB$", memory, re.M), memory)
    return plan + "\n"


def check_plans():
    for name, options in plan_cases():
        with open(os.path.join(PLANS, name), encoding="utf-8") as file:
            golden = file.read()
        found = plan_of(options)
        check(found == golden, f"the plan {name} changed (tests/golden/regen):\n{found}")
    print(f"{len(list(plan_cases()))} plans are as golden")
    dot = call("graph", CONFIG, "--dot").stdout
    check(dot.startswith("digraph plan {") and dot.endswith("}\n"), "--dot")


def regenerate():
    for name, options in plan_cases():
        with open(os.path.join(PLANS, name), "w", encoding="utf-8") as file:
            file.write(plan_of(options))


# -- Help and options ----------------------------------------------------------------------------


def check_help():
    for command in ([], ["run"], ["launch"], ["graph"], ["eval"], ["bench"],
                    ["record"]):
        text = call(*command, "--help").stdout
        check("usage: runner" in text, f"help of {command}")
    check(call("--version").stdout.startswith("heddle "), "--version")
    keys = call("keys").stdout
    check("policy.learn.batch_size" in keys and "runtime.max_inflight_iterations" in keys, "keys")
    verbs = call("verbs").stdout
    check("\n    reads    mean_grad (grad)\n" in verbs and "\n    option   op: " in verbs, f"verbs: {verbs}")
    check(call(expect=2).stderr.startswith("usage"), "no command")


def mistake(scratch, number, text):
    path = scratch(f"bad{number}.yaml")
    with open(path, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    return path


def check_mistakes(scratch):
    with open(CONFIG, encoding="utf-8") as file:
        good = file.read().replace("graphs/dqn.yaml", os.path.join(ROOT, "configs/graphs/dqn.yaml"))
    good = good.replace("strategies/serial.yaml", os.path.join(ROOT, "configs/strategies/serial.yaml"))

    files = [  # text, and what the message says
        ("", "bad0.yaml"),
        (b"\x7fELF\x02\x01\x01\x00\x00\x00", "bad1.yaml:"),
        ("a: *a\n", "bad2.yaml:1:4"),
        ("a: &a [*a]\n", "bad3.yaml:1:8"),
        (good.replace("seed: 0", "sead: 0"), "did you mean 'seed'?"),
        (good.replace("batch_size: 64", "batch_size: 99999999999999999999"), "batch_size"),
        (good.replace("batch_size: 64", "batch_size: many"), "expected an integer"),
        (good.replace("discount_factor: 0.97", "discount_factor: 1.5"), "[0, 1]"),
        (good.replace("multi_gpu: true", "multi_gpu: perhaps"), "true"),
        (good.replace("type: exp", "type: expo"), "exp"),
        (good.replace("scheduler: lws", "scheduler: lsw"), "lws"),
        (good.replace("max_inflight_iterations: 2", "max_inflight_iterations: 0"), "[1, 64]"),
        (good.replace("graphs/dqn.yaml", "graphs/dqm.yaml"), "cannot be read"),
        (good.replace("action_shape: 2", "action_shape: 3"), ""),
        (good.replace("obs_shape: 4", "obs_shape: 5"), ""),
        (good + "exp_name: again\n", "exp_name"),
    ]
    for number, (text, expected) in enumerate(files):
        done = call("run", mistake(scratch, number, text), "--dir", scratch("never"), expect=2)
        check(expected in done.stderr and done.stderr.startswith("error: "),
              f"file {number}: {done.stderr}")

    options = [
        (["--set", "policy.lern.batch_size=3"], "--set:1:8"),
        (["--set", "policy.learn.batch_size=x"], "--set:1:25"),
        (["--set", "strategy.colect_lag=1"], "policy_lag"),
        (["--set", "nonsense"], "--set needs KEY=VALUE"),
        (["--strategy", "pipelind"], "pipelind"),
        (["--sett", "a=b"], "did you mean '--set'?"),
        (["--seed"], "needs a value"),
        (["--seed", "-1"], "seed"),
        (["more.yaml"], "one config at a time"),
        (["--set", "policy.cuda=yes"], "one of true, false, auto"),
        (["--set", "policy.learn.microbatch=5"], "policy.learn.microbatch"),
    ]
    for arguments, expected in options:
        done = call("run", CONFIG, "--dir", scratch("never"), *arguments, expect=2)
        check(expected in done.stderr, f"{arguments}: {done.stderr}")

    check("'lanch'" in call("lanch", expect=2).stderr, "unknown command")
    check("did you mean 'launch'" in call("lanch", expect=2).stderr, "nearest command")
    check("cannot" in call("run", "/no/such.yaml", expect=2).stderr, "no such file")
    many = call("run", mistake(scratch, 99, good.replace("seed: 0", "sead: 0")
                               .replace("batch_size: 64", "batch_size: 0")
                               .replace("max_inflight_iterations: 2", "max_inflight_iterations: x")), expect=2).stderr
    check(many.count("error: ") >= 3, f"several mistakes are told at once: {many}")
    for shards, ranks, allowed in ((4, 3, "1, 2, 4"), (3, 2, "1, 3")):
        done = call("launch", "--nproc-per-node", str(ranks), CONFIG, "--set",
                    f"world.shards={shards}", "--dir", scratch("never"), expect=2)
        check(allowed in done.stderr, f"{shards} shards on {ranks} ranks: {done.stderr}")
    check("multi_gpu" in call("launch", "--nproc-per-node=2", CONFIG, "--set",
                              "policy.multi_gpu=false", expect=2).stderr, "multi_gpu: false")
    check(not os.path.exists(scratch("never")), "a refused run left a directory")
    print(f"{len(files) + len(options) + 6} mistakes are told and leave nothing")


def check_bf16(scratch):
    """A processor without bf16 convolutions computes them in f32, and says so once: a GPU of its may learn in bf16."""
    config = os.path.join(ROOT, "configs/pixel_pong_dqn_ddp.yaml")
    env = environment(ONEDNN_MAX_CPU_ISA="AVX2")
    bf16, few = sets(runtime__precision="bf16"), sets(max_train_iter=1, policy__learn__batch_size=4)
    plan = call("graph", config, *bf16, env=env).stdout
    convs = [line.split() for line in plan.splitlines() if " conv relu " in line]
    check(len(convs) == 3 and all("f32" in words for words in convs), f"convolutions without bf16:\n{plan}")
    done = call("run", config, "--dir", scratch("bf16"), "--quiet", *bf16, *few, env=env)
    check(done.stderr.count("no bf16 convolutions") == 1, f"bf16 without the processor for it:\n{done.stderr}")


def check_files(scratch):
    work, home = scratch("work"), scratch("home")
    os.mkdir(work)
    os.mkdir(home)
    env = environment(HOME=home, TMPDIR=scratch("tmp"))
    os.mkdir(scratch("tmp"))
    for name in ("cartpole_dqn_ddp", "cartpole_dqn_ddp_1", "cartpole_dqn_ddp_2"):
        done = call("run", CONFIG, "--quiet", "--set", "max_train_iter=20", cwd=work, env=env)
        check(done.stdout == "" and done.stderr == "", f"--quiet is not: {done.stdout}{done.stderr}")
        check(set(result(os.path.join(work, name))) == RESULT_FIELDS, "fields of result.json")
    check(sorted(os.listdir(work)) == ["cartpole_dqn_ddp", "cartpole_dqn_ddp_1",
                                       "cartpole_dqn_ddp_2"], f"work: {os.listdir(work)}")
    check(os.listdir(home) == [], f"the home directory holds {os.listdir(home)}")
    files = sorted(os.path.relpath(os.path.join(at, name), work)
                   for at, _, names in os.walk(os.path.join(work, "cartpole_dqn_ddp"))
                   for name in names)
    check(not any(name.endswith(".tmp") for name in files), f"left over: {files}")

    used = call("run", CONFIG, "--dir", os.path.join(work, "cartpole_dqn_ddp"), expect=2).stderr
    check("is a run (limit)" in used, f"--dir of an old run: {used}")
    loud = call("run", CONFIG, "--dir", scratch("loud"), "--trace", "--set", "max_train_iter=60")
    check(loud.stdout == "", "a run prints on stdout")
    for word in ("updates/s", "env steps/s", "busy", "param_hash", "total_config.yaml"):
        check(word in loud.stderr, f"the summary does not tell {word}: {loud.stderr}")
    with open(scratch("loud/trace.json"), encoding="utf-8") as file:
        spans = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]
    check({"collect", "adam", "mean(grad)"} <= {e["name"] for e in spans}, "names in the trace")


def check_eval(scratch):
    directory = scratch("learned")
    outcome = train(directory)
    best = os.path.join(directory, "ckpt/best/policy.safetensors")
    done = call("eval", CONFIG, "--weights", best, "--episodes", "3").stdout.splitlines()
    check(done[0] == "mean 200" and done[-1] == "returns 200 200 200", f"eval: {done}")
    check(outcome["eval_value_raw"] == [200.0] * 5, f"{outcome}")
    with open(best, "rb") as file:
        data = file.read()
    with open(scratch("short.safetensors"), "wb") as file:
        file.write(data[:len(data) // 2])
    bad = call("eval", CONFIG, "--weights", scratch("short.safetensors"), expect=2).stderr
    check("short.safetensors" in bad and "truncated" in bad, f"truncated weights: {bad}")
    check("weights" in call("eval", CONFIG, expect=2).stderr, "eval without weights")


def check_eval_of_directory(scratch):
    """A run directory stands for its config and its best weights, or the last ones where there are no best."""
    directory, arguments = scratch("learned"), ["--episodes", "2", "--json"]
    config, best = os.path.join(directory, "total_config.yaml"), os.path.join(directory, "ckpt/best/policy.safetensors")
    wanted = call("eval", config, "--weights", best, *arguments).stdout
    check(call("eval", directory, *arguments).stdout == wanted, "a run directory plays otherwise than its best weights")
    (last,) = (name for name in os.listdir(os.path.join(directory, "ckpt")) if name.startswith("iteration_"))
    shutil.rmtree(os.path.dirname(best))
    last = os.path.join(directory, "ckpt", last, "policy.safetensors")
    wanted = call("eval", config, "--weights", last, *arguments).stdout
    check(call("eval", directory, *arguments).stdout == wanted, "without best weights it does not play the last")
    check(call("eval", directory, "--weights", last, *arguments).stdout == wanted, "a run directory with weights")
    os.rename(os.path.dirname(last), scratch("taken"))
    said = call("eval", directory, expect=2).stderr
    check(f"{directory} has no weights: there is no {best}" in said, said)
    said = call("eval", scratch("taken"), expect=2).stderr
    check("total_config.yaml cannot be read" in said, said)


def check_install(scratch):
    build = os.path.dirname(os.environ.get("HD_RUNNER", os.path.join(ROOT, "build/runner")))
    subprocess.run(["cmake", "--install", build, "--prefix", scratch("prefix")], check=True,
                   capture_output=True)
    installed = scratch("prefix/bin/runner")
    check(os.stat(installed).st_mode & stat.S_IXUSR, "the installed runner cannot be run")
    done = subprocess.run([installed, "graph", scratch("prefix/share/heddle/configs/"
                                                       "cartpole_dqn_ddp.yaml")],
                          capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"the installed runner: {done.stderr}")


def main():
    if sys.argv[1:] == ["--regen"]:
        regenerate()
        return
    check_help()
    check_plans()
    with Scratch() as scratch:
        check_mistakes(scratch)
        check_bf16(scratch)
        check_files(scratch)
        check_eval(scratch)
        check_eval_of_directory(scratch)
        check_install(scratch)


main()
