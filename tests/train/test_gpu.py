#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training on GPUs, on the real program and an emulated CUDA (tests/emulation): StarPU's CUDA workers,
moves, recorded graphs, NCCL. One set of bits whatever executor, scheduler, window, number of GPUs, of
ranks and path of gradients; near the CPU's; and what is said where there are no GPUs. A commit tries a quarter of
the parts."""

import glob
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import runner  # noqa: E402
from runner import ROOT, Scratch, call, check, environment, result, train  # noqa: E402
from ways import check_ways, take_share  # noqa: E402

DQN = os.path.join(ROOT, "configs/cartpole_dqn_ddp.yaml")
PRIORITY = os.path.join(ROOT, "configs/cartpole_dqn_priority.yaml")
PPO = os.path.join(ROOT, "configs/cartpole_ppo_ddp.yaml")
PIXEL_DQN = os.path.join(ROOT, "configs/pixel_pong_dqn_ddp.yaml")
PIXELS = os.path.join(ROOT, "configs/pixel_pong_ppo_fast.yaml")
SAC = os.path.join(ROOT, "configs/pendulum_sac.yaml")
CLONE = os.path.join(ROOT, "configs/cartpole_bc_ddp.yaml")
IMPALA = os.path.join(ROOT, "configs/pixel_pong_ppo_impala.yaml")
RECURRENT = os.path.join(ROOT, "configs/cartpole_hidden_ppo_gru.yaml")
GPU_ENVS = os.path.join(ROOT, "configs/pixel_pong_gpu.yaml")

GPU = dict(policy__cuda="true")
SHORT = dict(world__shards=2, env__stop_value="1e9", max_train_iter=5,
             policy__eval__evaluator__eval_freq=3)
SHORT_PPO = dict(SHORT, policy__collect__n_sample=128, policy__learn__epoch_per_collect=1)
SPLIT = dict(policy__collect__overlap_act_step="true")
SMALL_PIXELS = dict(env__collector_env_num=2, policy__collect__n_sample=8,
                    policy__learn__batch_size=8, policy__learn__epoch_per_collect=1,
                    max_train_iter=2, policy__eval__evaluator__eval_freq=1000000,
                    env__evaluator_env_num=1, env__n_evaluator_episode=1, env__max_evaluator_step=20,
                    policy__model__encoder_hidden_size_list="[16,32,32,64]",
                    strategy__bucket_mb=0.1, strategy__eval_lag=0)
# A small net as a list that is not DI-engine's, with a layer of each type that fits pixels.
LIST = dict(policy__model__layers="[{conv: {channels: 4, kernel: 5, stride: 4}}, relu, {max_pool: {kernel: 3, stride: 2, padding: 1}}, "
                                  "{residual: [layer_norm, {conv: {channels: 4, kernel: 3, padding: 1}}, gelu]}, "
                                  "{conv: {channels: 6, kernel: 3, stride: 2}}, relu, flatten, {dense: 32}, tanh]")
SMALL_LIST = {key: value for key, value in SMALL_PIXELS.items() if "encoder" not in key} | LIST | dict(policy__learn__microbatch=2)


def emulate():
    """The program that is tested is linked with the emulation."""
    runner.RUNNER = runner.find_emulated()


def weights(directory):
    """The parameters of the last update, as floats."""
    last = sorted(name for name in os.listdir(os.path.join(directory, "ckpt")) if name.startswith("iteration_"))[-1]
    with open(os.path.join(directory, "ckpt", last, "policy.safetensors"), "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = json.loads(data[8:8 + length])
    floats = struct.unpack(f"<{(len(data) - 8 - length) // 4}f", data[8 + length:])
    return [value for name, tensor in tensors.items() if name.endswith(("weight", "bias"))
            for value in floats[tensor["data_offsets"][0] // 4:tensor["data_offsets"][1] // 4]]


def distance(scratch, a, b):
    return max(abs(x - y) for x, y in zip(weights(scratch(a)), weights(scratch(b)), strict=True))


def check_same_bits(scratch, name, config, variants):
    """Each variant is (number of GPUs, ranks, keys)."""
    first, *others = [dict(keys, config=config, ranks=ranks, env=environment(HD_EMULATED_DEVICES=gpus))
                      for gpus, ranks, keys in variants]
    check_ways(scratch, name, first, others, ["param_hash"])


def check_dqn(scratch):
    base = dict(SHORT, **GPU)
    check_same_bits(scratch, "dqn", DQN, [
        (1, 1, base),
        (1, 1, dict(base, runtime__executor="sequential")),
        (1, 1, dict(base, runtime__scheduler="prio", runtime__max_inflight_iterations=4, runtime__workers=1)),
        (2, 1, dict(base, runtime__gpus=2, runtime__scheduler="random")),
        (2, 1, dict(base, runtime__gpus=2, strategy__bucket_mb=0.02)),
        (2, 1, dict(base, runtime__cuda_devices="[1]")),
        (2, 2, dict(base, nodes=2, runtime__transport="tcp")),  # NCCL, and what is between hosts
    ])
    split = dict(base, **SPLIT, policy__other__eps__start=0.1)
    check_same_bits(scratch, "acting", DQN, [
        (1, 1, split),
        (1, 1, dict(split, runtime__executor="sequential")),
    ])
    train(scratch("dqn_cpu"), config=DQN, **dict(SHORT, policy__cuda="false"))
    apart = distance(scratch, "dqn", "dqn_cpu")
    check(apart < 1e-5, f"dqn: parameters are {apart} from the CPU's after 5 updates of 1e-3")


def check_priority(scratch):
    """GPUs keep the replay and its priorities, draw by these, learn and renew them, in one task."""
    keys = dict(SHORT, **GPU, policy__learn__microbatch=32)
    plan = call("graph", PRIORITY, *runner.sets(**keys), env=environment(HD_EMULATED_DEVICES=1)).stdout
    for step in ("push_replay", "sample_replay", "loss_grad", "update_priorities"):
        lines = [line for line in plan.splitlines() if f" {step} [" in line]
        check(lines and all(", gpu" in line for line in lines), plan)
    check_same_bits(scratch, "priority", PRIORITY, [
        (1, 1, keys),
        (1, 1, dict(keys, runtime__executor="sequential")),
        (2, 1, dict(keys, runtime__gpus=2, runtime__scheduler="random")),
    ])
    train(scratch("priority_cpu"), config=PRIORITY, **dict(keys, policy__cuda="false"))
    apart = distance(scratch, "priority", "priority_cpu")
    check(apart < 1e-5, f"prioritised dqn: parameters are {apart} from the CPU's after 5 updates of 1e-3")
    large = dict(keys, policy__learn__batch_size=2048, policy__learn__microbatch=512)
    plan = call("graph", PRIORITY, *runner.sets(**large), env=environment(HD_EMULATED_DEVICES=1)).stdout
    check("update_priorities [shard]" in plan, plan)


def check_sac(scratch):
    """All of an update is on the GPU but for the temperature, and one task of it."""
    layers = "[{dense: 24}, relu, {dense: 16}, tanh]"
    keys = dict(SHORT, **GPU, policy__random_collect_size=40, policy__learn__batch_size=16, policy__learn__microbatch=8,
                policy__model__layers=layers, policy__critic=f"{{input: [obs, action], layers: {layers}, heads: {{value: {{type: dense}}}}}}",
                env__evaluator_env_num=1,
                env__n_evaluator_episode=1)
    plan = call("graph", SAC, *runner.sets(**keys), env=environment(HD_EMULATED_DEVICES=1)).stdout
    check("[gpu: one task sample_replay..polyak_update]" in plan, plan)
    body = plan.split("  repeat")[1].split("\n  mean")[0]
    on_cpus = [line.split()[0] for line in body.splitlines()[1:] if line.strip() and "gpu]" not in line and ", gpu," not in line]
    check(on_cpus == ["mean(policy_stats)", "adapt_temperature"], f"{on_cpus}\n{plan}")
    check_same_bits(scratch, "sac", SAC, [
        (1, 1, keys),
        (1, 1, dict(keys, runtime__executor="sequential")),
        (2, 1, dict(keys, runtime__gpus=2, runtime__scheduler="random")),
        (2, 2, keys),
    ])
    train(scratch("sac_cpu"), config=SAC, **dict(keys, policy__cuda="false"))
    apart = distance(scratch, "sac", "sac_cpu")
    check(apart < 1e-5, f"sac: parameters are {apart} from the CPU's after 5 updates of 3e-4")
    train(scratch("narrow"), config=SAC, env=environment(HD_EMULATED_DEVICES=1), **dict(keys, runtime__precision="bf16"))
    apart = distance(scratch, "narrow", "sac_cpu")
    check(0 < apart < 3e-3, f"sac in bf16: {apart} from the CPU's in f32")


def check_parts(scratch):
    """A mean in parts, of what several GPUs of a rank have."""
    keys = dict(SHORT_PPO, **GPU, **SPLIT, world__shards=4, strategy__bucket_mb=0.02)
    check_same_bits(scratch, "parts", PPO, [
        (1, 1, keys),
        (2, 1, dict(keys, runtime__gpus=2)),
        (4, 1, dict(keys, runtime__gpus=4, runtime__executor="sequential")),
    ])


def check_ranks(scratch):
    """Ranks with GPUs go on from each other's checkpoints; a rank of several GPUs sends one sum."""
    whole = dict(SHORT, **GPU, world__shards=4)
    parts = dict(whole, strategy__bucket_mb=0.02, strategy__shard_optimizer_above_mb=0)
    check_same_bits(scratch, "ranks", DQN, [
        (1, 1, whole),
        (2, 2, parts),
        (4, 4, parts),
        (4, 2, dict(parts, runtime__gpus=2)),
        (4, 2, dict(whole, runtime__gpus=2, runtime__executor="sequential")),
    ])
    longer = dict(max_train_iter=9)
    reference = train(scratch("ranks_whole"), config=DQN, env=environment(HD_EMULATED_DEVICES=1), **dict(whole, **longer))
    for first, then in take_share(((2, 1), (2, 4), (1, 2)), "ranks"):
        directory = scratch(f"ranks_{first}_{then}")
        often = dict(parts, runtime__checkpoint_interval_s=0.001)
        train(directory, config=DQN, ranks=first, env=environment(HD_EMULATED_DEVICES=first), **often)
        resumed = train(directory, "--resume", config=DQN, ranks=then, env=environment(HD_EMULATED_DEVICES=then),
                        **dict(parts, **longer))
        check(resumed["param_hash"] == reference["param_hash"], f"from {first} to {then}: {resumed} {reference}")
    print("ranks: gone on with")


