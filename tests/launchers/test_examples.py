#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The job files of examples/ say what works. Their commands run here with the environment that Kubernetes, Kubeflow,
compose and mpirun would give them, shortened, and end in the bits of one rank; those for SLURM run on a real one of two
nodes."""

import os
import re
import stat
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import runner  # noqa: E402
from nodes import mpi_environment, need_mpi  # noqa: E402
from runner import CONFIG, ROOT, RUNNER, SECRET, Scratch, check, environment, free_port, result, sets, train  # noqa: E402
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


def shorten(command, directory, names):
    """The command with this test's run file and directory, and with addresses for names."""
    words = []
    for word in command:
        if re.search(r"configs/\w+\.yaml$", word):
            check(os.path.exists(os.path.join(ROOT, "configs", os.path.basename(word))), f"there is no {word}")
            word = CONFIG
        for name, value in {**names, r"(?<=--dir=)/runs/\w+": directory}.items():
            word = re.sub(name, value, word)
        words.append(word)
    return words + ["--quiet", *NODES]


def run_all(what, commands, directory, reference, ranks):
    """commands: pairs of a command and its environment."""
    runs = [subprocess.Popen(command, env=dict(env, PATH=PATH), text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT) for command, env in commands]
    said = [run.communicate(timeout=120)[0] for run in runs]
    check(all(run.returncode == 0 for run in runs), f"{what}: " + "\n".join(said))
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


def check_indexed_job(scratch, reference):
    service, job = load("kubernetes/indexed-job.yaml")
    name, spec = job["metadata"]["name"], job["spec"]
    pod = spec["template"]["spec"]
    check(spec["completionMode"] == "Indexed" and spec["parallelism"] == spec["completions"], f"{spec}")
    check(service["spec"]["clusterIP"] == "None" and service["spec"]["selector"] == {"job-name": name}, f"{service}")
    check(pod["subdomain"] == service["metadata"]["name"], "pods have no names in the service")
    container, port = pod["containers"][0], free_port()
    commands = []
    for index in range(spec["completions"]):
        env = container_environment(container, JOB_COMPLETION_INDEX=index)
        words = [expand(word, env) for word in container["command"]]
        names = {rf"{name}-0\.{pod['subdomain']}": "127.0.0.1"}
        commands.append((shorten(words, scratch("indexed"), names) + ["--master-port", str(port)], env))
    run_all("kubernetes/indexed-job.yaml", commands, scratch("indexed"), reference, 8)


def check_pytorchjob(scratch, reference):
    """The operator of v1.7 gives the master its own name, older ones localhost."""
    replicas = load("kubernetes/pytorchjob.yaml")[0]["spec"]["pytorchReplicaSpecs"]
    pods = [replicas[kind]["template"]["spec"] for kind in ("Master", "Worker") for _ in range(replicas[kind]["replicas"])]
    for master in ("127.0.0.1", "localhost"):
        port, commands, directory = free_port(), [], scratch(f"pytorchjob{master}")
        for rank, pod in enumerate(pods):
            container = pod["containers"][0]
            check(container["name"] == "pytorch", "the operator looks for a container called pytorch")
            env = container_environment(container, RANK=rank, WORLD_SIZE=len(pods), MASTER_PORT=port,
                                        MASTER_ADDR="127.0.0.1" if rank > 0 else master, PYTHONUNBUFFERED=0)
            commands.append((shorten(container["command"], directory, {}), env))
        run_all(f"kubernetes/pytorchjob.yaml, master at {master}", commands, directory, reference, len(pods))


def check_compose(scratch, reference):
    services = load("compose/compose.yaml")[0]["services"]
    secret, port, commands = scratch("heddle.secret"), free_port(), []
    with open(secret, "wb") as file:
        file.write(os.urandom(32))
    os.chmod(secret, stat.S_IRUSR | stat.S_IWUSR)
    for service in services.values():
        check("./heddle.secret:/run/heddle.secret:ro" in service["volumes"], f"{service}")
        names = {r"(?<=--master-addr=)node0": "127.0.0.1", "/run/heddle.secret": secret}
        commands.append((shorten(service["command"], scratch("compose"), names) + ["--master-port", str(port)],
                         environment()))
    run_all("compose/compose.yaml", commands, scratch("compose"), reference, 8)


def check_mpirun(scratch, reference):
    need_mpi()
    with open(os.path.join(EXAMPLES, "mpirun/hosts"), encoding="ascii") as file:
        slots = [int(re.fullmatch(r"\w+ slots=(\d+)\n", line).group(1)) for line in file]
    with open(scratch("hosts"), "w", encoding="ascii") as file:
        file.write(f"localhost slots={sum(slots)}\n")
    command = [os.path.join(EXAMPLES, "mpirun/run.sh"), CONFIG, scratch("mpirun"), "--quiet", *SHORT]
    run_all("mpirun/run.sh", [(command, mpi_environment(HOSTS=scratch("hosts")))], scratch("mpirun"), reference, 8)


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


def main():
    with Scratch() as scratch:
        reference = train(scratch("one"), *SHORT)["param_hash"]
        check_indexed_job(scratch, reference)
        check_pytorchjob(scratch, reference)
        check_compose(scratch, reference)
        check_mpirun(scratch, reference)
        check_slurm(scratch, reference)


main()
