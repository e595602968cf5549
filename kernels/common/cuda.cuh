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

/* Launches kernel(…) with `threads` threads in each of `blocks` blocks (int or dim3) on `stream`, a
 * void *. Yields HD_OK or HD_ERR_DEVICE (logged) for the launch itself; an error of the running
 * kernel is found when the stream is waited for. */
#ifdef __CUDACC__
#define HD_LAUNCH(kernel, blocks, threads, stream, ...)                                            \
    (kernel<<<(blocks), (threads), 0, (cudaStream_t)(stream)>>>(__VA_ARGS__),                      \
     hd_cuda_check(cudaGetLastError(), #kernel))
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