def check_exchange(scratch):
    """Hosts round what GPUs have computed, for one GPU as for several ranks."""
    keys = dict(SHORT, **GPU, world__shards=4, strategy__exchange_precision="int8", strategy__error_feedback=1)
    plan = call("graph", DQN, *runner.sets(**keys), env=environment(HD_EMULATED_DEVICES=1)).stdout
    check("mean(grad) [collective, exchanged in int8" in plan and "adam [global, gpu]" in plan, plan)
    check_same_bits(scratch, "exchange", DQN, [
        (1, 1, keys),
        (2, 1, dict(keys, runtime__gpus=2, strategy__bucket_mb=0.02)),
        (2, 2, keys),
        (4, 2, dict(keys, runtime__gpus=2, runtime__executor="sequential")),
    ])


def check_lags(scratch):
    base = dict(SHORT_PPO, **GPU, **SPLIT)
    lags = dict(base, strategy__policy_lag=1, strategy__eval_lag=1, strategy__batch_buffers=2)
    check_same_bits(scratch, "lags", PPO, [
        (1, 1, lags),
        (1, 1, dict(lags, runtime__executor="sequential")),
    ])
    without = train(scratch("without lags"), config=PPO, env=environment(HD_EMULATED_DEVICES=1), **base)
    check(result(scratch("lags"))["param_hash"] != without["param_hash"], "a lag changes nothing")


