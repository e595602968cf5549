/* SPDX-License-Identifier: Apache-2.0 */
/* The base of all CUDA sources here. Kernels use static shared memory only and are launched by
 * HD_LAUNCH, so that they can also be compiled for the host. There, a <cuda_runtime.h> of the tests
 * (tests/emulation) replaces CUDA's and runs them thread by thread. */
#pragma once

#include <cuda_runtime.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "kernels/common/cuda_check.h"
#include "runtime/base/inline.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
}

#ifdef __CUDACC__
/* Returns whether code that HD_AWAIT_INPUTS makes wait is what runs on this thread's GPU. */
static inline bool hd_cuda_code_waits(void)
{
    const int built[] = {__CUDA_ARCH_LIST__}; /* 800: capability 8.0 */
    int gpu = 0, major = 0, minor = 0;
    cudaGetDevice(&gpu);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu);
    for (const int code : built)
        if (code >= 900 && code <= 100 * major + 10 * minor)
            return true;
    return false;
}

static inline int hd_cuda_read_early_launch(bool *early_p)
{
    const char *text = getenv("HD_EARLY_LAUNCH");
    *early_p = text && strcmp(text, "1") == 0;
    if (text && !*early_p && strcmp(text, "0") != 0)
        return hd_fail(HD_ERR_INPUT, "HD_EARLY_LAUNCH=%s: found neither 0 nor 1", text);
    if (*early_p && !hd_cuda_code_waits())
        return hd_fail(HD_ERR_INPUT, "HD_EARLY_LAUNCH=1 needs a GPU of compute capability 9.0 or "
                                     "later, and kernels that were compiled for it");
    return HD_OK;
}

/* Stores whether kernels are launched before their predecessors on a stream have ended, for which
 * HD_EARLY_LAUNCH=1 in the environment asks: programmatic dependent launch (CUDA programming
 * guide), which hides the time of the start. It is off until a GPU has shown that it keeps the
 * bits: nvcc reads what is const and restrict by ld.global.nc, which PTX defines for memory that
 * nothing writes while the kernel lives. Thread safe. Returns HD_OK or HD_ERR_INPUT (logged). */
static inline int hd_cuda_choose_early_launch(bool *early_p)
{
    enum { UNKNOWN, OFF, ON };
    static int chosen; /* of this source's kernels */
    const int known = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
    *early_p = known == ON;
    if (known != UNKNOWN)
        return HD_OK;
    HD_TRY(hd_cuda_read_early_launch(early_p));
    __atomic_store_n(&chosen, *early_p ? ON : OFF, __ATOMIC_RELAXED);
    return HD_OK;
}

template <typename... P, typename... A>
static inline int hd_cuda_launch(const char *name, void (*kernel)(P...), dim3 blocks, dim3 threads,
                                 void *stream, A... arguments)
{
    bool early;
    HD_TRY(hd_cuda_choose_early_launch(&early));
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.stream = (cudaStream_t)stream;
    config.attrs = &attribute;
    config.numAttrs = early;
    (void)cudaLaunchKernelEx(&config, kernel, arguments...);
    return hd_cuda_check(cudaGetLastError(), name);
}

/* Launches kernel(…) with `threads` threads in each of `blocks` blocks (int or dim3) on `stream`, a
 * void *. Yields HD_OK or HD_ERR_DEVICE (logged) for the launch itself; an error of the running
 * kernel is found when the stream is waited for; and HD_ERR_INPUT of hd_cuda_choose_early_launch.
 */
#define HD_LAUNCH(kernel, blocks, threads, stream, ...)                                            \
    hd_cuda_launch(#kernel, kernel, blocks, threads, stream, ##__VA_ARGS__)
#endif

/* Stands first in every kernel. One that was launched before its predecessor had ended waits for
 * that end here, and lets its own successor be launched. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define HD_AWAIT_INPUTS()                                                                          \
    asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory")
#else
#define HD_AWAIT_INPUTS() ((void)0)
#endif

/* Launches with one thread per element use blocks of HD_THREADS; the last one may be partly
 * idle. */
enum { HD_THREADS = 256 };

static inline unsigned hd_cuda_count_blocks(int64_t elements)
{
    return (unsigned)((elements + HD_THREADS - 1) / HD_THREADS);
}

/* __grid_constant__ lets threads index into a kernel argument without a local copy of it. */
#ifndef __grid_constant__
#define __grid_constant__
#endif

/* Yields this thread's element in such a launch; kernels compare it with the number of elements. */
#define HD_ELEMENT ((int64_t)blockIdx.x * blockDim.x + threadIdx.x)
