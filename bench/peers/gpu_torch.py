# SPDX-License-Identifier: Apache-2.0
"""usage: gpu_torch.py [--parts PROGRAM] [--runner PROGRAM] [--device cuda] [--json FILE] [--repeats N] [--seconds S]
                    [--updates N] [--precisions P,...] [CASE ...]

Time of one update on a GPU, frames that lie there to new weights, wall-clock: PyTorch in every way that might be
its best (eager, as a CUDA graph of the whole update, compiled, compiled and as a graph; NCHW and NHWC), against
Heddle's kernels (bench_parts) and whole runs of Heddle (runner), in which envs are stepped and batches sampled, too,
for N updates at a time; in turns on the same GPU. The nets are those of net.py, updates those of
learner.py. CASES, e.g. `pong-32`: net and batch; all of them by default. --device cpu tries the script out.

HD_PARTS_LD_LIBRARY_PATH: where Heddle's programs find their libraries, other than PyTorch's."""

import argparse
import json
import os
import subprocess
import tempfile
import time

import torch

import learner
import net as nets
from turns import Missing, report, OURS

CASES = [("pong", 32), ("nature", 32), ("nature", 256), ("nature", 2048), ("ppo", 320), ("ppo_fast", 768)]
ARITHMETIC = {"f32": [[]], "tf32": [[]], "bf16": [["autocast"], ["master"]]}
HOW = [[], ["graph"], ["compile"], ["compile", "graph"]]
LAYOUTS = [[], ["channels_last"]]
CONFIGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../configs")


def algorithm(net):
    return learner.ALGORITHMS["ppo" if net.startswith("ppo") else "dqn"]


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def capture(once):
    """What replays a call that has been captured."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(4):
            once()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        once()
    return graph.replay


class Way:
    """PyTorch, one way: warm when it has been made."""

    def __init__(self, net, batch, precision, options, device):
        self.device, self.precision = device, precision
        self.set_precision()
        kind = algorithm(net)
        self.batch = tuple(x.to(device) for x in kind.make_batch(batch))
        self.learner = kind(net, options, device=device)
        self.call = self.once
        for _ in range(4):
            self.once()
        if "graph" in options and device == "cuda":
            self.call = capture(self.once)
        wait(device)

    def set_precision(self):
        allowed = self.precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = allowed
        torch.backends.cudnn.allow_tf32 = allowed

    def once(self):
        self.learner.update(self.batch)

    def measure(self, seconds):
        """Milliseconds of an update: of as many as take about `seconds`."""
        self.set_precision()
        calls, took = 1, 0.0
        while True:
            begin = time.perf_counter()
            for _ in range(calls):
                self.call()
            wait(self.device)
            took = time.perf_counter() - begin
            if took > seconds / 2:
                return 1e3 * took / calls
            calls = max(2 * calls, int(calls * seconds / max(took, 1e-6) * 0.8))


def ways(precision):
    return [how + arithmetic + layout for arithmetic in ARITHMETIC[precision] for how in HOW for layout in LAYOUTS]


def choose(net, batch, precision, device, end):
    """The two fastest ways, tried for a quarter of a second each; others are let go."""
    made = {}
    for options in ways(precision):
        name = " ".join(options) or "eager"
        if time.monotonic() > end:
            break
        try:
            way = Way(net, batch, precision, options, device)
            made[name] = (way.measure(0.25), way)
            print(f"  tried {precision:5s} {name:36s} {made[name][0]:9.4f} ms", flush=True)
        except Exception as error:  # a way that PyTorch does not have here
            print(f"  tried {precision:5s} {name:36s} fails: {str(error).splitlines()[:1]}", flush=True)
        best = sorted(made, key=lambda name: made[name][0])[:2]
        made = {name: made[name] for name in best}
    return {name: way for name, (_, way) in made.items()}


def call(*command):
    """What a program of Heddle's prints."""
    env = {**os.environ}
    if path := env.pop("HD_PARTS_LD_LIBRARY_PATH", None):
        env["LD_LIBRARY_PATH"] = path
    done = subprocess.run(command, env=env, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise Missing((done.stderr.splitlines() or [f"exit code {done.returncode}"])[-1])
    return done.stdout


def measure_kernels(program, net, batch, precision):
    return json.loads(call(program, "update_gpu", net, precision, str(batch)).splitlines()[0])["value"]


def settings(net, batch, updates):
    """A config and what it takes to make many updates of each env step with it."""
    if net.startswith("ppo"):
        hidden = nets.PPO[net]
        return "pixel_pong_ppo_fast.yaml", [
            f"env.collector_env_num={batch // 8}", f"policy.collect.n_sample={4 * batch}",
            f"policy.learn.epoch_per_collect={updates // 8}", f"policy.model.encoder_hidden_size_list={hidden}"]
    hidden = nets.DQN[net]
    return "pixel_pong_dqn_ddp.yaml", [
        "env.collector_env_num=32", "policy.collect.n_sample=32", f"policy.learn.update_per_collect={updates // 2}",
        f"policy.model.dueling={str(len(hidden) == 3).lower()}", f"policy.model.encoder_hidden_size_list={hidden}"]


def measure_runs(given, net, batch, precision):
    config, changes = settings(net, batch, given.updates)
    changes += ["world.shards=1", f"policy.learn.batch_size={batch}", f"runtime.precision={precision}",
                f"policy.cuda={str(given.device == 'cuda').lower()}"]
    with tempfile.NamedTemporaryFile() as file:
        call(given.runner, "bench", os.path.join(CONFIGS, config), "--strategies", "serial", "--repeats", "1", "--updates",
             str(given.updates), "--warmup", str(given.updates // 2), "--json", file.name,
             *[word for change in changes for word in ("--set", change)])
        return 1e3 / json.load(file)["updates_per_s"]


def compare(given, net, batch, precision, end):
    name = f"{'ppo ' if net.startswith('ppo') else ''}update {net} {precision}, batch {batch}, 1 GPU"
    print(f"\n{name}: PyTorch's ways", flush=True)
    contenders = {}
    if given.parts:
        contenders[f"{OURS} {precision}"] = lambda: measure_kernels(given.parts, net, batch, precision)
    if given.runner:
        contenders[f"{OURS} {precision}, runs"] = lambda: measure_runs(given, net, batch, precision)
    for way, made in choose(net, batch, precision, given.device, end).items():
        contenders[f"PyTorch {precision}, {way}"] = lambda made=made: made.measure(0.5)
    return report(given, name, "ms", contenders, lines_p=given.lines)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--parts")
    parser.add_argument("--runner")
    parser.add_argument("--updates", type=int, default=800)  # of a run of Heddle's
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--json")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--precisions", default="f32,tf32,bf16")
    parser.add_argument("cases", nargs="*")
    given = parser.parse_args()
    given.save, given.lines = False, []
    end = time.monotonic() + given.seconds
    chosen = [(net, batch) for net, batch in CASES if not given.cases or f"{net}-{batch}" in given.cases]
    for number, (net, batch) in enumerate(chosen):
        for precision in given.precisions.split(","):
            if time.monotonic() > end - 10:
                print("no time left", flush=True)
                return
            torch._dynamo.reset()
            before = len(given.lines)
            compare(given, net, batch, precision, time.monotonic() + (end - time.monotonic()) / (len(chosen) - number))
            if given.json:
                with open(given.json, "a", encoding="utf-8") as file:
                    file.writelines(json.dumps({**line, "versions": {"torch": torch.__version__}}) + "\n"
                                    for line in given.lines[before:])


main()