def check_ppo(scratch):
    """The paths of gradients: one GPU, two of a rank, NCCL, and the host where ranks share a GPU."""
    base = dict(SHORT_PPO, **GPU, **SPLIT)
    check_same_bits(scratch, "ppo", PPO, [
        (1, 1, base),
        (2, 1, dict(base, runtime__gpus=2)),
        (2, 2, base),
        (1, 2, base),
        (2, 2, dict(base, runtime__executor="sequential")),
    ])
    groups = dict(env__collector_env_num=10, policy__collect__env_groups=5, policy__collect__n_sample=120)
    check_same_bits(scratch, "halves", PPO, [  # of three groups and of two
        (1, 1, base | groups),
        (2, 1, base | groups | dict(runtime__gpus=2, runtime__scheduler="random")),
        (1, 1, base | groups | dict(runtime__executor="sequential")),
    ])
    for name, keys in (("ppo", {}), ("halves", groups)):
        train(scratch(f"{name}_cpu"), config=PPO, **SHORT_PPO | keys | dict(policy__cuda="false"))
        apart = distance(scratch, name, f"{name}_cpu")
        check(apart < 1e-5, f"{name}: parameters are {apart} from the CPU's")


def check_schedules(scratch):
    """A recorded pass reads numbers that change anew each time: each of them has its effect."""
    linear, key = "{type: linear, end: 0}", "policy__learn__schedule__"
    names = ("learning_rate", "clip_ratio", "entropy_weight")
    keys = dict(SHORT_PPO, **GPU, **{key + name: linear for name in names}, policy__learn__clip_ratio=0.02,
                policy__learn__schedule__over="update", max_train_iter=16)
    check_same_bits(scratch, "scheduled", PPO, [(1, 1, keys), (2, 2, keys), (1, 1, dict(keys, runtime__executor="sequential"))])
    train(scratch("scheduled_cpu"), config=PPO, **keys | dict(policy__cuda="false"))
    apart = distance(scratch, "scheduled", "scheduled_cpu")
    check(apart < 1e-5, f"scheduled: parameters are {apart} from the CPU's")
    for name in names:
        train(scratch(f"without {name}"), config=PPO, **keys | {key + name: "{}"})
        apart = distance(scratch, "scheduled", f"without {name}")
        check(apart > 1e-5, f"a schedule of {name} has no effect: {apart}")


