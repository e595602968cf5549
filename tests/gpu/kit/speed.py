# SPDX-License-Identifier: Apache-2.0
"""Updates of nets on the GPU, the kernels alone and in PyTorch, in turns."""

import json
import os

from jobs import FAILED, MEASURED, PASSED, ROOT, SKIPPED, read_lines

# net, batch: CFG-A's update, Nature's, and minibatches of PPO
KERNELS = [("pong", 32), ("nature", 32), ("nature", 256), ("nature", 2048), ("ppo", 320), ("ppo_fast", 768)]
# batch, channels of the output: the small net that learns Pong, Nature's and DI-engine's
FIRST_CONVS = [(768, 16), (32, 32), (256, 32), (2048, 32), (32, 128)]
PEERS_S = 420


def measure_part(kit, step, *words, env=None):
    """All results of a call of bench_parts."""
    done = kit.execute(step, [kit.program("bench_parts"), *words], 120, env=env)
    result = done.outcome()
    if result["outcome"] != PASSED:
        kit.record(step, **result)
        return
    for line in [json.loads(text) for text in done.said.splitlines() if text.startswith("{")]:
        part = "/" + line["name"] if "name" in line else ""
        kit.record(step + part, MEASURED, value=line["value"], unit=line["unit"])


def kernels(kit):
    """Each part of an update on the GPU, without StarPU, and the two ways of the first convolution."""
    precisions = ["f32"] if kit.tiny else ["f32", "tf32", "bf16"]
    for net, batch in [("cartpole", 1)] if kit.tiny else KERNELS:
        for precision in precisions:
            measure_part(kit, f"kernels/{net} {batch} {precision}", "update_gpu", net, precision, batch)
    for batch, channels in [(1, 16)] if kit.tiny else FIRST_CONVS:
        measure_part(kit, f"kernels/first_conv {batch} {channels}", "first_conv", batch, channels)


def early(kit):
    """Updates with kernels that are launched early, for comparison with those of `kernels`."""
    for net, batch in [("cartpole", 1)] if kit.tiny else KERNELS:
        measure_part(kit, f"early/{net} {batch}", "update_gpu", net, "f32" if kit.tiny else "bf16", batch,
                     env=kit.environment(HD_EARLY_LAUNCH=1))


def hops(kit):
    """What the way of a task to the GPU costs, and to it and back, whatever the task does."""
    for kind in ("gpu", "hop"):
        done = kit.execute(f"hops/{kind}", [kit.program("bench_parts"), "tasks", kind], 60)
        result = done.outcome()
        if result["outcome"] == PASSED:
            line = json.loads(done.said.strip().splitlines()[-1])
            result = {"outcome": MEASURED, "value": line["value"], "unit": line["unit"]}
        kit.record(f"hops/{kind}", **result)


def peers(kit):
    """bench/peers/gpu_torch.py, which takes the turns."""
    facts = read_lines(kit.file("machine.jsonl"))
    torch = facts[-1].get("torch") if facts else None
    if kit.tiny or not torch or not torch["gpu"]:
        kit.record("peers", SKIPPED, why="on the emulation" if kit.tiny else "python3 has no PyTorch that uses the GPU")
        return
    path = kit.file("peers.jsonl")
    if os.path.exists(path):
        os.remove(path)
    words = ["python3", os.path.join(ROOT, "bench/peers/gpu_torch.py"), "--parts", kit.program("bench_parts"),
             "--runner", kit.program("runner"), "--json", path, "--seconds", max(60, min(PEERS_S, kit.left() - 20))]
    # PyTorch brings CUDA's libraries; Heddle's program gets its own.
    env = {**os.environ, "HD_PARTS_LD_LIBRARY_PATH": kit.environment()["LD_LIBRARY_PATH"],
           "TORCHINDUCTOR_CACHE_DIR": kit.file("inductor"), "PYTHONPATH": os.path.join(ROOT, "bench")}
    done = kit.execute("peers", words, PEERS_S + 60, env=env)
    result = done.outcome()
    lines = read_lines(path)
    if result["outcome"] != PASSED:
        kit.record("peers", **result)
    elif not lines:
        kit.record("peers", FAILED, why="it has measured nothing")
    for line in lines:
        rest = {name: line[name] for name in ("min", "max", "repeats", "heddle_times_faster") if name in line}
        kit.record(f"peers/{line['case']}/{line['contender']}", MEASURED, value=line["median"], unit=line["unit"],
                   **rest)
