#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_runtime_calls.py [BINARY ...]: the program's own libraries and its plug-ins call these functions of CUDA's runtime and no
others, so that a call that waits, or one that older drivers and the emulation lack, comes in by intention only."""

import glob
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import RUNNER, check, skip  # noqa: E402

ALLOWED = {
    "devices": "cudaDeviceGetAttribute cudaDeviceGetPCIBusId cudaDeviceGetStreamPriorityRange cudaDriverGetVersion cudaGetDevice "
               "cudaGetDeviceCount cudaGetDeviceProperties cudaRuntimeGetVersion cudaSetDevice",
    "errors": "cudaGetErrorName cudaGetErrorString cudaGetLastError cudaPeekAtLastError cudaStreamQuery",
    "work that waits for nothing": "cudaEventQuery cudaEventRecord cudaGraphLaunch cudaLaunchKernelExC cudaMemcpyAsync",
    "captures": "cudaGraphDestroy cudaGraphExecDestroy cudaGraphInstantiate cudaStreamBeginCapture "
                "cudaStreamEndCapture",
    "what waits, or is for the beginning and the end": "cudaDeviceSynchronize cudaEventCreateWithFlags "
    "cudaEventDestroy cudaFree cudaFreeHost cudaHostAlloc cudaMalloc cudaMemcpy cudaMemset "
    "cudaStreamCreateWithFlags cudaStreamCreateWithPriority cudaStreamDestroy cudaStreamSynchronize",
}


def list_calls(binary):
    """Without those that nvcc makes of launches, which begin with __cuda."""
    option = [] if binary.endswith(".a") else ["-D"]
    done = subprocess.run(["nm", *option, "--undefined-only", binary], capture_output=True, text=True, check=True)
    return set(re.findall(r" (cuda\w+)", done.stdout))


def main(*binaries):
    calls = set().union(*map(list_calls, binaries))
    if not calls:
        skip("this build has no CUDA")
    allowed = set(" ".join(ALLOWED.values()).split())
    check(calls <= allowed, f"calls that are not in the list here: {', '.join(sorted(calls - allowed))}")
    check(allowed <= calls, f"nothing calls any more: {', '.join(sorted(allowed - calls))}")
    print(f"{len(calls)} functions of the runtime in {len(binaries)} binaries")


BUILD = os.path.dirname(RUNNER)
main(*(sys.argv[1:] or glob.glob(f"{BUILD}/libhd_*.a") + glob.glob(f"{BUILD}/plugins/*.so")))