def check_pixels(scratch):
    base = dict(SMALL_PIXELS, **GPU, **SPLIT)
    check_same_bits(scratch, "pixels", PIXELS, [
        (1, 1, dict(base, runtime__precision="f32")),
        (1, 1, dict(base, runtime__precision="f32", runtime__executor="sequential")),
    ])
    check_same_bits(scratch, "pixels_bf16", PIXELS, [(1, 1, base), (2, 1, dict(base, runtime__gpus=2))])
    train(scratch("pixels_cpu"), config=PIXELS,
          **dict(SMALL_PIXELS, policy__cuda="false", runtime__precision="f32"))
    apart = distance(scratch, "pixels", "pixels_cpu")
    check(apart < 1e-5, f"pixels: parameters are {apart} from the CPU's after 2 updates of 3e-4")
    train(scratch("pixels_tf32"), config=PIXELS, **dict(base, runtime__precision="tf32"))
    check(result(scratch("pixels_tf32"))["param_hash"] != result(scratch("pixels"))["param_hash"],
          "tf32 computes in f32")
    # bf16 keeps 8 bits: the step of an update, 3e-4 whatever the gradient's size, may turn around.
    apart = distance(scratch, "pixels_bf16", "pixels")
    check(0 < apart < 2 * 2 * 3.1e-4, f"bf16 and f32 are {apart} apart after 2 updates of 3e-4")


def check_lists(scratch):
    """A list that is not DI-engine's: the same bits on one GPU and two, ranks, executors and buckets; near the CPU's."""
    plan = call("graph", IMPALA, *runner.sets(**GPU)).stdout
    for step in ("loss_grad [shard, 12 items x 1 stages, gpu]", "compute_advantages [shard, 1 items x 1 stages, gpu]",
                 "collect_on_policy [shard, 1 items x 2 stages, finish last, gpu 1 stages"):
        check(step in plan, f"no '{step}' in\n{plan}")
    base = dict(SMALL_LIST, **GPU, strategy__bucket_mb=25)
    check_same_bits(scratch, "list", IMPALA, [
        (1, 1, base),
        (1, 1, dict(base, runtime__executor="sequential")),
        (2, 1, dict(base, runtime__gpus=2, strategy__bucket_mb=0.01)),
        (2, 2, base),
    ])
    alone = dict(base, world__shards=1)  # its gradient stays in GPU order
    train(scratch("list_alone"), config=IMPALA, env=environment(HD_EMULATED_DEVICES=1), **alone)
    for name, run, keys in (("list_cpu", "list", base), ("list_alone_cpu", "list_alone", alone)):
        train(scratch(name), config=IMPALA, **dict(keys, policy__cuda="false"))
        apart = distance(scratch, run, name)
        check(apart < 1e-5, f"{run}: parameters are {apart} from the CPU's after 2 updates of 3e-4")
    vectors = dict(SHORT, **GPU, **SPLIT, policy__other__eps__start=0.1, policy__model__layers="[{dense: 24}, tanh, layer_norm, "
                   "{residual: [{dense: 24}, gelu]}, relu]", policy__model__heads="{q: {type: dueling, layers: [{dense: 8}, tanh]}}")
    check_same_bits(scratch, "list_dqn", DQN, [
        (1, 1, vectors),
        (2, 2, dict(vectors, strategy__bucket_mb=0.002, strategy__shard_optimizer_above_mb=0)),
    ])
    train(scratch("list_dqn_cpu"), config=DQN, **dict(vectors, policy__cuda="false"))
    apart = distance(scratch, "list_dqn", "list_dqn_cpu")
    check(apart < 1e-5, f"list_dqn: parameters are {apart} from the CPU's after 5 updates of 1e-3")
    train(scratch("list_tf32"), config=IMPALA, **dict(base, runtime__precision="tf32"))
    check(result(scratch("list_tf32"))["param_hash"] != result(scratch("list"))["param_hash"], "tf32 computes in f32")
    narrow = dict(base, runtime__precision="bf16")
    check_same_bits(scratch, "list_bf16", IMPALA, [(1, 1, narrow), (2, 1, dict(narrow, runtime__gpus=2, strategy__bucket_mb=0.01))])
    apart = distance(scratch, "list_bf16", "list")
    check(0 < apart < 2 * 2 * 3.1e-4, f"list: bf16 and f32 are {apart} apart after 2 updates of 3e-4")


