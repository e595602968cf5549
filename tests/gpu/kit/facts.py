# SPDX-License-Identifier: Apache-2.0
"""What there is on a machine: GPUs, CUDA's libraries, tools, PyTorch. `python3 facts.py` prints what its own
process finds with its LD_LIBRARY_PATH."""

import ctypes
import glob
import json
import os
import platform
import shutil
import site
import subprocess
import sys

LIBRARIES = ["libcudart.so.13", "libcublasLt.so.13", "libnccl.so.2"]
QUERY = "name,driver_version,memory.total,clocks.max.sm,clocks.max.memory,power.limit,compute_mode,mig.mode.current"


def said(*command, env=None):
    """What a command prints, "" if it cannot be run."""
    try:
        done = subprocess.run(command, text=True, capture_output=True, check=False, timeout=120, env=env)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def folders():
    """Where CUDA's libraries may lie, beside the system's places: in toolkits, in Python's packages."""
    python = [*sys.path, *site.getsitepackages(), site.getusersitepackages()]
    python += said("python3", "-c", "import sys; print('\\n'.join(sys.path))").splitlines()
    found = [*os.environ.get("HD_CUDA_LIBRARIES", "").split(":"), *sorted(glob.glob("/usr/local/cuda*/lib64")),
             *(below for top in dict.fromkeys(python) if top
               for below in sorted(glob.glob(os.path.join(top, "nvidia", "*", "lib"))))]
    return [folder for folder in dict.fromkeys(found) if folder]


def find_libraries(bundled):
    """Folders to search, and {library: where it was found, None: nowhere}."""
    system = said("/sbin/ldconfig", "-p") or said("ldconfig", "-p")
    chosen, found = [], {}
    for name in LIBRARIES:
        found[name] = None
        if os.path.exists(os.path.join(bundled, name)):
            found[name] = "the bundle"
            continue
        for folder in folders():
            if os.path.exists(os.path.join(folder, name)):
                found[name] = folder
                if folder not in chosen:
                    chosen.append(folder)
                break
        else:
            if f"\t{name} " in system:
                found[name] = "the system"
    if "\tlibstdc++.so.6 " not in system:
        chosen.append(os.path.join(bundled, "spare"))
    return chosen, found


def number_of(library, function):
    """The number that function(int *) of a library gives, None without one."""
    value = ctypes.c_int(0)
    try:
        call = getattr(ctypes.CDLL(library), function)
    except (OSError, AttributeError):
        return None
    return value.value if call(ctypes.byref(value)) == 0 else None


def ask_libraries():
    """Of this process: whether there is a GPU, and what versions libraries have."""
    lt = None
    try:
        call = ctypes.CDLL("libcublasLt.so.13").cublasLtGetVersion
        call.restype = ctypes.c_size_t
        lt = call()
    except (OSError, AttributeError):
        pass
    return {"gpus": number_of("libcudart.so.13", "cudaGetDeviceCount") or 0,
            "cudart": number_of("libcudart.so.13", "cudaRuntimeGetVersion"),
            "driver": number_of("libcudart.so.13", "cudaDriverGetVersion"),
            "cublasLt": lt, "nccl": number_of("libnccl.so.2", "ncclGetVersion")}


def describe_gpus():
    if not shutil.which("nvidia-smi"):
        return []
    lines = said("nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader").splitlines()
    return [dict(zip(QUERY.split(","), (word.strip() for word in line.split(",")))) for line in lines]


def cpu():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def find_tool(name):
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/local/cuda/bin")


def torch_versions():
    code = ("import json, torch; print(json.dumps({'torch': torch.__version__, 'cuda': torch.version.cuda, "
            "'cudnn': torch.backends.cudnn.version(), 'gpu': torch.cuda.is_available()}))")
    line = said("python3", "-c", code)
    return json.loads(line.splitlines()[-1]) if line else None


def describe(environment, found):
    here = said(sys.executable, os.path.abspath(__file__), env=environment)
    nvcc = find_tool("nvcc")
    return {"gpus": describe_gpus(), **(json.loads(here) if here else {"gpus_seen": 0}), "libraries": found,
            "cpu": cpu(), "cores": len(os.sched_getaffinity(0)), "system": platform.platform(),
            "python": platform.python_version(), "torch": torch_versions(),
            "nvcc": said(nvcc, "--version").splitlines()[-1:] if nvcc else None,
            "compute_sanitizer": find_tool("compute-sanitizer")}


if __name__ == "__main__":
    answers = ask_libraries()
    answers["gpus_seen"] = answers.pop("gpus")
    print(json.dumps(answers))
