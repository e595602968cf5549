#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The job files of examples/ say what works. Those for Kubernetes, Kubeflow and compose run unchanged, in containers of
this host; those for mpirun and SLURM here, and on a real SLURM of two nodes. All end in the bits of one rank."""

import os
import re
import shutil
import stat
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import runner  # noqa: E402
from containers import Containers  # noqa: E402
from nodes import mpi_environment, need_mpi  # noqa: E402
from runner import CONFIG, ROOT, RUNNER, SECRET, Scratch, call, check, environment, result, sets, train  # noqa: E402
from slurm import Slurm, need_slurm  # noqa: E402

try:
    import yaml
except ImportError:
    runner.skip("there is no yaml for Python (Debian: python3-yaml)")

EXAMPLES = os.path.join(ROOT, "examples")
SHORT = sets(world__shards=8, max_train_iter=20, env__stop_value="1e9")
NODES = SHORT + sets(runtime__transport="tcp")  # what `auto` takes among hosts
PATH = os.path.dirname(RUNNER) + os.pathsep + os.environ["PATH"]


def load(path):
    with open(os.path.join(EXAMPLES, path), encoding="utf-8") as file:
        return list(yaml.safe_load_all(file))


def options(command):
    """The run file of a command, and its --set options."""
    return next(word for word in command if word.endswith(".yaml")), [
        word for i, word in enumerate(command) if word == "--set" or command[i - 1] == "--set" or word.startswith("--set=")]


def shorten(path, scratch):
    """The run file at `path` of the checkout with another environment, and a short run."""
    with open(CONFIG, encoding="utf-8") as file:
        short = yaml.safe_load(file)
    with open(path, encoding="utf-8") as file:
        short["world"] = yaml.safe_load(file)["world"]
    short["max_train_iter"], short["env"]["stop_value"] = 20, 1e9
    for key in ("graph", "strategy"):
        short[key] = os.path.join(ROOT, "configs", short[key])
    with open(scratch(os.path.basename(path)), "w", encoding="utf-8") as file:
        yaml.safe_dump(short, file)
    return scratch(os.path.basename(path))


def run_containers(what, ranks, containers, scratch):
    """containers: for each its name, its command, its environment, and more files that it sees. All see /runs."""
    config, keys = options(containers[0][1])
    path = os.path.join(ROOT, "configs", os.path.basename(config))
    short, runs = shorten(path, scratch), scratch(what.replace("/", "-"))
    os.mkdir(runs)
    call("run", short, "--dir", scratch("alone"), "--quiet", *keys)
    reference = result(scratch("alone"))["param_hash"]
    shutil.rmtree(scratch("alone"))
    with Containers(*(name for name, *_ in containers)) as network:
        started = [network.start(number, name, {runs: "/runs", short: "/heddle/configs/" + os.path.basename(path), **files},
                                 command, env)
                   for number, (name, command, env, files) in enumerate(containers)]
        said = [one.communicate(timeout=120)[0] for one in started]
    check(all(one.returncode == 0 for one in started), f"{what}: " + "\n".join(said))
    check_result(what, os.path.join(runs, os.listdir(runs)[0]), reference, ranks)
    return "".join(said)


def run_all(what, command, env, directory, reference, ranks):
    done = subprocess.run(command, env=dict(env, PATH=PATH), text=True, capture_output=True, timeout=120)
    check(done.returncode == 0, f"{what}: {done.stdout}{done.stderr}")
    check_result(what, directory, reference, ranks)


def check_result(what, directory, reference, ranks):
    found = result(directory)
    check(found["param_hash"] == reference and found["ranks"] == ranks,
          f"{what}: {found['param_hash']} of {found['ranks']} ranks, not {reference} of {ranks}")
    print(f"{what}: {ranks} ranks, same bits", flush=True)


def container_environment(container, **more):
    """Values of a container's variables; a Secret holds this test's."""
    variables = {one["name"]: one["value"] if "value" in one else SECRET for one in container["env"]}
    check(all(one.get("valueFrom", {}).get("secretKeyRef") for one in container["env"] if "value" not in one),
          f"unknown sources: {container['env']}")
    return environment(**variables, **more)


def expand(word, env):
    """$(NAME) as Kubernetes puts variables into commands."""
    return re.sub(r"\$\((\w+)\)", lambda match: env[match.group(1)], word)


def check_indexed_job(scratch):
    service, job = load("kubernetes/indexed-job.yaml")
    name, spec = job["metadata"]["name"], job["spec"]
    pod = spec["template"]["spec"]
    check(spec["completionMode"] == "Indexed" and spec["parallelism"] == spec["completions"], f"{spec}")
    check(service["spec"]["clusterIP"] == "None" and service["spec"]["selector"] == {"job-name": name}, f"{service}")
    check(pod["subdomain"] == service["metadata"]["name"], "pods have no names in the service")
    container, pods = pod["containers"][0], []
    for index in range(spec["completions"]):
        env = container_environment(container, JOB_COMPLETION_INDEX=index)
        pods.append((f"{name}-{index}.{pod['subdomain']}", [expand(word, env) for word in container["command"]], env, {}))
    said = run_containers("kubernetes/indexed-job.yaml", 8, pods, scratch)
    check(said.count("ranks share memory in 4 groups of 2, and TCP joins the groups") == 1, said)


def check_pytorchjob(scratch):
    """The operator of v1.7 gives the master its own name, older ones localhost."""
    replicas = load("kubernetes/pytorchjob.yaml")[0]["spec"]["pytorchReplicaSpecs"]
    pods = [replicas[kind]["template"]["spec"] for kind in ("Master", "Worker") for _ in range(replicas[kind]["replicas"])]
    for master in ("pong-master-0", "localhost"):
        names = ["pong-master-0", *(f"pong-worker-{number}" for number in range(len(pods) - 1))]
        containers = []
        for rank, pod in enumerate(pods):
            container = pod["containers"][0]
            check(container["name"] == "pytorch", "the operator looks for a container called pytorch")
            env = container_environment(container, RANK=rank, WORLD_SIZE=len(pods), MASTER_PORT=23456,
                                        MASTER_ADDR=names[0] if rank > 0 else master, PYTHONUNBUFFERED=0)
            containers.append((names[rank], container["command"], env, {}))
        run_containers(f"kubernetes/pytorchjob.yaml, master at {master}", len(pods), containers, scratch)


def check_compose(scratch):
    secret, containers = scratch("heddle.secret"), []
    with open(secret, "wb") as file:
        file.write(os.urandom(32))
    os.chmod(secret, stat.S_IRUSR | stat.S_IWUSR)
    for name, service in load("compose/compose.yaml")[0]["services"].items():
        check(service["volumes"] == ["./runs:/runs", "./heddle.secret:/run/heddle.secret:ro"], f"{service}")
        containers.append((name, service["command"], environment(), {secret: "/run/heddle.secret"}))
    run_containers("compose/compose.yaml", 8, containers, scratch)


def check_mpirun(scratch, reference):
    need_mpi()
    with open(os.path.join(EXAMPLES, "mpirun/hosts"), encoding="ascii") as file:
        slots = [int(re.fullmatch(r"\w+ slots=(\d+)\n", line).group(1)) for line in file]
    with open(scratch("hosts"), "w", encoding="ascii") as file:
        file.write(f"localhost slots={sum(slots)}\n")
    command = [os.path.join(EXAMPLES, "mpirun/run.sh"), CONFIG, scratch("mpirun"), "--quiet", *SHORT]
    run_all("mpirun/run.sh", command, mpi_environment(HOSTS=scratch("hosts")), scratch("mpirun"), reference, 8)


def check_slurm(scratch, reference):
    need_slurm()
    with Slurm(scratch, 8, nodes=2) as slurm:
        slurm.env.update(PATH=PATH, MASTER_ADDR="127.0.0.1")  # no name server knows these nodes
        slurm(os.path.join(EXAMPLES, "slurm/interactive.sh"), CONFIG, scratch("srun"), "--quiet", *NODES)
        check_result("slurm/interactive.sh", scratch("srun"), reference, 8)
        number = slurm("sbatch", "--parsable", f"--output={scratch('job.log')}",
                       os.path.join(EXAMPLES, "slurm/job.sh"), CONFIG, scratch("job"), "--quiet", *NODES).strip()
        slurm.wait(lambda: slurm.state(number) in ("COMPLETED", "FAILED"), "the end of job.sh", 120)
        if not os.path.exists(scratch("job/result.json")):
            with open(scratch("job.log"), encoding="utf-8") as file:
                check(False, f"slurm/job.sh: {file.read()}")
        check_result("slurm/job.sh", scratch("job"), reference, 8)
        check_array(slurm, scratch)


def check_array(slurm, scratch):
    """Three seeds of the ten, and the job that compares them, as the head of the file says."""
    folder, log = scratch("seeds"), scratch("seeds.log")
    jobs = slurm("sbatch", "--parsable", "--array=0-2", f"--output={log}", os.path.join(EXAMPLES, "slurm/seeds.sh"), CONFIG,
                 folder, "--quiet", *SHORT).strip()
    with open(os.path.join(EXAMPLES, "slurm/seeds.sh"), encoding="utf-8") as file:
        command = re.search(r'--wrap "(.*)"', file.read())[1].replace("FOLDER", folder)
    last = slurm("sbatch", "--parsable", f"--dependency=afterany:{jobs}", f"--output={log}", f"--wrap={command}").strip()
    slurm.wait(lambda: slurm.state(last) in ("COMPLETED", "FAILED"), "the comparison of the seeds", 120)
    with open(log, encoding="utf-8") as file:
        said = file.read()
    check(slurm.state(last) == "COMPLETED" and os.path.exists(os.path.join(folder, "compare.html")), said)
    for seed in range(3):
        reference = train(scratch(f"seed {seed}"), "--seed", str(seed), *SHORT)["param_hash"]
        check_result(f"slurm/seeds.sh, seed {seed}", os.path.join(folder, f"seed={seed}"), reference, 1)


def main():
    with Scratch() as scratch:
        reference = train(scratch("one"), *SHORT)["param_hash"]
        check_indexed_job(scratch)
        check_pytorchjob(scratch)
        check_compose(scratch)
        check_mpirun(scratch, reference)
        check_slurm(scratch, reference)


main()