def check_cpu_layers(scratch):
    """Where a GPU is, a list with a layer for CPUs alone is learnt on CPUs, and policy.cuda: true is a mistake."""
    train(scratch("teacher"), config=DQN, **dict(SHORT, policy__cuda="false"))
    call("record", DQN, "--weights", scratch("teacher/ckpt/best/policy.safetensors"), "--transitions", "200", "--out",
         scratch("demos"), "--quiet")
    norm = dict(world__shards=2, env__stop_value="1e9", max_train_iter=4, policy__collect__data_path=scratch("demos"),
                graph=os.path.join(ROOT, "configs/graphs/bc_norm.yaml"), policy__learn__batch_size=16,
                policy__model__layers="[{dense: 8}, batch_norm, tanh]", policy__model__heads="{policy: {type: categorical}}")
    one = environment(HD_EMULATED_DEVICES=1)
    a = train(scratch("norm_auto"), config=CLONE, env=one, **norm)
    b = train(scratch("norm_cpu"), config=CLONE, env=one, **dict(norm, policy__cuda="false"))
    check(a["param_hash"] == b["param_hash"], f"batch norm where a GPU is: {a}, {b}")
    done = call("graph", CLONE, *runner.sets(**norm, **GPU), env=one, expect=2)
    check(re.search(r"error: --set:\d+:34: .*batch_norm.*CPUs", done.stderr), done.stderr)
    short = dict(SHORT, env__evaluator_env_num=1, env__n_evaluator_episode=1)
    a = train(scratch("gru_auto"), config=RECURRENT, env=one, **short)
    b = train(scratch("gru_cpu"), config=RECURRENT, env=one, **dict(short, policy__cuda="false"))
    check(a["param_hash"] == b["param_hash"], f"a recurrent net where a GPU is: {a}, {b}")
    done = call("graph", RECURRENT, *runner.sets(**GPU), env=one, expect=2)
    check("gru" in done.stderr and "CPUs" in done.stderr, done.stderr)


def check_cpu_losses(scratch):
    """Where a GPU is, a run whose gradients are computed on CPUs uses it for nothing and says so; policy.cuda: true is a
    mistake, and no plan names GPUs."""
    one = environment(HD_EMULATED_DEVICES=1, HD_EMULATED_FAULT=10 ** 9)  # counts calls
    for config, keys, said in (("cartpole_a2c_ddp", {}, "loss a2c"), ("cartpole_vtrace_ddp", {}, "loss vtrace"),
                               ("cartpole_qrdqn", {}, "loss qrdqn"),
                               ("cartpole_dqn_ddp", dict(policy__learn__freeze="[encoder]"), "policy.learn.freeze"),
                               ("cartpole_dqn_ddp", dict(runtime__on_nan="skip"), "runtime.on_nan: skip")):
        path = os.path.join(ROOT, f"configs/{config}.yaml")
        done = call("graph", path, *runner.sets(**keys, **GPU), env=one, expect=2)
        check(f"{said} is computed on CPUs only" in done.stderr, f"{config}: {done.stderr}")
        plan = call("graph", path, *runner.sets(**keys), env=one).stdout
        check("gpu" not in plan, f"{config} where a GPU is: {plan}")
    done = call("run", path, "--dir", scratch("skips"), *runner.sets(**keys, **SHORT), env=one)
    check("no GPU is used" in done.stderr and "1 gpu" not in done.stderr, done.stderr)
    check(int(re.search(r"emulation: (\d+) calls", done.stderr).group(1)) < 5, f"calls of CUDA: {done.stderr}")


