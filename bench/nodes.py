# SPDX-License-Identifier: Apache-2.0
"""usage: bench/nodes [--config CONFIG | --net pong,nature] [--mbit 1000,10000] [--delay-us D,...] [--nodes N]
                   [--strategies serial,bucketed:bucket_mb=2] [--transports tcp,ucx,mpi] [--updates N] [--repeats N]
                   [--json FILE] [OPTION ...]

Trains on nodes of one rank and one core each: network namespaces of this machine, on cables that are shaped to each
of the given speeds (Mbit/s) and on which frames arrive that much later (without --delay-us: at once). Contenders take
turns. Prints of each the median time of an update, how much longer it takes than updates of as many ranks that train
apart at the same time, what a node sends per update, and how long that occupies its cable: what is beyond `apart`
is at least what the cable needs longer than the update that may hide it. Strategies are NAME, or
NAME:KEY=VALUE[:KEY=VALUE ...] with other values of its numbers, or of keys of the run file (`graph`, or with a dot), and
LABEL=NAME... calls it so. Then `runner bench` compares the contenders turn by turn, with intervals, with DDP or else the
first strategy, and the parameters of strategies that keep all bits. --json appends a line for each run as `runner bench` does.

--net: updates of one of bench/peers' nets (57 MB and 7 MB of gradients) and next to nothing else, also by PyTorch's DDP
over gloo in the same namespaces, without a communication hook and with those that round to fp16 and bf16, if $HD_PEERS,
build/peers or build/torch has PyTorch. --simulate: also what `runner simulate` says of strategies without settings,
calibrated once for each config, without the network. Needs root, iproute2, for mpi an mpirun. Other options go to
`runner`."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests"))
from machine import ROOT, commit, machine  # noqa: E402
from nodes import Nodes, address_of, need_mpi  # noqa: E402
from runner import RUNNER, SECRET, environment, free_port  # noqa: E402

NETS = {"pong": "[128, 128, 512], dueling: true", "nature": "[32, 64, 64, 512], dueling: false"}
BATCH = 32
APART = "apart"
SWITCH_US = 50  # from node to node where nothing is delayed


def read_arguments():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=True)
    parser.add_argument("--config", default="configs/pixel_pong_dqn_ddp.yaml")
    parser.add_argument("--net", default="")
    parser.add_argument("--mbit", default="1000,10000")
    parser.add_argument("--delay-us", default="")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--strategies", default="serial,bucketed:bucket_mb=2")
    parser.add_argument("--transports", default="tcp")
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--json")
    return parser.parse_known_args()


def find_torch():
    for folder in (os.environ.get("HD_PEERS"), "build/peers", "build/torch"):
        if folder and os.path.exists(f"{folder}/bin/python"):
            return os.path.abspath(f"{folder}/bin/python")
    return None


def read_strategy(text):
    """(what it is called, the strategy's name, settings of the run file) of [LABEL=]NAME[:KEY=VALUE ...]"""
    first, *settings = text.split(":")
    label, _, name = first.rpartition("=")
    return label or text, name, [setting if "." in setting.split("=")[0] or setting.startswith("graph=") else f"strategy.{setting}"
                                 for setting in settings]


def list_exact(strategies):
    """What those are called that cannot change the bits."""
    read = [read_strategy(text) for text in strategies]
    return {label for label, name, settings in read
            if name in ("serial", "bucketed") and all(setting.startswith("strategy.bucket_mb=") for setting in settings)}


class Bench:
    """What one network, and one config or net on it, is measured with."""

    def __init__(self, nodes, options, more, net):
        self.nodes, self.options, self.net = nodes, options, net
        self.n = len(nodes.names)
        cores = sorted(os.sched_getaffinity(0))
        self.prefixes = [[*nodes.inside(node), "taskset", "-c", str(cores[node % len(cores)])] for node in range(self.n)]
        config = "bench/peers/updates.yaml" if net else options.config
        keys = [*more, "--set", "env.stop_value=1e9"]
        if net:
            keys += ["--set", "policy.model={obs_shape: [4, 84, 84], action_shape: 6, encoder_hidden_size_list: "
                              f"{NETS[net]}}}", "--set", "policy.learn.target_update_freq=40"]
        self.words = [config, "--quiet", "--measure-after", str(options.warmup), "--set",
                      f"max_train_iter={options.warmup + options.updates}", *keys]
        self.simulated = [config, "--quiet", *keys, "--set", f"world.shards={self.n}"]

    def wait(self, processes):
        said = [process.communicate(timeout=900)[0] for process in processes]
        if any(process.returncode for process in processes):
            sys.exit("".join(said))
        return said

    def start(self, node, words, **env):
        return subprocess.Popen([*self.prefixes[node], *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env=environment(HEDDLE_SECRET=SECRET, **env))

    def read(self, directory):
        with open(os.path.join(directory, "rates.json"), encoding="utf-8") as file:
            rates = json.load(file)
        return {"ms": 1e3 * rates["seconds"] / rates["updates"], "exposed_ms": 1e3 * rates["exposed_s"] / rates["updates"],
                "busy": rates["busy_s"] / rates["seconds"] / rates["workers"], "exposed": rates["exposed_s"] / rates["seconds"],
                "measured": rates["updates"], "param_hash": rates["param_hash"], "fingerprint": rates["fingerprint"]}

    def run_apart(self, scratch):
        directories = [os.path.join(scratch, str(node)) for node in range(self.n)]
        self.wait([self.start(node, [RUNNER, "run", *self.words, "--set", "world.shards=1", "--strategy",
                                     os.path.join(ROOT, "configs/strategies/serial.yaml"), "--dir", directory])
                   for node, directory in enumerate(directories)])
        runs = [self.read(directory) for directory in directories]
        return {"ms": statistics.mean(run["ms"] for run in runs), "measured": runs[0]["measured"], "busy": runs[0]["busy"]}

    def run_ranks(self, scratch, transport, strategy):
        _, name, settings = read_strategy(strategy)
        directory = os.path.join(scratch, "run")
        words = [*self.words, "--strategy", os.path.join(ROOT, f"configs/strategies/{name}.yaml"), "--dir", directory,
                 "--set", f"runtime.transport={transport}", *(word for setting in settings for word in ("--set", setting))]
        if transport == "mpi":
            done = self.nodes.mpirun(1, "run", *words, cores=True, timeout=900)
            if done.returncode != 0:
                sys.exit(done.stdout + done.stderr)
        else:
            launch = [RUNNER, "launch", "--nnodes", str(self.n), "--nproc-per-node", "1", "--master-addr", address_of(0),
                      "--master-port", str(free_port())]
            self.wait([self.start(node, [*launch, "--node-rank", str(node), *words]) for node in range(self.n)])
        return self.read(directory)

    def calibrate(self, scratch):
        """As many at the same time as there are nodes, which share the machine's caches and memory. Returns a file."""
        files = [os.path.join(scratch, f"calibration{node}.json") for node in range(self.n)]
        self.wait([self.start(node, [RUNNER, "calibrate", *self.simulated, "--strategies", self.list_strategies(), "--updates",
                                     str(self.options.updates + self.options.warmup), "--warmup", str(self.options.warmup),
                                     "--out", file])
                   for node, file in enumerate(files)])
        return files[0]

    def list_strategies(self):
        """Those that `runner calibrate` and `simulate` take: without settings."""
        return ",".join(os.path.join(ROOT, f"configs/strategies/{name}.yaml") for name in self.options.strategies.split(",")
                        if ":" not in name)

    def simulate(self, calibration, mbit, delay_us):
        """{strategy: milliseconds of an update}"""
        results, network = calibration + ".simulated", f"{mbit}Mbit,{SWITCH_US + (delay_us or 0)}us"
        done = subprocess.run([RUNNER, "simulate", *self.simulated, "--strategies", self.list_strategies(), "--nodes",
                               str(self.n), "--network", network, "--calibration", calibration, "--json", results],
                              env=environment(), text=True, capture_output=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        with open(results, encoding="utf-8") as file:
            lines = json.load(file)
        return {os.path.splitext(os.path.basename(line["strategy"]))[0]: 1e3 / line["updates_per_s"]
                for line in lines if line["nodes"] == self.n}

    def run_torch(self, python, ranks, *hook):
        words = [python, os.path.join(ROOT, "bench/peers/ddp_nodes.py"), self.net, str(BATCH), "4", *hook]
        common = {"MASTER_ADDR": address_of(0), "MASTER_PORT": free_port(), "OMP_NUM_THREADS": 1,
                  "MALLOC_MMAP_THRESHOLD_": 2**33, "MALLOC_TRIM_THRESHOLD_": 2**33, "MALLOC_TOP_PAD_": 2**28}
        processes = [self.start(node, words, **common, GLOO_SOCKET_IFNAME=self.nodes.devices[node],
                                **({"WORLD_SIZE": self.n, "RANK": node} if ranks else {})) for node in range(self.n)]
        said = self.wait(processes)
        found = [json.loads(text.strip().splitlines()[-1]) for text in (said[:1] if ranks else said)]
        return {"ms": statistics.mean(run["ms"] for run in found), "measured": found[0]["measured"], "updates": found[0]["updates"]}

    def contenders(self):
        """{name: function of a scratch folder}; what is compared with what is APART of the same kind."""
        made = {f"heddle {APART}": self.run_apart}
        for transport in self.options.transports.split(","):
            for strategy in self.options.strategies.split(","):
                made[f"heddle {transport} {read_strategy(strategy)[0]}"] = \
                    lambda scratch, t=transport, s=strategy: self.run_ranks(scratch, t, s)
        if self.net and (python := find_torch()):
            made[f"ddp {APART}"] = lambda scratch: self.run_torch(python, False)
            for hook in ((), ("fp16",), ("bf16",)):
                made[" ".join(["ddp gloo", *hook])] = lambda scratch, h=hook: self.run_torch(python, True, *h)
        return made

    def measure(self, contender):
        with tempfile.TemporaryDirectory(prefix="heddle-nodes-") as scratch:
            before = sum(self.nodes.sent())
            found = contender(scratch)
            updates = found.pop("updates", self.options.warmup + self.options.updates)
            return {**found, "sent_mb": (sum(self.nodes.sent()) - before) / self.n / updates / 1e6}


def median(runs, name):
    return statistics.median(run[name] for run in runs) if name in runs[0] else None


def show(case, found, simulated):
    for name, runs in found.items():
        ms, sent, exposed = (median(runs, what) for what in ("ms", "sent_mb", "exposed_ms"))
        apart, cable = median(found[f"{name.split()[0]} {APART}"], "ms"), sent * 8000 / case["mbit"]
        model = simulated.get(name.split()[-1]) if name.startswith("heddle") else None
        print(f"  {name:32} {ms:9.1f} {ms - apart:9.1f} {'' if exposed is None else f'{exposed:.1f}':>9} {max(0, cable - apart):9.1f} "
              f"{cable:9.1f} {sent:8.2f}{f'  simulated {model:.1f} ms, {model / ms:.3f}' if model else ''}", flush=True)


def list_results(case, found, options):
    """A line of `runner bench` for each run, first those that the others are compared with."""
    first = "ddp gloo" if "ddp gloo" in found else next(name for name in found if APART not in name)
    common = {"case": "bench", "call": int(1e3 * time.time()), "config": ", ".join(f"{key} {value}" for key, value in case.items()),
              "sets": [], "base_hash": str(case), "ranks": options.nodes, "shards": options.nodes, "workers": 1, "updates": options.updates,
              "warmup": options.warmup, "machine": machine(), "commit": commit(), **case}
    exact = list_exact(options.strategies.split(","))
    for name in sorted(found, key=lambda name: name != first):
        own = {"candidate": name, "strategy": name, "config_hash": name, "lag": int("pipelined" in name),
               "bits_hash": "the same" if name.split()[-1] in exact else name, "param_hash": "none", "fingerprint": "none"}
        for turn, run in enumerate(found[name], 1):
            yield {**common, **own, "turn": turn, "updates_per_s": 1e3 / run["ms"], **run}


def compare(lines, options):
    """Shows what `runner bench` says of the lines, and adds them to --json; ends when runs diverged."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write(text)
        file.flush()
        code = subprocess.run([RUNNER, "bench", file.name], env=environment()).returncode
    if options.json:
        with open(options.json, "a", encoding="utf-8") as file:
            file.write(text)
    if code:
        sys.exit(code)


def measure_network(options, more, net, mbit, delay_us, calibrations):
    case = {"net": net or options.config, "nodes": options.nodes, "mbit": mbit, "delay_us": delay_us}
    with Nodes(mbit, options.nodes, delay_us) as nodes:
        bench = Bench(nodes, options, more, net)
        contenders = bench.contenders()
        case["tcp"] = nodes.find_congestion_control()
        if options.simulate and net not in calibrations:
            calibrations[net] = bench.calibrate(calibrations["folder"])
        found = {name: [] for name in contenders}
        for turn in range(options.repeats):
            for name in list(contenders)[::-1 if turn % 2 else 1]:
                found[name].append(bench.measure(contenders[name]))
        delay = "" if delay_us is None else f", {delay_us} us later"
        print(f"\n{case['net']}, {mbit} Mbit/s{delay}, {options.nodes} nodes, TCP with {case['tcp']}\n{'':34} ms/update    beyond   exposed  at least"
              "  on cable  MB sent")
        simulated = bench.simulate(calibrations[net], mbit, delay_us) if options.simulate else {}
        show(case, found, simulated)
        compare(list_results(case, found, options), options)


def main():
    options, more = read_arguments()
    if "mpi" in options.transports:
        need_mpi()
    if not shutil.which("taskset"):
        sys.exit("bench/nodes needs taskset (Debian: util-linux)")
    os.chdir(ROOT)
    print(f"{machine()}; {options.updates} updates after {options.warmup}, medians of {options.repeats} turns")
    with tempfile.TemporaryDirectory(prefix="heddle-nodes-") as scratch:
        calibrations = {"folder": scratch}
        for net in options.net.split(","):
            for mbit in map(int, options.mbit.split(",")):
                for delay_us in options.delay_us.split(","):
                    measure_network(options, more, net, mbit, int(delay_us) if delay_us else None, calibrations)


main()