def check_frames(scratch):
    """A GPU that acts is sent each frame once and sees observations of several, as a CPU does. The first
    case's policy soon does now this, now that, by what it sees; the second has frames of pixels."""
    base = dict(SHORT, **GPU, world__shards=1, max_train_iter=4, env__frame_stack=4,
                env__collector_env_num=2, policy__collect__n_sample=64, policy__learn__batch_size=16,
                policy__learn__update_per_collect=1, policy__learn__learning_rate=0.1,
                policy__other__eps__start=0.05, policy__other__eps__end=0.05,
                policy__model__obs_shape=16, policy__model__encoder_hidden_size_list="[16,16]")
    check_same_bits(scratch, "frames", DQN, [
        (1, 1, base),
        (1, 1, dict(base, **SPLIT)),
        (1, 1, dict(base, **SPLIT, runtime__executor="sequential")),
    ])
    base = dict(SMALL_PIXELS, **GPU, runtime__precision="f32", policy__learn__update_per_collect=1,
                policy__other__eps__start=0.3, policy__other__eps__end=0.3,
                policy__other__replay_buffer__replay_buffer_size=500)
    del base["policy__learn__epoch_per_collect"]
    check_same_bits(scratch, "pixel_dqn", PIXEL_DQN, [
        (1, 1, base),
        (1, 1, dict(base, **SPLIT)),
    ])


def check_plan(config, steps, *arguments, **keys):
    """The plan of small pixels with GPUs has these steps. Returns its lines."""
    text = call("graph", config, *arguments, *runner.sets(**SMALL_PIXELS, **GPU, **keys)).stdout
    plan = [" ".join(line.split()) for line in text.splitlines()]
    for step in steps:
        check(step in plan, f"no '{step}' in\n{text}")
    return plan


def check_statistics_stay():
    """Running statistics are made, added up and used on the GPU: the host's tasks that look at them are
    what an evaluation keeps, and sums of several ranks, where NCCL adds gradients alone."""
    for config, keys in ((GPU_ENVS, {}), (PIXELS, SPLIT)):
        plan = check_plan(config, (
            "sum(obs_stats) [collective, gpu] reads obs_stats (gpu) writes all_obs_stats (gpu)",
            "merge_stats [global, gpu] reads all_obs_stats (gpu) updates obs_norm (gpu)",
            "sum(returns) [collective, gpu] reads returns writes all_returns",
            "merge_stats [global, gpu] reads all_returns updates return_scale"), world__shards=2, **keys)
        for line in plan:
            touched = any(f"{name} ({where})" in line for where in ("host", "both")
                          for name in ("obs_stats", "obs_norm", "(snapshot)"))
            check(not touched or line.startswith("keep_best"), line)
    check_plan(GPU_ENVS, (
        "grad grad shard shards 0-0 buckets 6 buffers 1 on host and gpu in gpu order starts as none",
        "mean(grad) [collective, 6 buckets, in place, gpu] reads grad (gpu) writes mean_grad (gpu)"), world__shards=1)
    check_plan(GPU_ENVS, (
        "grad grad shard shards 0-0 buckets 6 buffers 1 on host and gpu starts as none",
        "mean(grad) [collective, 6 buckets, gpu] reads grad (gpu) writes mean_grad (gpu)",
        "sum(obs_stats) [collective] reads obs_stats (host) writes all_obs_stats (host)",
        "merge_stats [global, gpu] reads all_obs_stats (gpu) updates obs_norm (gpu)"),
        "--ranks", "2", world__shards=2, runtime__gpus=1, runtime__open_exchanges=1)


def check_gpu_envs(scratch):
    """Trajectories stay on the GPU: the plan has no reader of them elsewhere."""
    base = dict(SMALL_PIXELS, world__shards=2, runtime__precision="f32")
    plan = call("graph", GPU_ENVS, *runner.sets(**base, **GPU)).stdout
    steps = [line.strip() for line in plan.splitlines()]
    check(any(step.startswith("collect_on_policy [shard, 1 items x 2 stages, ") for step in steps), plan)
    uses = [step for step in steps if "reads" in step and "trajectories" in step]
    check(len(uses) >= 4 and all(re.search(r"trajectories (\(by items\) )?\(gpu\)", use) for use in uses), f"{uses}")
    check_same_bits(scratch, "envs", GPU_ENVS, [
        (1, 1, dict(base, **GPU) | dict(strategy__eval_lag=3, policy__eval__evaluator__eval_freq=1)),
        (1, 1, dict(base, **GPU)),
        (1, 1, dict(base, **GPU, runtime__executor="sequential")),
        (2, 1, dict(base, **GPU, runtime__gpus=2)),
        (1, 2, dict(base, **GPU)),
        (2, 2, dict(base, **GPU)),
    ])
    once = dict(base, **GPU, world__shards=1, max_train_iter=4, policy__eval__evaluator__eval_freq=1)
    whole = train(scratch("envs_whole"), config=GPU_ENVS, **once)
    train(scratch("envs_resumed"), config=GPU_ENVS, **dict(once, max_train_iter=2, runtime__checkpoint_interval_s=0.001))
    resumed = train(scratch("envs_resumed"), "--resume", config=GPU_ENVS, **once)
    for key in ("param_hash", "eval_value_raw"):
        check(resumed[key] == whole[key], f"resumed games: {resumed} {whole}")
    train(scratch("alone_cpu"), config=GPU_ENVS, **dict(once, policy__cuda="false"))
    apart = distance(scratch, "envs_whole", "alone_cpu")
    check(apart < 1e-5, f"one shard: parameters are {apart} from the CPU's after 4 updates of 3e-4")
    train(scratch("envs_cpu"), config=GPU_ENVS, **base, policy__cuda="false")
    apart = distance(scratch, "envs", "envs_cpu")
    check(apart < 1e-5, f"envs: parameters are {apart} from the CPU's after 2 updates of 3e-4")


def check_gpu_evaluation(scratch):
    """GPUs play the episodes that CPUs play with the same net, whether they are cut or end, however they are shared
    out, and in the background too."""
    base = dict(SMALL_PIXELS, **GPU, world__shards=2, runtime__precision="f32",
                policy__model__encoder_hidden_size_list="[4,4,4,16]")
    cut = dict(base, env__evaluator_env_num=3, env__n_evaluator_episode=5, env__max_evaluator_step=60)
    ended = dict(base, env__max_evaluator_step=2000)
    for name, keys, variants in (
            ("cut", cut, (dict(policy__cuda="false"), dict(runtime__executor="sequential"), dict(runtime__gpus=2),
                          dict(strategy__eval_lag=1, max_train_iter=5))),
            ("ended", ended, (dict(policy__cuda="false"), {}))):
        returns = [train(scratch(f"{name}{number}"), config=GPU_ENVS, env=environment(HD_EMULATED_DEVICES=2),
                         **(keys | more))["eval_value_raw"] for number, more in enumerate(variants)]
        check(returns[0] and all(one == returns[0] for one in returns), f"{name}: {returns}")
        print(f"evaluations, {name}: {len(returns)} runs, returns {returns[0]}")


def check_resume(scratch):
    """Made on a GPU, gone on with on two, where the parts of values are spread; and the other way."""
    keys = dict(SHORT_PPO, **GPU, **SPLIT, strategy__bucket_mb=0.02, strategy__policy_lag=1)
    often = dict(keys, runtime__checkpoint_interval_s=0.001)
    gpus = {n: environment(HD_EMULATED_DEVICES=n) for n in (1, 2)}
    whole = train(scratch("whole"), config=PPO, env=gpus[1], **dict(keys, max_train_iter=8))
    for first, then in take_share(((1, 2), (2, 1)), "resume"):
        directory = scratch(f"resumed{first}")
        train(directory, config=PPO, env=gpus[first], **dict(often, runtime__gpus=first))
        before = os.readlink(os.path.join(directory, "ckpt/state/latest"))
        a = train(directory, "--resume", config=PPO, env=gpus[then],
                  **dict(keys, runtime__gpus=then, max_train_iter=8))
        check(a["param_hash"] == whole["param_hash"], f"from {before}: {a} {whole}")
    print(f"resume: one param_hash {whole['param_hash']}")


def check_what_is_said(scratch):
    none, one = environment(HD_EMULATED_DEVICES=0), environment(HD_EMULATED_DEVICES=1)
    few = dict(SHORT, max_train_iter=1)
    done = call("run", DQN, "--dir", scratch("none"), *runner.sets(**few, **GPU), env=none, expect=2)
    check("no GPU" in done.stderr, done.stderr)
    a = train(scratch("auto"), config=DQN, env=none, **few)
    b = train(scratch("cpu"), config=DQN, env=none, **dict(few, policy__cuda="false"))
    check(a["param_hash"] == b["param_hash"], "cuda: auto without GPUs is not cuda: false")
    done = call("run", DQN, "--dir", scratch("override"), *runner.sets(**few, **GPU),
                env=environment(HD_EMULATED_DEVICES=1, NVIDIA_TF32_OVERRIDE=1))
    check("NVIDIA_TF32_OVERRIDE" in done.stderr, done.stderr)
    done = call("run", DQN, "--dir", scratch("many"),
                *runner.sets(**few, **GPU, runtime__gpus=2), env=one, expect=2)
    check("GPU" in done.stderr, done.stderr)
    for wrong, said in (("[3]", "3"), ("[0,0]", "cuda_devices")):
        done = call("run", DQN, "--dir", scratch("map"),
                    *runner.sets(**few, **GPU, runtime__cuda_devices=wrong), env=one, expect=2)
        check("GPU" in done.stderr and said in done.stderr, done.stderr)
    done = call("launch", "--nproc-per-node", "2", PPO, "--dir", scratch("shared"),
                *runner.sets(**few, **GPU), env=one)
    check("2 ranks share" in done.stderr, done.stderr)


def check_kernels_fit(scratch):
    """GPUs for which there are no kernels are named, with how to build for them; newer ones are not refused."""
    for capability, fits in ((75, False), (86, True), (120, True)):
        env = environment(HD_EMULATED_CAPABILITY=capability, HD_EMULATED_DEVICES=2)
        name = scratch(f"fits{capability}")
        done = call("run", DQN, "--dir", name, *runner.sets(**SHORT, **GPU), env=env, expect=0 if fits else 2)
        check(fits or "GPU 0 (emulated GPU" in done.stderr and "compute capability 7.5" in done.stderr, done.stderr)
    done = call("run", DQN, "--dir", scratch("unfit"), *runner.sets(**SHORT), env=environment(HD_EMULATED_CAPABILITY=75))
    check("no GPU is used: GPU 0" in done.stderr, done.stderr)
    advice = call("doctor", "--ranks", "1", env=environment(HD_EMULATED_CAPABILITY=75, HD_EMULATED_DEVICES=2)).stdout
    check(advice.count("-DCMAKE_CUDA_ARCHITECTURES=75") == 2, advice)


def doctor(expect=0, **env):
    """What it says of each GPU, of all together, and what it advises against."""
    done = call("doctor", "--json", "--ranks", "1", env=environment(**env), expect=expect)
    found = json.loads(done.stdout)
    return found["gpus"], found["all_gpus"], [advice["text"] for advice in found["advice"] if advice["level"] == "broken"]


def check_doctor(_):
    gpus, together, broken = doctor(HD_EMULATED_DEVICES=2)
    check(len(gpus) == 2 and all(gpu["tried"] and gpu["to_bytes_per_s"] > 0 and gpu["from_bytes_per_s"] > 0 for gpu in gpus) and
          together["tried"] and not broken, f"{gpus} {together} {broken}")
    gpus, _, broken = doctor(expect=1, HD_EMULATED_DEVICES=1, HD_EMULATED_FAULT=400)
    check(len(broken) == 1 and "GPU 0 does not train: " in broken[0] and "cudaErrorIllegalAddress" in broken[0], f"{gpus} {broken}")
    gpus, together, broken = doctor(expect=1, HD_EMULATED_DEVICES=2, HD_EMULATED_NCCL_FAIL=1)
    check(not any(gpu["problem"] for gpu in gpus) and together["problem"] and len(broken) == 1, f"{gpus} {together} {broken}")
    gpus, together, broken = doctor(HD_EMULATED_DEVICES=2, HD_EMULATED_CAPABILITY=75)
    check(not any(gpu["tried"] for gpu in gpus) and not together["tried"] and not broken, f"{gpus} {together} {broken}")


def check_signals(scratch):
    """Threads that CUDA's driver starts in a launcher leave it the signals that it waits for."""
    words = ["launch", "--nproc-per-node", "2", DQN, "--quiet", "--dir", scratch("signals"),
             *runner.sets(**dict(SHORT, max_train_iter=100000), **GPU)]
    launcher = subprocess.Popen([runner.RUNNER, *words], env=environment(HD_EMULATED_DEVICES=1))
    try:
        found = {}
        while "cuda-EvtHandlr" not in found or not os.path.exists(scratch("signals")):
            time.sleep(0.05)
            for path in glob.glob(f"/proc/{launcher.pid}/task/*/status"):
                with open(path, encoding="utf-8") as file:
                    status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
                found[status["Name"]] = int(status["SigBlk"], 16)
            check(launcher.poll() is None, f"the launcher has ended with {launcher.poll()}")
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
            check(all(blocked >> (number - 1) & 1 for blocked in found.values()), f"{number.name}: {found}")
    finally:
        launcher.terminate()
        launcher.wait()


PARTS = (check_what_is_said, check_kernels_fit, check_doctor, check_signals, check_dqn, check_priority, check_sac, check_ppo,
         check_schedules, check_parts, check_ranks, check_exchange, check_lags, check_resume, check_pixels, check_lists, check_cpu_layers,
         check_cpu_losses, check_frames, check_gpu_envs, check_gpu_evaluation)


def main():
    emulate()
    check_statistics_stay()
    with Scratch() as scratch:
        for part in take_share(PARTS, "parts"):
            part(scratch)


if __name__ == "__main__":
    main()
